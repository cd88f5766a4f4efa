//! A PostgreSQL server of the machine's own packages, for as long as a value lives (`tests/postgres.sh`).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server.
pub struct Server {
    child: Child,
    orders: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
    /// The directory of its socket.
    pub socket: PathBuf,
    port: String,
}

impl Server {
    /// Starts one; `root` is the directory of the project.
    pub fn start(root: &Path, settings: &[&str]) -> Server {
        let port = settings.iter().find_map(|s| s.strip_prefix("tls="));
        let mut child = Command::new(root.join("tests/postgres.sh"))
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server {
            orders: child.stdin.take(),
            told: BufReader::new(child.stdout.take().unwrap()),
            child,
            socket: PathBuf::new(),
            port: port.unwrap_or("5432").to_owned(),
        };
        server.socket = server.line().into();
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.told.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "PostgreSQL did not start");
        line.trim().to_owned()
    }

    /// Stops it as an administrator does, and starts it again after so many seconds.
    #[allow(dead_code)]
    pub fn restart(&mut self, after_s: u32) {
        let orders = self.orders.as_mut().unwrap();
        writeln!(orders, "restart {after_s}").unwrap();
        self.line();
    }

    /// What a statement answers, as psql prints it.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = Command::new("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--username", "postgres", "--dbname", database])
            .args(["--set", "ON_ERROR_STOP=1", "--command", statement])
            .args(["--port", &self.port, "--host"])
            .arg(&self.socket)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statement}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A URL for `tune`, and for SQLAlchemy.
    pub fn url(&self, database: &str) -> String {
        let socket = self.socket.display();
        format!("postgresql://postgres@/{database}?host={socket}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
