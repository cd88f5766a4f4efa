//! The kernel's log since boot: what it says of hardware that fails.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The kernel's lines, the oldest first, or why they cannot be read. Of processes that came to harm only those of the
/// `last` so long; `None`: all.
pub fn look(last: Option<Duration>) -> Result<Vec<String>, String> {
    match kmsg() {
        Ok(records) if !records.is_empty() => Ok(recent(records, last)),
        Ok(_) => journals(last).ok_or_else(|| "/dev/kmsg and the journal are empty".to_owned()),
        Err(error) => {
            journals(last).ok_or_else(|| format!("/dev/kmsg: {error}; the journal is empty"))
        }
    }
}

/// The lines of records without those of harm that came before the `last` so long.
fn recent(records: Vec<(Duration, String)>, last: Option<Duration>) -> Vec<String> {
    // The clock of the records.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::MAX, Duration::from);
    let since = last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
    let told = |(at, line): &(Duration, String)| *at >= since || !harmed(line);
    let told = records.into_iter().filter(told);
    told.map(|(_, line)| line).collect()
}

/// The same of the journal's copy.
fn journals(last: Option<Duration>) -> Option<Vec<String>> {
    let mut lines = journal(None)?;
    if last.is_some() {
        lines.retain(|line| !harmed(line));
        let latest = journal(last).unwrap_or_default();
        lines.extend(latest.into_iter().filter(|line| harmed(line)));
    }
    Some(lines)
}

/// A record a read: `priority,number,microseconds,flags;text`, with continuation lines.
fn kmsg() -> std::io::Result<Vec<(Duration, String)>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut file = options.open("/dev/kmsg")?;
    let mut buffer = vec![0; 8192];
    let mut lines = Vec::new();
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(lines),
            Ok(length) => lines.extend(record(&String::from_utf8_lossy(&buffer[..length]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(lines),
            // Overwritten while it was read.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Time since boot and text of a record of the kernel; what programs have written there is left out.
fn record(record: &str) -> Option<(Duration, String)> {
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let at = Duration::from_micros(head.nth(1)?.parse().ok()?);
    (priority < 8).then(|| (at, text.lines().next().unwrap_or("").to_owned()))
}

/// The journal's copy, of the `last` so long; `None` where there is none, or none for us.
fn journal(last: Option<Duration>) -> Option<Vec<String>> {
    let since = last.map(|last| format!("--since=-{}s", last.as_secs() + 1));
    let output = Command::new("timeout")
        .args([
            "5",
            "journalctl",
            "--dmesg",
            "--boot",
            "--quiet",
            "--no-pager",
            "--output=cat",
        ])
        .args(since)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let lines: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    (output.status.success() && !lines.is_empty()).then_some(lines)
}

/// The code of a line such as `NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.`
pub fn xid(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("NVRM: Xid (")?;
    let (_, rest) = rest.split_once("): ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether a line tells of a processor, a memory or a disk that fails.
pub fn broken(line: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "[Hardware Error]",
        "Machine check events logged",
        "Uncorrected error",
        "I/O error, dev",
        "EXT4-fs error",
        "Remounting filesystem read-only",
        "critical medium error",
        "BTRFS error",
    ];
    let fine = line.contains("Corrected error") || line.contains("Hardware error corrected");
    !fine && SIGNS.iter().any(|sign| line.contains(sign))
}

/// Whether a line tells of a process that came to harm: no memory, an illegal instruction, stuck in the kernel.
pub fn harmed(line: &str) -> bool {
    [
        "Out of memory: Killed process",
        "Memory cgroup out of memory",
        "blocked for more than",
    ]
    .iter()
    .any(|sign| line.contains(sign))
        || line.starts_with("traps: ") && line.contains("invalid opcode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_records_are_read_and_those_of_programs_are_not() {
        let line = "6,339,5140900,-;NVRM: loading\n SUBSYSTEM=pci\n";
        let at = Duration::from_micros(5_140_900);
        assert_eq!(record(line), Some((at, "NVRM: loading".to_owned())));
        assert_eq!(record("14,340,5140901,-;NVRM: Xid (x): 79"), None);
    }

    #[test]
    fn a_process_that_came_to_harm_before_the_run_is_left_out_and_hardware_is_not() {
        let killed = "Out of memory: Killed process 17 (python)".to_owned();
        let disk = "I/O error, dev sda, sector 5".to_owned();
        let records = || {
            vec![
                (Duration::ZERO, killed.clone()),
                (Duration::ZERO, disk.clone()),
            ]
        };
        assert_eq!(recent(records(), None), [killed.clone(), disk.clone()]);
        assert_eq!(
            recent(records(), Some(Duration::ZERO)),
            std::slice::from_ref(&disk)
        );
    }

    #[test]
    fn xids_and_signs_of_broken_hardware_are_told_from_the_rest() {
        let lost = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.";
        assert_eq!(xid(lost), Some(79));
        assert_eq!(xid("NVRM: GPU at PCI:0000:3b:00: GPU-1"), None);
        assert!(broken(
            "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 5: be00000000800400"
        ));
        assert!(broken("I/O error, dev nvme0n1, sector 5 op 0x0:(READ)"));
        assert!(!broken("EXT4-fs (vda): mounted filesystem r/w"));
        assert!(harmed("Out of memory: Killed process 17 (python)"));
        assert!(harmed(
            "traps: tune[17] trap invalid opcode ip:55 sp:7f error:0 in x[5+1]"
        ));
        assert!(!harmed("INFO: task list empty"));
    }
}
