//! Where libtorch is looked for.

/// Where a process of ours that is started anew is to look for libtorch first, as a variable of its
/// environment: in the directory that `LIBTORCH` names, if it does.
pub fn search_path() -> Option<(String, String)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let inherited = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let path = format!("{}/lib:{inherited}", variable("LIBTORCH")?);
    Some(("LD_LIBRARY_PATH".to_owned(), path))
}
