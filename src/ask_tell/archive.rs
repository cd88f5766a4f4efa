//! A served study in the database.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::study::abandoned;
use super::{Archive, Opened, RequestedStudy};
use store::{
    Changes, KnownTrials, NewStudy, Place, RunRecord, Store, StoreError, StoreErrorKind,
    StudySummary, Write, Written,
};
use supervisor::{LockOwner, StudyLock};

/// How long a request waits for another program's lock before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// What stands where studies of a task have their task kind.
pub const KIND: &str = "ask-tell";

/// Takes hold of the study in this database and reads it, or makes it. Trials that an earlier
/// session left RUNNING become FAIL; those of other programs are left alone.
///
/// # Errors
/// In words: another process holds the study, the database cannot be used, or the study is not
/// the one asked for. A study that was there is as it was, and nothing was made beside it.
pub fn open(asked: &RequestedStudy, place: &Place, study: &str) -> Result<Opened, String> {
    look(asked, place, study)?;
    let me = LockOwner::this_process();
    let mut hold = StudyLock::take(place, study, &me).map_err(|f| f.message)?;
    let mut store = Store::open(place).map_err(text)?;
    store.set_lock_patience(PATIENCE);
    let found = store.find_study(study).map_err(text)?;
    let study_id = match &found {
        Some(found) => {
            check(&store, asked, found)?;
            found.study_id
        }
        None => create(&mut store, asked, study).map_err(text)?,
    };
    hold.row(study_id, study).map_err(|f| f.message)?;
    store.hold(study_id).map_err(text)?;
    let run_id = begin(&mut store, asked, study_id, me).map_err(text)?;
    let mut seen = KnownTrials::of_run(run_id);
    let all = store.changes(study_id, &mut seen).map_err(text)?;
    let archive = DatabaseArchive {
        store,
        study_id,
        run_id,
        seen,
        stale: false,
        _hold: hold,
    };
    Ok((Box::new(archive), all.trials))
}

/// Refuses before anything is made what can be refused then.
fn look(asked: &RequestedStudy, place: &Place, study: &str) -> Result<(), String> {
    let path = place.file();
    let directory = files::directory(path);
    // A name typed wrong would become a directory that nobody looks for.
    if !directory.is_dir() {
        return Err(format!(
            "storage: found {}, expected a database in a directory that is there; {} is none",
            path.display(),
            directory.display()
        ));
    }
    if !Store::can_open(place).map_err(text)? {
        return Ok(());
    }
    let store = Store::open_read_only(place).map_err(text)?;
    match store.find_study(study).map_err(text)? {
        Some(found) => check(&store, asked, &found),
        None => Ok(()),
    }
}

/// A study in a database.
struct DatabaseArchive {
    store: Store,
    study_id: i64,
    run_id: i64,
    /// The study as the session knows it.
    seen: KnownTrials,
    /// Another program has written to the file since the last look.
    stale: bool,
    /// Given back last.
    _hold: StudyLock,
}

impl Archive for DatabaseArchive {
    fn write(&mut self, writes: &[Write]) -> Result<Written, String> {
        // A connection that was lost while the program trained is made again here, where nothing is lost with it.
        self.stale |= self.store.foreign_change();
        let applied = self.store.apply(self.study_id, self.run_id, writes);
        let written = applied.map_err(text)?;
        if written == Written::Done {
            writes.iter().for_each(|write| self.seen.note(write));
        }
        Ok(written)
    }

    fn changes(&mut self) -> Result<Changes, String> {
        self.stale |= self.store.foreign_change();
        if !self.stale {
            return Ok(Changes::default());
        }
        let changes = self.store.changes(self.study_id, &mut self.seen);
        let changes = changes.map_err(text)?;
        self.stale = false;
        Ok(changes)
    }
}

fn create(store: &mut Store, asked: &RequestedStudy, study: &str) -> Result<i64, StoreError> {
    let mut identity = Map::new();
    identity.insert("task.kind".into(), KIND.into());
    let direction = asked.direction.to_string();
    identity.insert("objective.direction".into(), direction.into());
    let new = NewStudy {
        name: study,
        directions: &[asked.direction],
        user_attrs: &user_attrs(asked),
        identity: &identity,
    };
    store.create_study(&new, &[])
}

/// The attributes of a study that a session sets.
fn user_attrs(asked: &RequestedStudy) -> Map<String, Json> {
    let mut attrs = Map::new();
    attrs.insert("task_kind".into(), KIND.into());
    attrs.insert("sampler".into(), asked.sampler.kind.clone().into());
    let plan = search::sampler::plan(&asked.sampler, &asked.space);
    attrs.insert("sampler_plan".into(), plan.into());
    attrs.insert("trials_goal".into(), asked.n_evals.into());
    attrs
}

/// Whether the study can be continued with what is asked.
fn check(store: &Store, asked: &RequestedStudy, study: &StudySummary) -> Result<(), String> {
    let identity = store.identity(study.study_id).map_err(text)?;
    let kind = identity.as_ref().and_then(|i| i.get("task.kind"));
    if let Some(kind) = kind.and_then(Json::as_str).filter(|k| *k != KIND) {
        return Err(format!(
            "study: found {:?}, whose trials are trained by tune itself (task kind {kind}), \
             expected another name",
            study.name
        ));
    }
    if study.directions != [asked.direction] {
        let was: Vec<String> = study.directions.iter().map(ToString::to_string).collect();
        return Err(format!(
            "direction: found {}, expected {}, which the study {:?} has; or another study",
            asked.direction,
            was.join(", "),
            study.name
        ));
    }
    for trial in store.trials(study.study_id).map_err(text)? {
        if let Some((at, parameter, was)) = asked.space.incompatible(&trial.distributions).next() {
            return Err(format!(
                "space[{at}] {:?}: found {}, expected what trial {} of the study {:?} was drawn \
                 from, {was}; only the bounds of numbers may change. Or take another study",
                parameter.name, parameter.domain, trial.number, study.name
            ));
        }
    }
    Ok(())
}

/// Records the session as a run, and settles what earlier ones left.
fn begin(
    store: &mut Store,
    asked: &RequestedStudy,
    study_id: i64,
    me: LockOwner,
) -> Result<i64, StoreError> {
    let record = RunRecord {
        pid: me.pid,
        host: me.host,
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        operation: json!({
            "trials": asked.n_evals,
            "seed": asked.seed,
            "max_step": asked.max_step,
            "sampler": asked.sampler,
            "pruner": asked.pruner,
        }),
    };
    let run_id = store.begin_run(study_id, &record)?;
    let left = store.reclaimable(study_id, run_id)?;
    let mut writes: Vec<Write> = left.iter().map(|r| abandoned(r.number)).collect();
    writes.push(Write::StudyAttributes {
        user_attrs: user_attrs(asked),
    });
    store.apply(study_id, run_id, &writes)?;
    Ok(run_id)
}

/// The client has named the file itself: what to do with a project directory is no help to it.
fn text(error: StoreError) -> String {
    use StoreErrorKind::{Foreign, Network, NoLog, NotADatabase, NotAFile, NotFound};
    let said = if matches!(error.kind, NotADatabase | NotAFile(_) | Foreign(_)) {
        error.message("it is left as it is; name another file")
    } else if matches!(error.kind, Network(_) | NoLog(_)) {
        error.message("name a file on a local disk")
    } else if matches!(error.kind, NotFound) {
        error.message("")
    } else {
        error.to_string()
    };
    format!("storage: {said}")
}
