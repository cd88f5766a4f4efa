//! Where a PostgreSQL server is, from a URL, and what of it may be shown.
//!
//! A password is taken from the environment (`PGPASSWORD`), from `~/.pgpass` or from a service file,
//! as by libpq, and never from a URL, which process lists and shell histories show.

use std::fmt;
use std::path::{Path, PathBuf};

use config::server_url::{self, decoded};
use files::name::checksum;
use tokio_postgres::config::{Host, SslMode};

/// How to reach a server and a database of it.
#[derive(Clone)]
pub struct Address {
    /// Without a password.
    url: String,
    /// What libpq calls `service`.
    service: Option<String>,
    /// As the URL says.
    mode: Option<SslMode>,
    /// A file with certificates of authorities; `None`: those that browsers trust.
    roots: Option<PathBuf>,
    config: tokio_postgres::Config,
}

/// Two addresses are the same where people read the same.
impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        (&self.url, &self.roots) == (&other.url, &other.roots)
    }
}

impl Eq for Address {}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split_once('?').map_or(&*self.url, |(url, _)| url);
        let by_service = self.config.get_hosts().is_empty() && self.service_name().is_some();
        let found = by_service.then(|| self.config(environment).ok()).flatten();
        let Some(found) = found else {
            return f.write_str(url);
        };
        // A URL without a host says nothing of where the service is.
        let port = found.get_ports().first().copied().unwrap_or(5432);
        let name = found.get_dbname().unwrap_or_default();
        write!(f, "postgresql://{}:{port}/{name}", host_of(&found))
    }
}

const FORM: &str = "expected postgresql://USER@HOST/DATABASE";

const PASSWORD: &str = "the URL holds a password, which process lists show; leave it out and put it into \
    PGPASSWORD, ~/.pgpass or a service file";

impl Address {
    /// Reads a URL: `postgresql://USER@HOST:PORT/DATABASE?sslmode=...&sslrootcert=FILE&service=NAME`,
    /// also with a driver of SQLAlchemy's (`postgresql+psycopg2://`). `None`: another scheme.
    ///
    /// # Errors
    /// What is wrong with it, without a password that is in it.
    pub fn of(text: &str) -> Option<Result<Address, String>> {
        Some(Address::read(server_url::of_postgresql(text)?, environment))
    }

    fn read(rest: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Address, String> {
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        if server_url::has_password(rest) {
            return Err(PASSWORD.to_owned());
        }
        let (mut kept, mut service, mut roots) = (Vec::new(), None, None);
        let mut mode = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decoded(key)?.as_str(), decoded(value)?) {
                ("sslmode", found) => mode = Some(ssl_mode(&found)?),
                ("sslrootcert", file) if file == "system" => roots = None,
                ("sslrootcert", file) => roots = Some(PathBuf::from(file)),
                ("service", name) => service = Some(name),
                // The first `@` of all ends the user's name for the driver.
                _ => kept.push(pair.replace('@', "%40")),
            }
        }
        let plain = plain(base, kept);
        let config: tokio_postgres::Config =
            plain.parse().map_err(|error: tokio_postgres::Error| {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                format!("{}; {FORM}", why.unwrap_or_else(|| error.to_string()))
            })?;
        let elsewhere = ["PGDATABASE", "PGSERVICE"].map(environment);
        let elsewhere = elsewhere.iter().any(Option::is_some) || service.is_some();
        if !elsewhere && config.get_dbname().is_none() {
            return Err(format!("the URL names no database; {FORM}"));
        }
        Ok(Address {
            url: format!("postgresql://{rest}"),
            service,
            mode,
            roots,
            config,
        })
    }

    /// The service that is asked for.
    fn service_name(&self) -> Option<String> {
        self.service.clone().or_else(|| environment("PGSERVICE"))
    }

    /// All of it, without a password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A part of a path for what belongs to the database, `studies-1a2b3c4d`: made of host, port, name and options as they are
    /// written here, in a service file and in the environment. Who names it otherwise gets another one.
    pub(crate) fn key(&self) -> String {
        let resolved = self.config(environment);
        let config = resolved.as_ref().unwrap_or(&self.config);
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let name = config.get_dbname().or(self.service.as_deref());
        let name = name.unwrap_or_default();
        let options = config.get_options().unwrap_or_default();
        let text = format!("{}:{port}/{name} {options}", host_of(config));
        let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let shown: String = name.chars().filter(plain).take(64).collect();
        format!("{shown}-{}", checksum::<4>(&text))
    }

    /// A file with certificates of authorities that are trusted.
    pub(super) fn roots(&self) -> Option<&Path> {
        self.roots.as_deref()
    }

    /// What to connect with: the URL, what a service file and the environment add, and the password.
    ///
    /// # Errors
    /// A service that is asked for is not there; the password file may be read by others.
    pub(super) fn config(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<tokio_postgres::Config, String> {
        let mut config = self.config.clone();
        let home = environment("HOME").map(PathBuf::from).unwrap_or_default();
        if let Some(mode) = environment("PGSSLMODE") {
            let mode = ssl_mode(&mode).map_err(|why| format!("PGSSLMODE: {why}"))?;
            config.ssl_mode(mode);
        }
        if let Some(name) = self.service.clone().or_else(|| environment("PGSERVICE")) {
            let file = environment("PGSERVICEFILE")
                .map_or_else(|| home.join(".pg_service.conf"), PathBuf::from);
            serve(&mut config, &file, &name)?;
        }
        if let Some(mode) = self.mode {
            config.ssl_mode(mode);
        }
        if config.get_user().is_none()
            && let Some(user) = environment("PGUSER")
        {
            config.user(&user);
        }
        if config.get_dbname().is_none()
            && let Some(name) = environment("PGDATABASE")
        {
            config.dbname(&name);
        }
        if config.get_ports().is_empty()
            && let Some(port) = environment("PGPORT")
        {
            let number = port
                .parse()
                .map_err(|_| format!("PGPORT is {port:?}; expected a number"))?;
            config.port(number);
        }
        if config.get_hosts().is_empty() {
            match environment("PGHOST") {
                Some(host) => config.host(&host),
                None => config.host_path("/var/run/postgresql"),
            };
        }
        if config.get_password().is_none() {
            let file =
                environment("PGPASSFILE").map_or_else(|| home.join(".pgpass"), PathBuf::from);
            let found = match environment("PGPASSWORD") {
                Some(found) => Some(found),
                None => password(&config, &file, environment("USER"))?,
            };
            if let Some(found) = found {
                config.password(found);
            }
        }
        Ok(config)
    }
}

/// The URL for the driver. Hosts without a port are parameters in it: each of those before the path gets the usual port there,
/// and a service or `PGPORT` could not name another one.
fn plain(base: &str, mut kept: Vec<String>) -> String {
    let start = base.find('@').map_or(0, |at| at + 1);
    let end = base[start..].find('/').map_or(base.len(), |at| start + at);
    let hosts = &base[start..end];
    let has_port = |host: &str| {
        host.rsplit(']')
            .next()
            .is_some_and(|rest| rest.contains(':'))
    };
    if hosts.is_empty() || hosts.split(',').any(has_port) {
        return format!("postgresql://{base}?{}", kept.join("&"));
    }
    let named = |host: &str| format!("host={}", host.trim_matches(['[', ']']));
    kept.splice(0..0, hosts.split(',').map(named));
    let (user, path) = (&base[..start], &base[end..]);
    format!("postgresql://{user}{path}?{}", kept.join("&"))
}

fn ssl_mode(word: &str) -> Result<SslMode, String> {
    Ok(match word {
        "disable" => SslMode::Disable,
        "allow" | "prefer" => SslMode::Prefer,
        // A certificate is always verified.
        "require" | "verify-ca" | "verify-full" => SslMode::Require,
        other => {
            return Err(format!(
                "sslmode is {other:?}; expected disable, prefer, require or verify-full"
            ));
        }
    })
}

/// Adds what a service file says under a name; what the URL says wins, of `sslmode` once all has been read.
fn serve(config: &mut tokio_postgres::Config, file: &Path, name: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("the service file {}: {error}", file.display()))?;
    let mut lines = text.lines().map(str::trim);
    if !lines.any(|line| line == format!("[{name}]")) {
        return Err(format!("{} has no service [{name}]", file.display()));
    }
    for line in lines.take_while(|line| !line.starts_with('[')) {
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        match (key.trim(), value.trim()) {
            ("host", host) if config.get_hosts().is_empty() => drop(config.host(host)),
            ("port", port) if config.get_ports().is_empty() => {
                let number = port
                    .parse()
                    .map_err(|_| format!("{}: the port of [{name}] is {port:?}", file.display()))?;
                config.port(number);
            }
            ("dbname", database) if config.get_dbname().is_none() => drop(config.dbname(database)),
            ("user", user) if config.get_user().is_none() => drop(config.user(user)),
            ("password", password) => drop(config.password(password)),
            ("sslmode", mode) => drop(config.ssl_mode(ssl_mode(mode)?)),
            _ => {}
        }
    }
    Ok(())
}

/// The password that a file has for a server, in the format of PostgreSQL's `.pgpass`.
fn password(
    config: &tokio_postgres::Config,
    file: &Path,
    me: Option<String>,
) -> Result<Option<String>, String> {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::metadata(file) else {
        return Ok(None);
    };
    if meta.mode() & 0o077 != 0 {
        return Err(format!(
            "the password file {0} may be read by other users; run chmod 600 {0}",
            file.display()
        ));
    }
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let host = host_of(config);
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config
        .get_user()
        .map(str::to_owned)
        .or(me)
        .unwrap_or_default();
    let database = config.get_dbname().unwrap_or(&user);
    let asked = [&host, &port.to_string(), database, &user];
    Ok(text.lines().find_map(|line| matching(line, asked)))
}

/// A variable of the environment; an empty one counts as none, as in PostgreSQL's own programs.
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first host, as libpq calls it: a socket in the usual place is `localhost`.
fn host_of(config: &tokio_postgres::Config) -> String {
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) if path == Path::new("/var/run/postgresql") => {
            "localhost".to_owned()
        }
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    }
}

/// The password on a line of a password file, if the line is for what is asked: host, port, database and user.
fn matching(line: &str, asked: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(chars.next()),
            c => fields.last_mut()?.push(c),
        }
    }
    let password = (fields.len() == 5).then(|| fields.pop()).flatten()?;
    let fits = |(field, asked): (&String, &str)| field == "*" || field == asked;
    fields.iter().zip(asked).all(fits).then_some(password)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
