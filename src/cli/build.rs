//! Notes where the program is built, so that one that is copied elsewhere finds its library there.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    // target/PROFILE/build/PACKAGE-HASH/out
    let profile = std::path::Path::new(&out).ancestors().nth(3);
    println!(
        "cargo:rustc-env=TUNE_BUILT_IN={}",
        profile.unwrap_or(std::path::Path::new("/")).display()
    );
}
