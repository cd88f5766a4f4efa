//! Builds the C++ parts, and gives what is linked an rpath to libtorch.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for file in [
        "shim.h",
        "shim.cpp",
        "linear.cpp",
        "fallback.cpp",
        "trace.cpp",
    ] {
        println!("cargo:rerun-if-changed=gpu/{file}");
    }
    println!("cargo:rerun-if-changed=faults/faults.cpp");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    match libtorch() {
        // Clippy links nothing, and cargo keeps what is built for it apart from what other commands build.
        Ok(_) if by_clippy() => {}
        Ok(libtorch) => build(&libtorch),
        Err(message) => println!("cargo::error={message}"),
    }
}

/// The directory of libtorch, with what the build needs of it.
fn libtorch() -> Result<std::path::PathBuf, String> {
    let advice = "`make` fetches libtorch 2.11.0 and sets LIBTORCH; an existing site-packages/torch \
                  of that version will do; `cargo build --package tune` builds all that needs no libtorch";
    let Some(dir) = std::env::var_os("LIBTORCH").map(std::path::PathBuf::from) else {
        return Err(format!("LIBTORCH is not set; {advice}"));
    };
    let missing = [
        "lib/libtorch_cpu.so",
        "lib/libc10.so",
        "include/ATen/ATen.h",
    ]
    .into_iter()
    .find(|file| !dir.join(file).exists());
    match missing {
        Some(file) => Err(format!(
            "LIBTORCH={} holds no {file}; {advice}",
            dir.display()
        )),
        None => Ok(dir),
    }
}

fn by_clippy() -> bool {
    std::env::var_os("RUSTC_WORKSPACE_WRAPPER")
        .is_some_and(|wrapper| std::path::Path::new(&wrapper).ends_with("clippy-driver"))
}

fn build(libtorch: &std::path::Path) {
    cc::Build::new()
        .cpp(true)
        .pic(true)
        .warnings(false)
        .std("c++17")
        .opt_level(2)
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        .file("gpu/shim.cpp")
        .file("gpu/linear.cpp")
        .file("gpu/fallback.cpp")
        .file("gpu/trace.cpp")
        .file("faults/faults.cpp")
        .compile("tune_shim");
    // torch-sys sets an rpath for its own objects only, which does not reach a binary.
    println!(
        "cargo:rustc-link-arg=-Wl,-rpath,{}",
        libtorch.join("lib").display()
    );
}
