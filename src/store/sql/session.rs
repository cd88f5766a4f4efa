//! A session on a PostgreSQL server, whose statements need not wait for each other: what nobody needs an answer to is
//! kept and goes out together with the next that somebody does (pipelining), as does what somebody is going to ask, so that a
//! transaction takes a few journeys to the server and not one a statement, while the others wait for its lock.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, TryFuture, TryMaybeDone, select, try_maybe_done};
use futures_util::stream::TryStreamExt;
use tokio::runtime::{self, Runtime};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Kind;
use super::cells::Parameter;

/// What moves bytes between client and server until the session ends.
type Transport = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// What a session fails with.
#[derive(Debug)]
pub(super) enum Failed {
    /// The server, or the way to it.
    Postgres(Error),
    /// No answer came in time; the session is closed.
    NoAnswer(Duration),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Postgres(error)
    }
}

/// An open session.
pub(super) struct Session {
    runtime: Runtime,
    client: Client,
    /// `None`: it has ended.
    transport: Option<Transport>,
    /// What goes out with the next statement that somebody waits for.
    kept: Vec<Kept>,
    /// How long nothing may come of an answer.
    patience: Duration,
    /// What was asked ahead and answered, and nobody has taken yet.
    answers: Vec<(Question, Vec<Row>)>,
}

/// A statement, by our own text, with its parameters.
type Question = (String, Vec<Parameter>);

/// A statement that has not gone out yet.
struct Kept {
    statement: Statement,
    /// Without a text nobody wants an answer.
    question: (Option<String>, Vec<Parameter>),
}

impl Session {
    /// Opens one within some time; by TLS where there is a connector. It waits as long for each part of an answer.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer, or refuses this user.
    pub(super) fn open(
        config: &Config,
        tls: Option<MakeRustlsConnect>,
        patience: Duration,
    ) -> Result<Session, Kind> {
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime = (runtime.enable_all().build())
            .map_err(|error| Kind::Unreachable(format!("no runtime for a connection: {error}")))?;
        let connect = async {
            Ok::<_, Error>(match tls {
                None => {
                    let (client, transport) = config.connect(NoTls).await?;
                    (client, Box::pin(transport) as Transport)
                }
                Some(tls) => {
                    let (client, transport) = config.connect(tls).await?;
                    (client, Box::pin(transport) as Transport)
                }
            })
        };
        let connected = runtime.block_on(async { timeout(patience, connect).await });
        let (client, transport) = connected.map_err(|_| Failed::NoAnswer(patience))??;
        Ok(Session {
            runtime,
            client,
            transport: Some(transport),
            kept: Vec::new(),
            patience,
            answers: Vec::new(),
        })
    }

    /// Sets how long it waits for each part of an answer.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Whether the connection was lost, as far as is known.
    pub(super) fn is_closed(&self) -> bool {
        self.transport.is_none() || self.client.is_closed()
    }

    /// Hears whether the other side has ended the connection meanwhile, without waiting.
    pub(super) fn listen(&mut self) {
        let Session {
            runtime, transport, ..
        } = self;
        runtime.block_on(async {
            // What has come is looked at in between.
            yield_now().await;
            poll_fn(|context| {
                let ended = transport.as_mut().map(|open| open.as_mut().poll(context));
                if matches!(ended, Some(Poll::Ready(_))) {
                    *transport = None;
                }
                Poll::Ready(())
            })
            .await;
        });
    }

    /// Keeps a statement for the next one that somebody waits for. An error that it gives is then that one's.
    pub(super) fn keep(&mut self, statement: Statement, parameters: Vec<Parameter>) {
        let question = (None, parameters);
        self.kept.push(Kept {
            statement,
            question,
        });
    }

    /// Keeps a question for the next statement that somebody waits for; its answer is then there for [`Session::answer`].
    pub(super) fn keep_question(&mut self, statement: Statement, (sql, parameters): Question) {
        let question = (Some(sql), parameters);
        self.kept.push(Kept {
            statement,
            question,
        });
    }

    /// The rows that answer a question that was asked ahead, each once and in order; `None`: it was not.
    pub(super) fn answer(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
    ) -> Result<Option<Vec<Row>>, Failed> {
        let waits =
            |kept: &Kept| kept.question.0.as_deref() == Some(sql) && kept.question.1 == parameters;
        if self.kept.iter().any(waits) {
            self.ask(async |_, _| Ok(()))?;
        }
        let is = |((text, with), _): &(Question, Vec<Row>)| text == sql && with == parameters;
        let at = self.answers.iter().position(is);
        Ok(at.map(|at| self.answers.remove(at).1))
    }

    /// Forgets what was kept, and what was asked ahead.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.answers.clear();
    }

    /// Prepares a statement.
    pub(super) fn prepare(&mut self, sql: &str) -> Result<Statement, Failed> {
        self.ask(async |client, _| client.prepare(sql).await)
    }

    /// Carries out a statement; how many rows it has changed.
    pub(super) fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
    ) -> Result<u64, Failed> {
        self.ask(async |client, _| client.execute_raw(statement, parameters).await)
    }

    /// The rows of an answer.
    pub(super) fn query(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
    ) -> Result<Vec<Row>, Failed> {
        self.ask(async |client, heard| rows(client, statement, parameters, heard).await)
    }

    /// The only row of an answer to a statement that is asked for once.
    pub(super) fn row(
        &mut self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Failed> {
        self.ask(async |client, _| client.query_one(sql, parameters).await)
    }

    /// Carries out statements without parameters.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Failed> {
        self.ask(async |client, _| client.batch_execute(sql).await)
    }

    /// Sends what was kept and behind it what `act` asks, without waiting in between. The error is the first one; what was
    /// kept behind a statement that cannot be sent is not sent.
    fn ask<T>(
        &mut self,
        act: impl AsyncFnOnce(&Client, &Cell<Instant>) -> Result<T, Error>,
    ) -> Result<T, Failed> {
        let Session {
            runtime,
            client,
            transport,
            kept,
            patience,
            answers,
        } = self;
        let (kept, patience) = (std::mem::take(kept), *patience);
        let heard = Cell::new(Instant::now());
        let send =
            async |kept: &Kept| rows(client, &kept.statement, &kept.question.1, &heard).await;
        let mut sent: Vec<_> = (kept.iter())
            .map(|kept| Box::pin(try_maybe_done(send(kept))))
            .collect();
        let mut asked = pin!(act(client, &heard));
        let mut answer = None;
        let answered = poll_fn(|context| {
            // Why the connection was lost says more than that it is closed.
            let ended = transport.as_mut().map(|open| open.as_mut().poll(context));
            if let Some(Poll::Ready(ended)) = ended {
                *transport = None;
                if let Err(error) = ended {
                    return Poll::Ready(Err(error));
                }
            }
            let waits = match poll_in_order(&mut sent, context) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => false,
                Poll::Pending => true,
            };
            if answer.is_none() {
                match asked.as_mut().poll(context) {
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(found)) => answer = Some(found),
                    Poll::Pending => {}
                }
            }
            match answer.take_if(|_| !waits) {
                Some(found) => Poll::Ready(Ok(found)),
                None => Poll::Pending,
            }
        });
        let answered = runtime.block_on(async {
            match select(pin!(answered), pin!(silence(&heard, patience))).await {
                Either::Left((answered, _)) => Ok(answered),
                Either::Right(((), _)) => Err(Failed::NoAnswer(patience)),
            }
        });
        let rows = sent.iter_mut().map(|one| one.as_mut().take_output());
        let rows: Vec<_> = rows.collect();
        drop(sent);
        if answered.is_err() {
            // What is asked next would wait behind what has no answer.
            *transport = None;
        }
        let found = answered??;
        for (kept, rows) in kept.into_iter().zip(rows) {
            if let ((Some(sql), parameters), Some(rows)) = (kept.question, rows) {
                answers.push(((sql, parameters), rows));
            }
        }
        Ok(found)
    }
}

/// Each goes out when it is polled first, and the answers come in the same order.
fn poll_in_order<F: TryFuture>(
    sent: &mut [Pin<Box<TryMaybeDone<F>>>],
    context: &mut Context<'_>,
) -> Poll<Result<(), F::Error>> {
    let mut waits = false;
    for one in sent {
        match one.as_mut().poll(context) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {}
            Poll::Pending => waits = true,
        }
    }
    if waits {
        Poll::Pending
    } else {
        Poll::Ready(Ok(()))
    }
}

/// The rows that answer a statement; notes when something of them has come.
async fn rows(
    client: &Client,
    statement: &Statement,
    parameters: &[Parameter],
    heard: &Cell<Instant>,
) -> Result<Vec<Row>, Error> {
    let mut stream = pin!(client.query_raw(statement, parameters).await?);
    heard.set(Instant::now());
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        heard.set(Instant::now());
        rows.push(row);
    }
    heard.set(Instant::now());
    Ok(rows)
}

/// Ends once nothing has come for so long.
async fn silence(heard: &Cell<Instant>, patience: Duration) {
    while Instant::now() < heard.get() + patience {
        sleep_until(heard.get() + patience).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const SHORT: Duration = Duration::from_millis(200);

    /// A server that says this to who connects, and nothing more.
    fn server(says: &'static [u8]) -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            connection.write_all(says).unwrap();
            let _ = connection.read_to_end(&mut Vec::new());
        });
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("a");
        config
    }

    #[test]
    fn a_server_that_takes_a_connection_and_says_nothing_is_not_waited_for() {
        let Err(Kind::Unreachable(what)) = Session::open(&server(b""), None, SHORT) else {
            panic!("no error");
        };
        assert!(what.contains("no answer"), "{what}");
    }

    #[test]
    fn a_session_whose_server_gives_no_answer_is_closed() {
        // Welcome, and ready.
        let says = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        let mut session = Session::open(&server(says), None, SHORT).unwrap();
        assert!(!session.is_closed());
        assert!(matches!(
            session.batch("SELECT 1"),
            Err(Failed::NoAnswer(_))
        ));
        assert!(session.is_closed());
    }
}
