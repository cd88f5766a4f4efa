//! libFuzzer on the reader that `FUZZ_TARGET` names, with its samples in the directory `FUZZ_CORPUS`.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

mod readers;

use readers::{TARGETS, Target};

static CHOSEN: OnceLock<&Target> = OnceLock::new();

/// Finds the target and writes its samples, before libFuzzer reads the directory.
fn prepare() {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET");
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = CHOSEN.get_or_init(|| target.expect("FUZZ_TARGET: a name in readers/mod.rs"));
    let corpus = PathBuf::from(std::env::var_os("FUZZ_CORPUS").expect("FUZZ_CORPUS"));
    std::fs::create_dir_all(&corpus).expect("FUZZ_CORPUS can be made");
    for (number, sample) in (target.samples)().iter().enumerate() {
        std::fs::write(corpus.join(format!("sample-{number}")), sample).expect("a sample");
    }
}

libfuzzer_sys::fuzz_target!(init: prepare(), |bytes: &[u8]| {
    if let Some(target) = CHOSEN.get() {
        (target.run)(bytes);
    }
});
