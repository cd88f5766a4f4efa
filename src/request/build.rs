//! Computes the checksum by which the program and the library that has libtorch know that they were built
//! from the same sources: of this crate and of all crates of the workspace that it uses.

use std::collections::BTreeSet;
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let mut crates = BTreeSet::new();
    add_crate("request", &mut crates)?;
    let mut files = Vec::new();
    for name in &crates {
        println!("cargo:rerun-if-changed=../{name}");
        add_sources(&Path::new("..").join(name), &mut files)?;
    }
    files.sort();
    // FNV-1a.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.display().to_string().into_bytes();
        for byte in name.into_iter().chain(fs::read(&file)?) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("interface"), format!("{sum:#x}"))
}

/// Adds a crate of the workspace, and those that its manifest names as dependencies.
fn add_crate(name: &str, crates: &mut BTreeSet<String>) -> Result<()> {
    let manifest = Path::new("..").join(name).join("Cargo.toml");
    if !manifest.is_file() || !crates.insert(name.to_owned()) {
        return Ok(());
    }
    let text = fs::read_to_string(manifest)?;
    let dependencies = text.lines().skip_while(|line| *line != "[dependencies]");
    for line in dependencies
        .skip(1)
        .take_while(|line| !line.starts_with('['))
    {
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        add_crate(name, crates)?;
    }
    Ok(())
}

/// Adds the Rust sources in a directory.
fn add_sources(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            add_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
