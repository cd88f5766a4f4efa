//! The commands of the documentation: each is one that the program takes.

use std::path::{Path, PathBuf};

/// A command line of the documentation, and where it stands.
struct Shown {
    place: String,
    words: Vec<String>,
}

pub(crate) fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(Path::new(crate::ROOT).join("docs")).unwrap();
    let pages = docs.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = pages
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect();
    // What was typed for a version that is no more stays as it was.
    pages.retain(|page| !page.ends_with("CHANGELOG.md"));
    pages.push(Path::new(crate::ROOT).join("README.md"));
    pages
}

/// The words of the `tune` in a line of a shell; none where there is no such command.
fn words(line: &str) -> Option<Vec<String>> {
    // What comes behind a comment, a pipe, a redirection or another command is the shell's.
    let line = line.split(" #").next()?.replace("  ", " ");
    let part = line
        .split(['|', '>', ';'])
        .flat_map(|part| part.split(" && "))
        .map(|part| {
            part.split(" 2>")
                .next()
                .unwrap_or(part)
                .trim()
                .trim_end_matches('&')
                .trim()
        })
        .find(|part| part.split_whitespace().any(is_tune))?
        .to_owned();
    let words = shlex::split(&part)?;
    let at = words.iter().position(|word| is_tune(word))?;
    // `time tune x`, `HPO_EPOCHS=3 tune x` and times of cron may come before; `pip install tune` may not.
    let before = &words[..at];
    let fits = before
        .iter()
        .all(|w| w.contains('=') || w == "time" || w == "*" || w.parse::<u32>().is_ok());
    fits.then(|| words[at..].to_vec())
}

fn is_tune(word: &str) -> bool {
    word == "tune" || word.ends_with("/bin/tune")
}

/// Lines of consoles and crontabs, with lines that go on put together, and whole commands in the text.
fn shown(page: &Path) -> Vec<Shown> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut found = Vec::new();
    let mut fence: Option<String> = None;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = fence.is_none().then(|| kind.to_owned());
            continue;
        }
        let mut command = match fence.as_deref() {
            Some("console") => line.trim_start().strip_prefix("$ ").map(str::to_owned),
            Some("cron") => Some(line.to_owned()),
            Some(_) | None => None,
        };
        while let Some(start) = command
            .as_ref()
            .and_then(|c| c.strip_suffix('\\'))
            .map(str::to_owned)
        {
            let more = lines.next().map(|(_, line)| line.trim().to_owned());
            command = Some(start + &more.unwrap_or_default());
        }
        if let Some(words) = command.as_deref().and_then(words) {
            let place = format!("{name}:{}", at + 1);
            found.push(Shown { place, words });
        }
    }
    found
}

#[test]
fn every_command_of_the_documentation_is_one_that_the_program_takes() {
    let all: Vec<Shown> = pages().iter().flat_map(|page| shown(page)).collect();
    assert!(all.len() > 30, "found only {} commands", all.len());
    let mut wrong = Vec::new();
    for Shown { place, words } in &all {
        let numbered = words
            .iter()
            .map(|w| if w == "N" { "3" } else { w.as_str() });
        let arguments: Vec<std::ffi::OsString> = numbered.map(Into::into).collect();
        if let Err(error) = cli::parse(arguments)
            && error.use_stderr()
        {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default().to_owned();
            wrong.push(format!("{place}: {}\n    {first}", words.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_link_between_pages_leads_to_a_file() {
    let link = |text: &str| -> Vec<String> {
        let parts = text.split("](").skip(1);
        parts
            .filter_map(|part| Some(part.split(')').next()?.to_owned()))
            .collect()
    };
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in link(&text) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = file.is_empty() || file.contains("://") || file.contains(' ');
            if !elsewhere && !page.with_file_name(file).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
