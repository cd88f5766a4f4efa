//! Notes where the program is built, so that one that is copied elsewhere finds its library there, and the commit of a release.

use std::process::Command;

/// What git says, where there is a checkout.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Notes the commit of a release, so that an edit at work rebuilds nothing for it.
fn note_commit() {
    println!("cargo:rerun-if-env-changed=TUNE_COMMIT");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !release || std::env::var_os("TUNE_COMMIT").is_some() {
        return;
    }
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo:rerun-if-changed={directory}/logs/HEAD");
    }
    // As long in every clone: without a length, git takes one that fits the number of its objects.
    let commit = git(&["log", "-1", "--abbrev=12", "--format=%h (%cs)"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    if let (Some(commit), Some(changed)) = (commit, changed) {
        let changed = if changed.is_empty() { "" } else { ", changed" };
        println!("cargo:rustc-env=TUNE_COMMIT={commit}{changed}");
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    note_commit();
    note_place();
}

/// Notes where the program is built, unless the environment says otherwise: nothing, for other machines.
fn note_place() {
    println!("cargo:rerun-if-env-changed=TUNE_BUILT_IN");
    if std::env::var_os("TUNE_BUILT_IN").is_some() {
        return;
    }
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    // target/PROFILE/build/PACKAGE-HASH/out
    let profile = std::path::Path::new(&out).ancestors().nth(3);
    println!(
        "cargo:rustc-env=TUNE_BUILT_IN={}",
        profile.unwrap_or(std::path::Path::new("/")).display()
    );
}
