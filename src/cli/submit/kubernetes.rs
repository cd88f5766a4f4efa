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
    let fits = |c: char| "\n\t".contains(c) || printable(c);
    let first = text.lines().find(|line| !line.is_empty());
    let deeper = first.is_none_or(|line| line.starts_with(char::is_whitespace));
    if deeper || !text.chars().all(fits) {
        return quoted(text);
    }
    let lines = text.lines().map(|line| match line.is_empty() {
        true => "\n".to_owned(),
        false => format!("\n    {line}"),
    });
    format!("|{}", lines.collect::<String>())
}

/// Whether a character stands for itself: for YAML 1.1, U+2028 and U+2029 end a line as well.
fn printable(c: char) -> bool {
    !(c.is_control() || "\u{feff}\u{2028}\u{2029}".contains(c))
}

/// JSON is YAML, and needs no rules for quotes; but it escapes less.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match printable(c) {
        true => c.to_string(),
        false => format!("\\u{:04x}", u32::from(c)),
    };
    json!(text).to_string().chars().map(escaped).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_takes_for_the_end_of_a_line_is_escaped() {
        assert_eq!(block("a = 1\n\nb = 2\n"), "|\n    a = 1\n\n    b = 2");
        for (text, expected) in [
            ("a = \"x\u{2028}y\"\n", r#""a = \"x\u2028y\"\n""#),
            (
                "\u{2029}\u{85}\u{7f}\u{feff}",
                r#""\u2029\u0085\u007f\ufeff""#,
            ),
        ] {
            assert_eq!(block(text), expected);
        }
        assert_eq!(quoted("d\u{ed}a 1"), "\"d\u{ed}a 1\"");
    }
}
