//! `tune ask-tell`: the sampler and the pruner for another program, by requests and replies of one
//! line of JSON each (docs/ask-tell.md).
//!
//! [`Session`] decides and is pure: a line in, a line out. [`serve`] moves the lines, [`Input`] lets
//! a signal end them, [`archive`] keeps a study in the database.

pub mod archive;
mod fields;
mod init;
mod input;
mod request;
mod serve;
mod space;
mod study;
#[cfg(test)]
mod tests;

pub use init::{Place, RequestedStudy};
pub use input::Input;
pub use serve::serve;
pub use study::Archive;

use request::Request;
use study::Study;

use messages::exit::Exit;
use search::study::FrozenTrial;

/// Opens the database that a client names: the archive, and the study's trials so far.
pub type Opener = Box<dyn Fn(&RequestedStudy, &Place) -> Result<Opened, String>>;

/// A study's archive, and the trials that it holds.
pub type Opened = (Box<dyn Archive>, Vec<FrozenTrial>);

/// What a line is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// This line, without its end.
    Line(String),
    /// Nothing: the line was blank.
    Nothing,
    /// Nothing: the exchange is over.
    Closed,
}

/// One exchange. A request that is refused changes nothing.
pub struct Session {
    open: Opener,
    study: Option<Study>,
}

impl Session {
    /// A session before its first request.
    pub fn new(open: Opener) -> Session {
        Session { open, study: None }
    }

    /// Answers a line, given with or without its end.
    pub fn handle(&mut self, line: &[u8]) -> Reply {
        if line.trim_ascii().is_empty() {
            return Reply::Nothing;
        }
        match Request::read(line).and_then(|request| self.carry_out(request)) {
            Ok(Some(reply)) => Reply::Line(reply),
            Ok(None) => Reply::Closed,
            Err(problem) => Reply::Line(refusal(&problem)),
        }
    }

    /// Ends the session, with this exit code: in a database, trials that were not told become FAIL.
    ///
    /// # Errors
    /// The database cannot be written; the study's next session does it then.
    pub fn end(&mut self, exit: Exit) -> Result<(), String> {
        self.study.take().map_or(Ok(()), |study| study.end(exit))
    }

    fn carry_out(&mut self, request: Request) -> Result<Option<String>, String> {
        match request {
            Request::Init(asked) => self.init(*asked).map(Some),
            Request::Ask => self.study("ask")?.ask().map(Some),
            Request::Add { params } => self.study("add")?.add(&params).map(Some),
            Request::Report { id, step, value } => {
                self.study("report")?.report(id, step, value).map(Some)
            }
            Request::Tell { id, result } => {
                self.study("tell")?.tell(id, result)?;
                Ok(Some("{\"ok\":true}".to_owned()))
            }
            Request::Close => Ok(None),
        }
    }

    fn init(&mut self, asked: RequestedStudy) -> Result<String, String> {
        if self.study.is_some() {
            return Err("op: found a second init, expected one a session".to_owned());
        }
        let name = format!("tune {} {}", env!("CARGO_PKG_VERSION"), asked.sampler.kind);
        let (archive, trials) = match &asked.place {
            Some(place) => {
                let (archive, trials) = (self.open)(&asked, place)?;
                (Some(archive), trials)
            }
            None => (None, Vec::new()),
        };
        self.study = Some(Study::new(asked, archive, trials)?);
        Ok(format!("{{\"ok\":true,\"name\":\"{name}\"}}"))
    }

    fn study(&mut self, op: &str) -> Result<&mut Study, String> {
        let none = || format!("op: found {op} before init, expected init first");
        self.study.as_mut().ok_or_else(none)
    }
}

/// The reply that says what is wrong.
fn refusal(problem: &str) -> String {
    let mut reply = String::from("{\"error\":");
    space::write_text(problem, &mut reply);
    reply.push('}');
    reply
}
