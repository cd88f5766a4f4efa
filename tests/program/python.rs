//! The Python package, on the real program.

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_package_asks_tells_reads_and_runs_scripts() {
    let tests = Path::new(crate::ROOT).join("tests/python");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(&tests)
        .env("TUNE", crate::common::program())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let ran = text.lines().find_map(|l| l.strip_prefix("Ran "));
    let ran = ran.and_then(|l| l.split(' ').next()?.parse().ok());
    assert!(ran.is_some_and(|n: u32| n >= 13), "{text}");
}
