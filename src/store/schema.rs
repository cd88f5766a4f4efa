//! The tables: Optuna's, exactly as Optuna 5.0.0 makes them, and our own.

/// Optuna's tables.
pub(super) const OPTUNA: &str = include_str!("optuna.sql");

/// Optuna's `version_info.schema_version` that these tables are.
pub(super) const OPTUNA_SCHEMA: i64 = 12;

/// The library version that a new file carries: that of the Optuna whose schema it is.
pub const OPTUNA_LIBRARY: &str = "5.0.0";

/// The Alembic revision of Optuna's tables.
pub(super) const OPTUNA_REVISION: &str = "v3.2.0.a";

/// Alembic revisions before [`OPTUNA_REVISION`].
pub(super) const OPTUNA_OLDER_REVISIONS: [&str; 9] = [
    "v0.9.0.a",
    "v1.2.0.a",
    "v1.3.0.a",
    "v2.4.0.a",
    "v2.6.0.a_",
    "v3.0.0.a",
    "v3.0.0.b",
    "v3.0.0.c",
    "v3.0.0.d",
];

/// Our own migrations, in order: only ever appended, never changed. The version of a file is the
/// number of migrations it has had.
pub(super) const MIGRATIONS: [(&str, &str); 7] = [
    ("studies, runs and attempts", FIRST),
    ("repeats", REPEATS),
    ("gpu samples", GPU_SAMPLES),
    ("memory", MEMORY),
    ("leases", LEASES),
    ("memory of processes on GPUs", GPU_PROCESSES),
    ("requests to stop", STOPS),
];

/// The version of a file that this program writes.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// Rows of ours go with the rows they describe, whoever deletes those: Optuna deletes studies
/// without foreign keys being enforced, and SQLite hands ids out again.
const FIRST: &str = "
CREATE TABLE tune_studies (
    study_id INTEGER PRIMARY KEY REFERENCES studies(study_id) ON DELETE CASCADE,
    identity_json TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE tune_runs (
    run_id INTEGER PRIMARY KEY AUTOINCREMENT,
    study_id INTEGER NOT NULL REFERENCES studies(study_id) ON DELETE CASCADE,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    command_json TEXT NOT NULL,
    operation_json TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    exit_code INTEGER
);
CREATE INDEX tune_ix_runs_study ON tune_runs (study_id);
-- The trials that tune itself has made or claimed: these, and no others, it takes up again.
CREATE TABLE tune_trials (
    trial_id INTEGER PRIMARY KEY REFERENCES trials(trial_id) ON DELETE CASCADE,
    run_id INTEGER NOT NULL
);
CREATE TABLE tune_attempts (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    device TEXT NOT NULL,
    log TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    outcome TEXT,
    detail TEXT,
    again INTEGER,
    PRIMARY KEY (trial_id, attempt)
) WITHOUT ROWID;
CREATE INDEX tune_ix_trials_state ON trials (study_id, state);
CREATE INDEX tune_ix_trials_number ON trials (study_id, number);
CREATE TRIGGER tune_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_attempts WHERE trial_id = OLD.trial_id;
    DELETE FROM tune_trials WHERE trial_id = OLD.trial_id;
END;
CREATE TRIGGER tune_study_deleted BEFORE DELETE ON studies BEGIN
    DELETE FROM tune_runs WHERE study_id = OLD.study_id;
    DELETE FROM tune_studies WHERE study_id = OLD.study_id;
END;
";

/// Trainings of a trial's point with other seeds: no trials, so that neither Optuna nor the search
/// takes them for results. `purpose` is `repeat` (from 1) or `test` (repeat 0).
const REPEATS: &str = "
CREATE TABLE tune_repeats (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    state TEXT NOT NULL,
    value REAL,
    attrs_json TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    PRIMARY KEY (trial_id, purpose, repeat)
) WITHOUT ROWID;
CREATE TABLE tune_repeat_attempts (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    worker INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    device TEXT NOT NULL,
    log TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    outcome TEXT,
    detail TEXT,
    again INTEGER,
    PRIMARY KEY (trial_id, purpose, repeat, attempt)
) WITHOUT ROWID;
CREATE TRIGGER tune_repeated_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_repeat_attempts WHERE trial_id = OLD.trial_id;
    DELETE FROM tune_repeats WHERE trial_id = OLD.trial_id;
END;
";

/// What the GPUs were at, a row a minute: averages, and peaks where a column says so. Memory is in
/// bytes, `throttle` a list with commas.
const GPU_SAMPLES: &str = "
CREATE TABLE tune_gpu_samples (
    run_id INTEGER NOT NULL REFERENCES tune_runs(run_id) ON DELETE CASCADE,
    gpu INTEGER NOT NULL,
    time TEXT NOT NULL,
    samples INTEGER NOT NULL,
    memory_total INTEGER NOT NULL,
    memory_used INTEGER NOT NULL,
    memory_peak INTEGER NOT NULL,
    utilization REAL,
    utilization_peak INTEGER,
    temperature REAL,
    temperature_peak INTEGER,
    power REAL,
    power_peak REAL,
    clock REAL,
    throttle TEXT NOT NULL,
    ecc_uncorrected INTEGER,
    remapped_rows INTEGER,
    recovery_action TEXT,
    PRIMARY KEY (run_id, gpu, time)
) WITHOUT ROWID;
CREATE TRIGGER tune_sampled_run_deleted BEFORE DELETE ON tune_runs BEGIN
    DELETE FROM tune_gpu_samples WHERE run_id = OLD.run_id;
END;
";

/// What attempts used of memory, in bytes but for `retries` and `ooms`. `purpose` and `repeat` as in
/// `tune_repeats`, and `search`, 0 for the trials' own attempts.
const MEMORY: &str = "
CREATE TABLE tune_memory (
    trial_id INTEGER NOT NULL REFERENCES trials(trial_id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    device TEXT NOT NULL,
    outcome TEXT NOT NULL,
    capacity INTEGER,
    allocated INTEGER,
    reserved INTEGER,
    unallocated INTEGER,
    inactive_split INTEGER,
    retries INTEGER,
    ooms INTEGER,
    process INTEGER,
    context INTEGER,
    resident INTEGER,
    resident_before INTEGER,
    granted INTEGER,
    predicted_lower INTEGER,
    predicted_expected INTEGER,
    predicted_upper INTEGER,
    halvings INTEGER NOT NULL,
    PRIMARY KEY (trial_id, purpose, repeat, attempt)
) WITHOUT ROWID;
CREATE TRIGGER tune_measured_trial_deleted BEFORE DELETE ON trials BEGIN
    DELETE FROM tune_memory WHERE trial_id = OLD.trial_id;
END;
";

/// Until when a run holds the trials that it is running (`tune_trials.run_id`), by the database's clock in seconds since
/// 1970; it is renewed long before. A file has none: the locks on it tell whether its run lives.
const LEASES: &str = "
CREATE TABLE tune_leases (
    run_id INTEGER PRIMARY KEY REFERENCES tune_runs(run_id) ON DELETE CASCADE,
    node TEXT NOT NULL,
    seconds INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
CREATE TRIGGER tune_leasing_run_deleted BEFORE DELETE ON tune_runs BEGIN
    DELETE FROM tune_leases WHERE run_id = OLD.run_id;
END;
";

/// What each process used of the GPU's memory, in bytes, at most: a JSON object by process id.
const GPU_PROCESSES: &str = "
ALTER TABLE tune_gpu_samples ADD COLUMN processes TEXT;
";

/// Whether the node of a lease is asked to stop: 1, that it starts nothing new; 2, that it puts back at once what runs.
const STOPS: &str = "
ALTER TABLE tune_leases ADD COLUMN stop INTEGER;
";
