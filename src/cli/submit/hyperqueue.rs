//! Tasks of HyperQueue's, one a node.

use super::Job;
use report::shell_word;

/// What submits the script, which comes behind it.
pub(super) fn command(job: &Job) -> Vec<String> {
    let mut command = vec![
        "hq".to_owned(),
        "submit".to_owned(),
        format!("--name={}", job.name()),
        format!("--array=1-{}", job.nodes),
        // A worker that ends with its allocation is no fault of the task's.
        "--crash-limit=unlimited".to_owned(),
        format!("--stdout={}", job.file("-%{TASK_ID}.log").display()),
        format!("--stderr={}", job.file("-%{TASK_ID}.err").display()),
    ];
    command.extend(
        job.time
            .map(|time| format!("--time-request={}s", time.as_secs())),
    );
    command.extend((job.gpus > 0).then(|| format!("--resource=gpus/nvidia={}", job.gpus)));
    let cpus = |option: &String| option.starts_with("--cpus");
    if !job.options.iter().any(cpus) {
        command.push("--cpus=all".to_owned());
    }
    command.extend(job.options.iter().cloned());
    command
}

/// The variables that tell the job, and which of its tasks this is.
const TASK: [&str; 2] = ["$HQ_JOB_ID", "$HQ_TASK_ID"];

/// What a task does whose server is gone: HyperQueue runs none again that has ended, and waiting would hold its worker for
/// nothing. The time that was used up goes on to count.
const AGAIN: &str = r#"# 7: the first node starts its server again, perhaps on another host.
if [ $code = 7 ]; then
    sleep 30
    SECONDS=$SECONDS exec bash "$0"
fi
"#;

/// The script.
pub(super) fn script(job: &Job) -> String {
    let limit = job.time.map_or_else(String::new, |time| {
        let time = time.as_secs();
        format!(r#" --leave-in "$(({time} > SECONDS ? {time} - SECONDS : 1))s""#)
    });
    let again = job.postgres.as_ref().map_or("", |_| AGAIN);
    let here = shell_word(&job.here.display().to_string());
    format!(
        r#"#!/bin/bash
cd {here} || exit 9

# The same when HyperQueue runs the task again, so that the node takes up at once what it held.
export TUNE_NODE="hq-$HQ_JOB_ID-$HQ_TASK_ID"
{database}
{run}
{again}# 4: the run was asked to leave. HyperQueue runs the task again once its worker has ended; until then it waits here.
if [ $code = 4 ]; then
    sleep infinity
fi
exit $code
"#,
        database = job.database(TASK),
        run = job.run(&limit, TASK),
    )
}
