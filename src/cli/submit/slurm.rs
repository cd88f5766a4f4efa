//! A job array of Slurm's, one task a node.

use std::fmt::Write;

use super::{Job, LEAD};
use report::shell_word;

pub(super) fn command() -> Vec<String> {
    vec!["sbatch".to_owned()]
}

/// The variables that tell the job, and which of its tasks this is.
const TASK: [&str; 2] = ["$SLURM_ARRAY_JOB_ID", "$SLURM_ARRAY_TASK_ID"];

/// A path in a pattern of files' names.
fn pattern(path: &str) -> String {
    path.replace('%', "%%")
}

/// An option as sbatch reads it in a script: in quotes of either kind a backslash takes the next character as it is, and
/// outside of them `#` begins a comment.
fn word(option: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !r#"\"'#"#.contains(c);
    match option.chars().all(plain) {
        true => option.to_owned(),
        false => format!("\"{}\"", option.replace('\\', r"\\").replace('"', "\\\"")),
    }
}

/// The script.
pub(super) fn script(job: &Job) -> String {
    let mut options = vec![
        format!("--job-name={}", job.name()),
        format!("--array=1-{}", job.nodes),
        "--nodes=1".to_owned(),
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--signal=B:TERM@{}", LEAD.as_secs()),
        format!(
            "--output={}-%a.log",
            pattern(&job.file("").display().to_string())
        ),
    ];
    options.extend(job.time.map(|time| {
        let minutes = time.as_secs().div_ceil(60);
        format!("--time={:02}:{:02}:00", minutes / 60, minutes % 60)
    }));
    options.extend((job.gpus > 0).then(|| format!("--gpus-per-node={}", job.gpus)));
    options.extend(job.options.iter().cloned());
    let mut text = "#!/bin/bash\n".to_owned();
    for option in options {
        // Infallible: it is text.
        let _ = writeln!(text, "#SBATCH {}", word(&option));
    }
    let here = shell_word(&job.here.display().to_string());
    text += &format!(
        r#"
cd {here} || exit 9

# The same after a requeue, so that the node takes up at once what it held.
export TUNE_NODE="$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"
{database}
# Before the job's time is over, the run puts its trials back; what could not end by then is not started.
limit=()
if [ -n "$SLURM_JOB_END_TIME" ]; then
    limit=(--leave-in "$((SLURM_JOB_END_TIME - $(date +%s)))s")
fi

{run}
# 4: the run was asked to leave, and goes on when Slurm starts it again, unless somebody has cancelled the job. 0 and 3 are
# ends; the others want a person.
if {again} && [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ]; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
    sleep 60    # until Slurm ends this
fi
exit $code
"#,
        database = job.database(TASK),
        run = job.run(" \"${limit[@]}\"", TASK),
        again = job.again(),
    );
    text
}
