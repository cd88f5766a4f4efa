//! An Indexed Job of Kubernetes', one pod a node.

use super::{Job, LEAD};
use messages::exit::Failure;
use serde_json::json;

pub(super) fn command() -> Vec<String> {
    ["kubectl", "apply", "-f"].map(str::to_owned).to_vec()
}

/// The manifest: the task's file, and the job.
///
/// # Errors
/// No image was named (2).
pub(super) fn manifest(job: &Job) -> Result<String, Failure> {
    let image = job.image.as_deref().ok_or_else(|| {
        Failure::input(
            "--image: found none, expected the image that has tune and what the task reads",
        )
    })?;
    let name = job.name();
    let (file, text) = &job.task;
    Ok(format!(
        r#"# The database's URL, and its password, are in a secret:
#   kubectl create secret generic tune-storage --from-literal=url=postgresql://USER@HOST/DATABASE \
#       --from-literal=password=...
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}}}
data:
  task.toml: {text}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  completionMode: Indexed
  completions: {nodes}
  parallelism: {nodes}
  # Each node is begun again where it was asked to leave (exit code 4), or died.
  backoffLimitPerIndex: 100
  podFailurePolicy:
    rules:
    - action: Ignore        # the node was drained, or another pod was more urgent
      onPodConditions: [{{type: DisruptionTarget}}]
    - action: FailJob       # the configuration is wrong, or differs from the study's
      onExitCodes: {{containerName: tune, operator: In, values: [2, 8]}}
    - action: FailIndex     # an end, or something that wants a person
      onExitCodes: {{containerName: tune, operator: In, values: [3, 5, 6, 7, 9]}}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: {lead}
      containers:
{container}      volumes:
      - {{name: project, emptyDir: {{}}}}          # logs, checkpoints and spool: the node's own
      - {{name: task, configMap: {{name: {name}, items: [{{key: task.toml, path: {file}}}]}}}}
      - {{name: memory, emptyDir: {{medium: Memory}}}}
"#,
        file = quoted(file),
        text = block(text),
        nodes = job.nodes,
        lead = LEAD.as_secs(),
        container = container(job, &name, image),
    ))
}

/// A text as a block, whose lines can be read, else in quotes: a block has no place for what cannot be printed, and takes
/// its depth from its first line.
fn block(text: &str) -> String {
    let printable = |c: char| "\n\t".contains(c) || !(c.is_control() || c == '\u{feff}');
    let first = text.lines().find(|line| !line.is_empty());
    let deeper = first.is_none_or(|line| line.starts_with(char::is_whitespace));
    if deeper || !text.chars().all(printable) {
        return quoted(text);
    }
    let lines = text.lines().map(|line| match line.is_empty() {
        true => "\n".to_owned(),
        false => format!("\n    {line}"),
    });
    format!("|{}", lines.collect::<String>())
}

/// JSON is YAML, and needs no rules for quotes.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// The pods' only container.
fn container(job: &Job, name: &str, image: &str) -> String {
    let command: Vec<String> = job.command.iter().map(|word| quoted(word)).collect();
    let gpus = match job.gpus {
        0 => String::new(),
        gpus => format!("\n        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"),
    };
    format!(
        r#"      - name: tune
        image: {image}
        workingDir: /project
        command: [{command}]{gpus}
        env:
        - name: INDEX
          valueFrom: {{fieldRef: {{fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}}
        - name: TUNE_NODE         # the same for the pod that comes after: it takes up at once what this one held
          value: {name}-$(INDEX)
        - name: TUNE_STORAGE
          valueFrom: {{secretKeyRef: {{name: tune-storage, key: url}}}}
        - name: PGPASSWORD
          valueFrom: {{secretKeyRef: {{name: tune-storage, key: password, optional: true}}}}
        volumeMounts:
        - {{name: project, mountPath: /project}}
        - {{name: task, mountPath: /project/configs}}
        - {{name: memory, mountPath: /dev/shm}}
"#,
        image = quoted(image),
        command = command.join(", "),
    )
}
