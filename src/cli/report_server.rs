//! `tune report --open`: the pages of a database's studies, live, for a browser on this machine.
//!
//! Only this machine reaches it (127.0.0.1), only who knows the address with its token, and only by an address of this
//! machine: a page from elsewhere that has its own name point here is refused. It reads, and changes nothing.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use messages::exit::{Exit, Failure};
use store::{Place, Store, StudySummary};
use summary::{Facts, Page, Scripts, index};

/// Connections at a time; a browser has a handful for each page.
const CONNECTIONS: usize = 64;

/// Bytes of a request: ours are of a line and what a browser says of itself.
const REQUEST: u64 = 16 << 10;

/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a study is looked at; and after its page was made, the pause is so many times as long as that took.
const EVERY: Duration = Duration::from_secs(2);
const REST: u32 = 20;

/// What all connections share.
struct Server {
    storage: Place,
    tune: String,
    port: u16,
    token: String,
    connections: AtomicUsize,
    /// The latest page of each study, with the state that it is of.
    pages: Mutex<BTreeMap<i64, (String, Arc<Page>)>>,
}

/// Serves until the process is ended. `study`: whose page is opened; `tune`: how commands begin.
pub(super) fn serve(storage: &Place, study: &str, port: u16, tune: &str) -> Result<Exit, Failure> {
    let failed = |what: &str, e: io::Error| Failure::input(format!("{what}: {e}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|e| failed(&format!("--port {port}"), e))?;
    let port = listener
        .local_addr()
        .map_err(|e| failed("--open", e))?
        .port();
    let server = Arc::new(Server {
        storage: storage.to_owned(),
        tune: tune.to_owned(),
        port,
        token: token().map_err(|e| failed("/dev/urandom", e))?,
        connections: AtomicUsize::new(0),
        pages: Mutex::default(),
    });
    let id = store::choose(&server.store()?, Some(study))?.study_id;
    let address = format!("http://127.0.0.1:{port}/{}/{id}", server.token);
    super::print(&format!("{address}\nCtrl-C ends it\n"))?;
    show(&address);
    for stream in listener.incoming().flatten() {
        let others = server.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection(Arc::clone(&server));
        if others < CONNECTIONS {
            // Where no thread is to be had, a browser asks again.
            let _ = thread::Builder::new().spawn(move || connection.serve(&stream));
        }
    }
    Ok(Exit::Done)
}

/// One that is counted, until it ends in whatever way.
struct Connection(Arc<Server>);

impl Connection {
    fn serve(self, stream: &TcpStream) {
        // A browser that has gone away is no error.
        let _ = self.0.answer(stream);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// 128 bits that nobody guesses.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Opens it in a browser, where there is a screen.
fn show(address: &str) {
    let screen = ["DISPLAY", "WAYLAND_DISPLAY"];
    if screen.iter().any(|name| std::env::var_os(name).is_some()) {
        let mut command = Command::new("xdg-open");
        command
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Without one the address is on the terminal.
        let _ = command.spawn();
    }
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// All studies.
    Index,
    /// The page of the study with this id.
    Page(i64),
    /// The part of its page with this name.
    Part(i64, &'a str),
    /// The tags of its page's parts, now and whenever the study has changed.
    Events(i64),
    /// An answer of this status and words.
    Refused(u16, &'static str),
}

/// The head of a request: its first line, and the headers that are looked at.
#[derive(Debug, Default)]
struct Head {
    line: String,
    host: String,
    known: String,
}

impl Head {
    /// Whether who asks has what this tag is of (RFC 9110, `If-None-Match`).
    fn knows(&self, tag: &str) -> bool {
        let mut tags = self.known.split(',').map(str::trim);
        tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
    }
}

fn read_head(stream: &TcpStream) -> io::Result<Head> {
    let mut lines = BufReader::new(stream.take(REQUEST)).lines();
    let mut head = Head {
        line: lines.next().transpose()?.unwrap_or_default(),
        ..Head::default()
    };
    for line in lines {
        let line = line?;
        match line.split_once(':') {
            _ if line.is_empty() => return Ok(head),
            Some((name, text)) if name.eq_ignore_ascii_case("host") => {
                head.host = text.trim().to_owned();
            }
            Some((name, text)) if name.eq_ignore_ascii_case("if-none-match") => {
                head.known = text.trim().to_owned();
            }
            Some(_) | None => {}
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// What a request asks for of a server with this port and token.
fn asked<'a>(line: &'a str, host: &str, port: u16, token: &str) -> Asked<'a> {
    let here = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
    let mut words = line.split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    if !here.iter().any(|name| name == host) {
        return Asked::Refused(403, "another host");
    }
    if method != "GET" {
        return Asked::Refused(405, "this only reads");
    }
    let unknown = Asked::Refused(404, "not here");
    let mut parts = path.trim_matches('/').split('/');
    if parts.next() != Some(token) {
        return unknown;
    }
    let Some(study) = parts.next() else {
        return Asked::Index;
    };
    match (study.parse(), parts.next(), parts.next()) {
        (Ok(study), None, None) => Asked::Page(study),
        (Ok(study), Some("events"), None) => Asked::Events(study),
        (Ok(study), Some(part), None) => Asked::Part(study, part),
        _ => unknown,
    }
}

impl Server {
    fn store(&self) -> Result<Store, Failure> {
        Ok(Store::open_read_only(&self.storage)?)
    }

    fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let head = read_head(stream)?;
        let found = match asked(&head.line, &head.host, self.port, &self.token) {
            Asked::Refused(status, why) => return send(stream, status, "text/plain", "", why),
            Asked::Events(study) => return self.events(stream, study),
            Asked::Index => self.index().map(|html| (String::new(), html)),
            Asked::Page(study) => self.page(study).map(|page| (page.tag(), page.html())),
            Asked::Part(study, name) => self.part(study, name),
        };
        match found {
            Ok((tag, _)) if !tag.is_empty() && head.knows(&tag) => {
                send(stream, 304, "text/html", &tag, "")
            }
            Ok((tag, html)) => send(stream, 200, "text/html", &tag, &html),
            Err(failure) => send(stream, 404, "text/plain", "", &failure.to_string()),
        }
    }

    fn study(&self, store: &Store, id: i64) -> Result<StudySummary, Failure> {
        let found = store
            .studies()?
            .into_iter()
            .find(|study| study.study_id == id);
        found.ok_or_else(|| Failure::input("this study is not there any more"))
    }

    fn index(&self) -> Result<String, Failure> {
        let studies = self.store()?.studies()?;
        let listed = studies
            .iter()
            .map(|s| (format!("/{}/{}", self.token, s.study_id), s));
        Ok(index(listed))
    }

    /// The page of a study, made anew where the study has changed.
    fn page(&self, id: i64) -> Result<Arc<Page>, Failure> {
        let store = self.store()?;
        let study = self.study(&store, id)?;
        let state = state(&store, &study)?;
        let pages = || self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = pages().get(&id).filter(|(of, _)| *of == state) {
            return Ok(Arc::clone(known));
        }
        let material = super::report_page::material(&store, &study.name, &[], &self.tune)?;
        let made = Page::new(&material, &Facts::new(&material), Scripts::Live);
        let made = Arc::new(made);
        pages().insert(id, (state, Arc::clone(&made)));
        Ok(made)
    }

    /// A part of it: its tag, and its element.
    fn part(&self, id: i64, name: &str) -> Result<(String, String), Failure> {
        let page = self.page(id)?;
        let part = page.part(name);
        let part = part.ok_or_else(|| Failure::input("this part of the page is not there"))?;
        Ok((part.tag(), part.html.clone()))
    }

    /// Server-sent events: the tags of the page's parts, and again whenever one is another than before.
    fn events(&self, mut stream: &TcpStream, id: i64) -> io::Result<()> {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )?;
        let mut last = String::new();
        loop {
            let began = Instant::now();
            let page = self.page(id);
            let tags = page.map_err(|f| io::Error::other(f.to_string()))?.tags();
            let took = began.elapsed();
            // A comment tells whether the browser is still there.
            let line = match tags == last {
                true => ":\n\n".to_owned(),
                false => format!("data: {tags}\n\n"),
            };
            stream.write_all(line.as_bytes())?;
            last = tags;
            thread::sleep(EVERY.max(took * REST));
        }
    }
}

/// What a study's page depends on, in a text that is another one where that has changed.
fn state(store: &Store, study: &StudySummary) -> Result<String, Failure> {
    let (repeats, struck) = (
        store.repeats(study.study_id, None)?,
        store.struck(study.study_id)?,
    );
    let attempts: usize = repeats.iter().map(|repeat| repeat.attempts.len()).sum();
    let ended = repeats
        .iter()
        .filter(|repeat| repeat.ended.is_some())
        .count();
    Ok(format!(
        "{:?} {:?} {:?} {attempts} {ended} {struck:?}",
        study.last_activity, study.counts, study.user_attrs
    ))
}

fn send(mut stream: &TcpStream, status: u16, kind: &str, tag: &str, body: &str) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        304 => "Not Modified",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        _ => "Not Found",
    };
    let tag = match tag {
        "" => String::new(),
        tag => format!("ETag: {tag}\r\n"),
    };
    // The page says itself what it may load.
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n{tag}\
         Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_token_and_comes_from_here_gets_a_page() {
        fn ask<'a>(line: &'a str, host: &str) -> Asked<'a> {
            asked(line, host, 80, "t0")
        }
        let here = "127.0.0.1:80";
        assert_eq!(ask("GET /t0/3 HTTP/1.1", here), Asked::Page(3));
        assert_eq!(
            ask("GET /t0/3/events HTTP/1.1", "localhost:80"),
            Asked::Events(3)
        );
        assert_eq!(
            ask("GET /t0/3/history HTTP/1.1", here),
            Asked::Part(3, "history")
        );
        assert_eq!(ask("GET /t0/ HTTP/1.1", here), Asked::Index);
        let status = |line: &str, host: &str| match ask(line, host) {
            Asked::Refused(status, _) => status,
            Asked::Index | Asked::Page(_) | Asked::Part(..) | Asked::Events(_) => 200,
        };
        assert_eq!(status("GET /t0/3 HTTP/1.1", "evil.example:80"), 403);
        assert_eq!(status("GET /t0/3 HTTP/1.1", "127.0.0.1"), 403);
        assert_eq!(status("POST /t0/3 HTTP/1.1", here), 405);
        for path in [
            "/",
            "/t1/3",
            "/3",
            "/t0/x",
            "/t0/3/history/more",
            "/t0/3/events/more",
            "/t0/../3",
        ] {
            assert_eq!(status(&format!("GET {path} HTTP/1.1"), here), 404, "{path}");
        }
        assert_eq!(status("", here), 405);
    }
}
