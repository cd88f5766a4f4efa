//! `tune TASK --track KIND:DIR` and `[track]`: directories of trackers that are kept up to date while trials run. A thread
//! reads on a slow beat what is new in the database and tells it to them; the run waits for it at its end alone, and not for
//! long. What cannot be told is told again on the next beat.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use crate::query;
use config::StudySpec;
use messages::clock;
use messages::exit::Failure;
use report::{Event, Sink};
use search::study::FrozenTrial;
use store::{KnownTrials, Place, Store};
use trial_export::{Tracker, TrackerKind};

/// What is new is told this often.
const BEAT: Duration = Duration::from_secs(2);

/// At its end a run waits for so long until all is told.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tracker's kind and directory, as a configuration asks for them.
type Asked = (TrackerKind, PathBuf);

/// Makes the directories that a configuration asks for.
///
/// # Errors
/// One of them cannot be made, or is no directory (2).
pub(super) fn prepare(spec: &StudySpec) -> Result<(), Failure> {
    for (kind, dir) in asked(spec) {
        std::fs::create_dir_all(&dir).map_err(|why| {
            Failure::input(format!(
                "track.{}: found {}: {why}; expected a directory that is there or can be made",
                kind.word(),
                dir.display()
            ))
        })?;
    }
    Ok(())
}

fn asked(spec: &StudySpec) -> Vec<Asked> {
    let of = |kind: &TrackerKind| {
        let dir = spec.operation.track.get(kind.word())?;
        Some((*kind, dir.clone()))
    };
    TrackerKind::ALL.iter().filter_map(of).collect()
}

/// Shows events as another sink does, and keeps the directories of trackers.
pub(super) struct Tracked {
    shown: Box<dyn Sink>,
    /// What the thread is begun with, once there is a study.
    planned: Option<Planned>,
    running: Option<Running>,
}

struct Planned {
    storage: Place,
    study: String,
    asked: Vec<Asked>,
}

/// The thread.
struct Running {
    over: Sender<()>,
    ended: Receiver<()>,
}

impl Tracked {
    /// `shown` itself where nothing is to be tracked.
    pub(super) fn beside(shown: Box<dyn Sink>, storage: &Place, spec: &StudySpec) -> Box<dyn Sink> {
        let asked = asked(spec);
        if asked.is_empty() {
            return shown;
        }
        let planned = Some(Planned {
            storage: storage.clone(),
            study: spec.study.clone(),
            asked,
        });
        Box::new(Tracked {
            shown,
            planned,
            running: None,
        })
    }
}

impl Sink for Tracked {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        self.shown.handle(event, time);
        if let Event::RunStarted(_) = event
            && let Some(planned) = self.planned.take()
        {
            match begin(planned) {
                Ok(running) => self.running = Some(running),
                Err(why) => tracing::warn!("no thread for trackers: {why}; none is told"),
            }
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let Some(Running { over, ended }) = self.running.take() else {
            return;
        };
        drop(over);
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "the trackers have not been told everything within {} s. The same command goes on with it",
                PATIENCE.as_secs()
            );
        }
    }
}

fn begin(planned: Planned) -> io::Result<Running> {
    let ((over, run_ended), (tell, ended)) = (mpsc::channel(), mpsc::channel());
    thread::Builder::new().name("track".into()).spawn(move || {
        match Teller::open(&planned) {
            Ok(mut teller) => teller.run(&run_ended),
            Err(why) => tracing::warn!("trackers: {why}; none is told"),
        }
        // Dropped at the latest here: whoever waits goes on.
        drop(tell);
    })?;
    Ok(Running { over, ended })
}

/// What the thread has.
struct Teller {
    store: Store,
    study_id: i64,
    seen: KnownTrials,
    told: Vec<Told>,
    /// Reading has failed, which was said.
    warned: bool,
}

/// A tracker, and what it has still to be told.
struct Told {
    name: String,
    tracker: Tracker,
    late: BTreeMap<u64, FrozenTrial>,
    /// Writing has failed, which was said.
    warned: bool,
}

impl Teller {
    fn open(planned: &Planned) -> Result<Teller, String> {
        let store = Store::open_read_only(planned.storage.clone()).map_err(|e| e.to_string())?;
        let study = store.find_study(&planned.study);
        let study = study.map_err(|e| e.to_string())?;
        let study = study.ok_or_else(|| format!("there is no study {}", planned.study))?;
        let metrics = query::metric_names(&study);
        let open = |(kind, dir): &Asked| {
            let name = format!("{}:{}", kind.word(), dir.display());
            let tracker = Tracker::open(*kind, dir, &study.name, &metrics);
            Ok(Told {
                tracker: tracker.map_err(|why| format!("{name}: {why}"))?,
                name,
                late: BTreeMap::new(),
                warned: false,
            })
        };
        Ok(Teller {
            told: planned
                .asked
                .iter()
                .map(open)
                .collect::<Result<_, String>>()?,
            study_id: study.study_id,
            seen: KnownTrials::of_onlooker(),
            store,
            warned: false,
        })
    }

    /// Tells what is new on each beat, and all of it when the run is over.
    fn run(&mut self, over: &Receiver<()>) {
        self.look(true);
        loop {
            let last = over.recv_timeout(BEAT) == Err(RecvTimeoutError::Disconnected);
            self.look(last);
            if last {
                return;
            }
        }
    }

    /// `whole`: also what has changed of trials that had ended.
    fn look(&mut self, whole: bool) {
        if self.store.foreign_change() || whole {
            let changes = match whole {
                true => self.store.changes(self.study_id, &mut self.seen),
                false => self.store.recent_changes(self.study_id, &mut self.seen),
            };
            match changes {
                Ok(changes) => {
                    for told in &mut self.told {
                        let new = changes.trials.iter();
                        told.late.extend(new.map(|t| (t.number, t.clone())));
                    }
                }
                Err(why) if !std::mem::replace(&mut self.warned, true) => {
                    tracing::warn!("trackers: {why}; the run goes on, and reads again");
                }
                Err(_) => {}
            }
        }
        for told in &mut self.told {
            told.tell();
        }
    }
}

impl Told {
    fn tell(&mut self) {
        let now = clock::now().as_millisecond() as f64 / 1e3;
        while let Some((number, trial)) = self.late.first_key_value() {
            let number = *number;
            if let Err(why) = self.tracker.tell(trial, now) {
                if !std::mem::replace(&mut self.warned, true) {
                    let name = &self.name;
                    tracing::warn!(
                        "--track {name}: trial {number}: {why}; the run goes on, and tries again"
                    );
                }
                return;
            }
            self.late.remove(&number);
        }
    }
}

/// `KIND:DIR` of `--track`. No shell makes a home of `~` behind a colon: the configuration does.
pub(super) fn kind_and_dir(text: &str) -> Result<(&'static str, PathBuf), String> {
    let words: Vec<&str> = TrackerKind::ALL.iter().map(|kind| kind.word()).collect();
    let parts = text.split_once(':').filter(|(_, dir)| !dir.is_empty());
    let kind = parts.and_then(|(kind, _)| words.iter().copied().find(|word| *word == kind));
    match (kind, parts) {
        (Some(kind), Some((_, dir))) if dir.starts_with('~') => Ok((kind, dir.into())),
        (Some(kind), Some((_, dir))) => {
            let absolute = std::path::absolute(Path::new(dir));
            Ok((kind, absolute.map_err(|e| e.to_string())?))
        }
        (_, _) => Err(format!(
            "expected KIND:DIR with {} for KIND, for example mlflow:mlruns",
            words.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_that_of_the_shell_or_of_the_home() {
        let here = std::env::current_dir().unwrap();
        let of = |text: &str| kind_and_dir(text);
        assert_eq!(of("mlflow:a b"), Ok(("mlflow", here.join("a b"))));
        assert_eq!(of("wandb:~/w:x"), Ok(("wandb", "~/w:x".into())));
        assert!(
            of("neptune:x")
                .unwrap_err()
                .contains("mlflow, tensorboard, wandb")
        );
    }
}
