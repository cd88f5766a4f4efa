//! What is asked of a hub. Nothing that it answers is believed beyond what is asked for: every answer has a bound in
//! bytes and in time, and no byte behind the announced end of a file is read.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use serde::Deserialize;
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body, Timeout};

/// Longest list of a repository's files that is read, in bytes. The largest known have a few thousand files.
const MAX_LIST: u64 = 32 << 20;

/// Redirections that are followed.
const MAX_REDIRECTS: u32 = 10;

/// Fewest bytes of a download within the time that a hub may be silent for.
pub const FEWEST: u64 = 16 << 10;

/// Why there is no answer that is of use.
#[derive(Debug)]
pub enum HubError {
    /// The hub answers this status.
    Status(u16),
    /// Not a byte came for this long.
    Silent(Duration),
    /// A small answer was not whole after this long.
    Late(Duration),
    /// Of a file, fewer than [`FEWEST`] bytes came in this time.
    Slow(Duration),
    /// The connection cannot be made, or broke.
    Broken(String),
    /// The file has more bytes than were announced, which is how many.
    Long(u64),
    /// No hub answers so; what it was.
    Odd(String),
    /// What came cannot be written.
    Unwritable(io::Error),
}

impl HubError {
    /// What is in the way where another try may help: the connection broke, or the hub is busy.
    pub fn passing(&self) -> Option<String> {
        if let HubError::Broken(why) = self {
            return Some(why.clone());
        }
        if let HubError::Status(code) = self {
            return (*code == 429 || *code >= 500).then(|| format!("status {code}"));
        }
        None
    }
}

/// A repository: its commit and its files.
#[derive(Debug, Deserialize)]
pub struct Listing {
    /// The commit.
    pub sha: String,
    /// The files.
    pub siblings: Vec<Sibling>,
}

/// A file of a repository.
#[derive(Debug, Deserialize)]
pub struct Sibling {
    /// Its name.
    pub rfilename: String,
}

/// What a hub says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Without quotes.
    pub etag: String,
    /// The commit that it is of.
    pub commit: String,
    /// Size in bytes.
    pub size: u64,
}

/// A hub, asked about one model.
pub struct Client {
    agent: Agent,
    /// Follows no redirections.
    direct: Agent,
    endpoint: String,
    model: String,
    token: Option<String>,
    patience: Duration,
}

impl Client {
    /// The client of a hub at `endpoint`, which is never silent for longer than `patience`.
    pub fn new(endpoint: &str, model: &str, token: Option<String>, patience: Duration) -> Client {
        let config = || {
            Agent::config_builder()
                .user_agent(concat!("tune/", env!("CARGO_PKG_VERSION")))
                // A hub with TLS does not send anybody to a place without.
                .https_only(endpoint.starts_with("https://"))
                .redirect_auth_headers(RedirectAuthHeaders::SameHost)
                .timeout_resolve(Some(patience))
                .timeout_connect(Some(patience))
                .timeout_recv_response(Some(patience))
                .timeout_per_read(Some(patience))
                .timeout_per_write(Some(patience))
        };
        Client {
            agent: config().max_redirects(MAX_REDIRECTS).build().new_agent(),
            direct: config().max_redirects(0).build().new_agent(),
            endpoint: endpoint.to_owned(),
            model: model.to_owned(),
            token,
            patience,
        }
    }

    /// The repository at a revision.
    ///
    /// # Errors
    /// There is no such, or no answer, or none of use.
    pub fn list(&self, revision: &str) -> Result<Listing, HubError> {
        let revision = escaped(revision);
        let url = format!(
            "{}/api/models/{}/revision/{revision}",
            self.endpoint, self.model
        );
        let mut answer = self.small(&self.agent, &url, false)?;
        let mut text = Vec::new();
        let mut body = answer.body_mut().as_reader().take(MAX_LIST + 1);
        body.read_to_end(&mut text).map_err(|e| self.io(e))?;
        if text.len() as u64 > MAX_LIST {
            return Err(HubError::Odd(format!(
                "a list of files of more than {MAX_LIST} bytes"
            )));
        }
        serde_json::from_slice(&text).map_err(|e| HubError::Odd(format!("no list of files: {e}")))
    }

    /// What the hub says of a file of a commit.
    ///
    /// # Errors
    /// There is no such file, or no answer, or none of use.
    pub fn meta(&self, commit: &str, file: &str) -> Result<Meta, HubError> {
        let mut url = self.url(commit, file);
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.small(&self.direct, &url, true)?;
            let headers = answer.headers();
            let location = match answer.status().is_redirection() {
                true => Some(header(headers, "location")?),
                false => None,
            };
            // Within the hub a redirection only renames the model; another host has the bytes and knows their number.
            if let Some(path) = location.filter(|l| l.starts_with('/') && !l.starts_with("//")) {
                url = format!("{}{path}", origin(&self.endpoint));
                continue;
            }
            let etag = header(headers, "x-linked-etag").or_else(|_| header(headers, "etag"))?;
            let etag = etag.strip_prefix("W/").unwrap_or(etag).replace('"', "");
            let commit = header(headers, "x-repo-commit")?.to_owned();
            let size = match location {
                Some(location) => size(self.small(&self.agent, location, true)?.headers())?,
                None => size(headers)?,
            };
            return Ok(Meta { etag, commit, size });
        }
        Err(HubError::Odd(format!(
            "more than {MAX_REDIRECTS} redirections"
        )))
    }

    /// Downloads the bytes of a file of `size` bytes, from number `from` on, or from the start if the hub heeds no
    /// ranges. `write` is first called with an empty slice and where the bytes begin, then with each piece and where
    /// it is.
    ///
    /// # Errors
    /// There is no answer or none of use; the hub becomes slow; there are fewer or more bytes than `size`.
    pub fn download(
        &self,
        (commit, file): (&str, &str),
        from: u64,
        size: u64,
        write: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), HubError> {
        let request = self.agent.get(self.url(commit, file));
        let request = self
            .authorised(request)
            .header("Range", format!("bytes={from}-"));
        let mut answer = request.call().map_err(|e| self.trouble(e))?;
        let headers = answer.headers();
        let mut at = match answer.status().as_u16() {
            206 => begin(header(headers, "content-range")?)?,
            _ => 0,
        };
        if at != from && at != 0 {
            return Err(HubError::Odd(format!(
                "bytes from {at} on, asked for those from {from} on"
            )));
        }
        let announced = header(headers, "content-length")
            .ok()
            .and_then(|n| n.parse::<u64>().ok());
        if announced.is_some_and(|n| n > size - at) {
            return Err(HubError::Long(size));
        }
        write(at, &[]).map_err(HubError::Unwritable)?;
        let mut buffer = vec![0u8; 1 << 16];
        let mut body = answer.body_mut().as_reader();
        let mut since = (Instant::now(), at);
        loop {
            let count = body.read(&mut buffer).map_err(|e| self.io(e))?;
            if count == 0 {
                break;
            }
            if count as u64 > size - at {
                return Err(HubError::Long(size));
            }
            write(at, &buffer[..count]).map_err(HubError::Unwritable)?;
            at += count as u64;
            if since.0.elapsed() >= self.patience {
                if at - since.1 < FEWEST && at < size {
                    return Err(HubError::Slow(self.patience));
                }
                since = (Instant::now(), at);
            }
        }
        match at == size {
            true => Ok(()),
            false => Err(HubError::Broken(format!(
                "it ends after {at} of {size} bytes"
            ))),
        }
    }

    fn url(&self, commit: &str, file: &str) -> String {
        let parts: Vec<String> = file.split('/').map(escaped).collect();
        let (endpoint, model) = (&self.endpoint, &self.model);
        format!("{endpoint}/{model}/resolve/{commit}/{}", parts.join("/"))
    }

    /// The answer to a request that has a small one; `probing`: of a file, of which the first byte is enough.
    fn small(&self, agent: &Agent, url: &str, probing: bool) -> Result<Response<Body>, HubError> {
        let mut request = agent.get(url);
        if url
            .strip_prefix(origin(&self.endpoint))
            .is_some_and(|rest| rest.starts_with('/'))
        {
            request = self.authorised(request);
        }
        if probing {
            request = request.header("Range", "bytes=0-0");
        }
        let request = request
            .config()
            .timeout_global(Some(self.patience * 2))
            .build();
        request.call().map_err(|e| self.trouble(e))
    }

    fn authorised<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn io(&self, error: io::Error) -> HubError {
        self.trouble(error.into())
    }

    fn trouble(&self, error: ureq::Error) -> HubError {
        use ureq::Error::{
            BadUri, Http, LargeResponseHeader, RequireHttpsOnly, StatusCode, Timeout as TimedOut,
            TooManyRedirects,
        };
        if let StatusCode(code) = error {
            HubError::Status(code)
        } else if let TimedOut(Timeout::Global) = error {
            HubError::Late(self.patience * 2)
        } else if let TimedOut(_) = error {
            HubError::Silent(self.patience)
        } else if let TooManyRedirects = error {
            HubError::Odd(format!("more than {MAX_REDIRECTS} redirections"))
        } else if let RequireHttpsOnly(_) = error {
            HubError::Odd("a redirection to a place without TLS".to_owned())
        } else if matches!(error, LargeResponseHeader(..) | Http(_) | BadUri(_)) {
            HubError::Odd(error.to_string())
        } else {
            HubError::Broken(error.to_string())
        }
    }
}

/// Scheme and host of an address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find('/').map_or(url, |at| &url[..host + at])
}

/// As a part of an address.
fn escaped(part: &str) -> String {
    let kept = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    part.bytes()
        .map(|b| match kept(b) {
            true => char::from(b).to_string(),
            false => format!("%{b:02X}"),
        })
        .collect()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, HubError> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| HubError::Odd(format!("no header {name}")))
}

/// The size of a file, of which a part was sent.
fn size(headers: &HeaderMap) -> Result<u64, HubError> {
    let range = header(headers, "content-range")?;
    let size = range.rsplit('/').next().and_then(|size| size.parse().ok());
    size.ok_or_else(|| HubError::Odd(format!("Content-Range {range:?}")))
}

/// Where the part begins that was sent: `bytes 5-9/10`.
fn begin(range: &str) -> Result<u64, HubError> {
    let begin = range
        .trim()
        .strip_prefix("bytes ")
        .and_then(|r| r.split('-').next());
    let begin = begin.and_then(|begin| begin.trim().parse().ok());
    begin.ok_or_else(|| HubError::Odd(format!("Content-Range {range:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_a_name_is_escaped_in_it() {
        assert_eq!(
            origin("https://hub.example/mirror/x"),
            "https://hub.example"
        );
        assert_eq!(origin("http://[::1]:80"), "http://[::1]:80");
        assert_eq!(escaped("a b?c#d%é"), "a%20b%3Fc%23d%25%C3%A9");
        assert_eq!(
            escaped("model-00001.safetensors"),
            "model-00001.safetensors"
        );
        let client = Client::new("http://h/m", "org/tiny", None, Duration::from_secs(1));
        assert_eq!(
            client.url("c0", "a/b c"),
            "http://h/m/org/tiny/resolve/c0/a/b%20c"
        );
    }

    #[test]
    fn a_range_says_where_it_begins_or_is_odd() {
        assert_eq!(begin("bytes 5-9/10").unwrap(), 5);
        for odd in ["", "5-9/10", "bytes */10", "bytes -1-9/10"] {
            assert!(matches!(begin(odd), Err(HubError::Odd(_))), "{odd}");
        }
    }
}
