//! Where libtorch is looked for.

use std::path::{Path, PathBuf};

/// Where a process of ours that is started anew is to look for libtorch first, as a variable of its
/// environment: in the directory that [`libtorch`] names, if it does.
pub fn search_path() -> Option<(String, String)> {
    let inherited = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let path = format!("{}/lib:{inherited}", libtorch()?.display());
    Some(("LD_LIBRARY_PATH".to_owned(), path))
}

/// The directory of libtorch, where one is meant: the one that `LIBTORCH` names, else PyTorch in the Python environment
/// that has this program from its wheel.
pub fn libtorch() -> Option<PathBuf> {
    let named = variable("LIBTORCH").map(PathBuf::from);
    let installed = || Some(site_packages()?.join("torch")).filter(|dir| dir.is_dir());
    named.or_else(installed)
}

/// The packages of the Python environment that has this program from its wheel; `None`: it was installed otherwise.
pub fn site_packages() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    packages_below(program.parent()?.parent()?)
}

fn packages_below(prefix: &Path) -> Option<PathBuf> {
    // What pip writes beside the packages of each wheel.
    let ours = concat!("tune-", env!("CARGO_PKG_VERSION"), ".dist-info");
    let pythons = std::fs::read_dir(prefix.join("lib")).ok()?;
    let directories = pythons.filter_map(Result::ok).flat_map(|python| {
        let packages = |name| python.path().join(name);
        [packages("site-packages"), packages("dist-packages")]
    });
    directories
        .into_iter()
        .find(|packages| packages.join(ours).is_dir())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_beside_which_the_wheel_was_installed() {
        let prefix = std::env::temp_dir().join(format!("tune-prefix-{}", std::process::id()));
        let version = env!("CARGO_PKG_VERSION");
        let other = prefix.join("lib/python3.9/site-packages");
        std::fs::create_dir_all(other.join("torch")).unwrap();
        assert_eq!(packages_below(&prefix), None);
        let packages = prefix.join("lib/python3.12/site-packages");
        std::fs::create_dir_all(packages.join(format!("tune-{version}.dist-info"))).unwrap();
        assert_eq!(packages_below(&prefix), Some(packages));
        std::fs::remove_dir_all(&prefix).unwrap();
    }
}
