//! `tune fetch` against hubs that lie. Whatever they say, the command ends with exit code 2 and one clear message, and
//! what the user has is byte for byte as before; in the cache only parts of downloads may be new.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::{tiny, valid};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const INDEX: &str = "model.safetensors.index.json";
const FOLDER: &str = ".cache/huggingface/hub/models--org--tiny";

/// A request: its path, unescaped, and the first byte that it asks for.
struct Request {
    path: String,
    from: usize,
    probing: bool,
}

impl Request {
    /// The file of the repository that is asked for.
    fn file(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("/org/tiny/resolve/")?;
        rest.strip_prefix(COMMIT)?.strip_prefix('/')
    }
}

#[derive(Clone)]
struct Reply {
    status: &'static str,
    headers: BTreeMap<&'static str, String>,
    body: Vec<u8>,
    /// The body is sent again and again.
    endless: bool,
}

impl Reply {
    fn new(status: &'static str, body: impl Into<Vec<u8>>) -> Reply {
        let body = body.into();
        let length = ("Content-Length", body.len().to_string());
        Reply {
            status,
            headers: BTreeMap::from([length]),
            body,
            endless: false,
        }
    }

    fn with(mut self, header: &'static str, value: impl Into<String>) -> Reply {
        self.headers.insert(header, value.into());
        self
    }

    fn without(mut self, header: &str) -> Reply {
        self.headers.remove(header);
        self
    }

    fn endless(mut self) -> Reply {
        self.endless = true;
        self.without("Content-Length")
    }
}

fn etag(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A part of a file, as a hub sends it.
fn part(request: &Request, body: &[u8]) -> Reply {
    let end = if request.probing { 1 } else { body.len() };
    let range = format!("bytes {}-{}/{}", request.from, end.max(1) - 1, body.len());
    Reply::new("206 Partial Content", &body[request.from.min(end)..end])
        .with("X-Repo-Commit", COMMIT)
        .with("ETag", format!("\"{}\"", etag(body)))
        .with("Content-Range", range)
}

/// A repository: what is in it, and what its list says.
#[derive(Clone)]
struct Repository {
    files: BTreeMap<String, Vec<u8>>,
    siblings: Vec<String>,
    sha: String,
}

impl Repository {
    /// What looks like a model in two shards.
    fn new() -> Repository {
        let files = [
            ("config.json", json!({"model_type": "bert"}).to_string()),
            ("tokenizer.json", "{}".to_owned()),
            ("a.safetensors", "weights".to_owned()),
            (
                INDEX,
                json!({"weight_map": {"x": "a.safetensors"}}).to_string(),
            ),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.into_bytes()));
        let files = BTreeMap::from(files);
        Repository {
            siblings: files.keys().cloned().collect(),
            files,
            sha: COMMIT.to_owned(),
        }
    }

    /// One whose list and index name a shard so, and that has it.
    fn with_shard(name: &str) -> Repository {
        let mut all = Repository::new();
        let index = json!({"weight_map": {"x": name}});
        all.files
            .insert(INDEX.into(), index.to_string().into_bytes());
        all.siblings.push(name.to_owned());
        all
    }

    fn reply(&self, request: &Request) -> Reply {
        if request.path.starts_with("/api/models/org/tiny/revision/") {
            let siblings: Vec<Json> = (self.siblings.iter())
                .map(|name| json!({"rfilename": name}))
                .collect();
            return Reply::new(
                "200 OK",
                json!({"sha": self.sha, "siblings": siblings}).to_string(),
            );
        }
        // What nobody would have is sent, too.
        let unheard = b"the hub was here".to_vec();
        match request.file() {
            Some(name) => part(request, self.files.get(name).unwrap_or(&unheard)),
            None => Reply::new("404 Not Found", ""),
        }
    }
}

/// Serves replies on this machine, as long as the test runs; gives the address.
fn serve(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let reply = Arc::new(reply);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reply = Arc::clone(&reply);
            // A client that goes away is no concern of the hub.
            std::thread::spawn(move || answer(stream, &*reply));
        }
    });
    endpoint
}

fn answer(mut stream: TcpStream, reply: &dyn Fn(&Request) -> Reply) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let mut request = Request {
        path: unescaped(first.split(' ').nth(1).unwrap_or("")),
        from: 0,
        probing: false,
    };
    for line in lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
    {
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            request.probing = range == "0-0";
            request.from = range.split('-').next().unwrap().parse().unwrap();
        }
    }
    let reply = reply(&request);
    let mut head = format!("HTTP/1.1 {}\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&reply.body)?;
    if !reply.endless {
        return Ok(());
    }
    loop {
        stream.write_all(&reply.body)?;
    }
}

fn unescaped(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        (rest, _) = match byte.filter(|_| *first == b'%') {
            Some(byte) => (&after[2..], bytes.push(byte)),
            None => (after, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A user's home, with files of theirs and an older snapshot of the model in the cache.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        home.file(".bashrc", "mine");
        home.file("thesis.safetensors", "years of work");
        home.file(".ssh/authorized_keys", "my key");
        home.file(&format!("{FOLDER}/blobs/b0"), "{}");
        home.file(&format!("{FOLDER}/refs/main"), "c0");
        home.file(&format!("{FOLDER}/snapshots/c0/config.json"), "{}");
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), text).unwrap();
    }

    fn link(&self, target: &str, name: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        let _ = std::fs::remove_dir_all(self.at(name));
        symlink(self.at(target), self.at(name)).unwrap();
    }

    /// Everything that is there, contents and where links lead, but for parts of downloads.
    fn tree(&self) -> BTreeMap<PathBuf, String> {
        let blobs = self.at(FOLDER).join("blobs");
        let mut tree = BTreeMap::new();
        let mut dirs = vec![self.0.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                let found = if kind.is_symlink() {
                    format!("to {}", std::fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    dirs.push(path.clone());
                    "a directory".to_owned()
                } else if kind.is_file() {
                    let end = path.extension().and_then(|e| e.to_str());
                    if path.starts_with(&blobs) && matches!(end, Some("part" | "lock")) {
                        continue;
                    }
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
                } else {
                    "something else".to_owned()
                };
                tree.insert(path, found);
            }
        }
        tree
    }

    /// `tune fetch org/tiny` from a hub.
    fn fetch(&self, endpoint: &str) -> Command {
        let mut command = Command::new(crate::common::program());
        for name in [
            "HF_HOME",
            "HF_HUB_CACHE",
            "TUNE_MODELS",
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
            .args(["fetch", "org/tiny"])
            .env("HOME", self.0.path())
            .env("HF_ENDPOINT", endpoint)
            .env("HF_TOKEN", "secret");
        command
    }

    /// The command is refused with a clear message, and nothing of the user's has changed; gives the message.
    fn refuses(
        &self,
        case: &str,
        reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> String {
        let before = self.tree();
        let ended = self.fetch(&serve(reply)).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{case}: {told}");
        assert!(
            !told.contains("panicked") && !told.is_empty(),
            "{case}: {told}"
        );
        let odd = told.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(odd, None, "{case}: {told:?}");
        assert!(told.len() < 2000, "{case}: {told}");
        let after = self.tree();
        assert!(
            before == after,
            "{case}: {:?}",
            differences(&before, &after)
        );
        told
    }
}

fn differences<'a>(
    before: &'a BTreeMap<PathBuf, String>,
    after: &'a BTreeMap<PathBuf, String>,
) -> Vec<&'a Path> {
    let all = before.keys().chain(after.keys());
    all.filter(|path| before.get(*path) != after.get(*path))
        .map(PathBuf::as_path)
        .collect()
}

/// What the attacks below are variations of.
#[test]
fn a_model_of_an_honest_hub_is_fetched_and_told_of() {
    let model = tempfile::tempdir().unwrap();
    tiny::write_bert(model.path());
    let mut all = Repository::new();
    all.files.clear();
    for entry in std::fs::read_dir(model.path()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        all.files.insert(name, std::fs::read(entry.path()).unwrap());
    }
    all.siblings = all.files.keys().cloned().collect();
    let home = Home::new();
    let endpoint = serve(move |request| all.reply(request));
    let fetched = home.fetch(&endpoint).arg("--json").output().unwrap();
    let told = String::from_utf8_lossy(&fetched.stderr);
    assert_eq!(fetched.status.code(), Some(0), "{told}");
    let answer: Json = serde_json::from_slice(&fetched.stdout).unwrap();
    valid("fetch", &answer);
    let directory = Path::new(answer["directory"].as_str().unwrap());
    let weights = |dir: &Path| std::fs::read(dir.join("model.safetensors")).unwrap();
    assert_eq!(weights(directory), weights(model.path()));
}

#[test]
fn a_shard_by_any_name_that_leads_elsewhere_changes_nothing() {
    let home = Home::new();
    let up = "../".repeat(6);
    let thesis = home.at("thesis.safetensors").display().to_string();
    let long = format!("{}.safetensors", "x".repeat(300));
    let names = [
        &thesis,
        &format!("{up}thesis.safetensors"),
        &format!("{up}.bashrc"),
        &format!("a/../{up}thesis.safetensors"),
        &format!("./{up}thesis.safetensors"),
        &format!("/{thesis}"),
        "..\\..\\thesis.safetensors",
        "a\0.safetensors",
        "",
        ".",
        "..",
        "a/",
        "a//b.safetensors",
        "\u{1b}]0;x\u{7}.safetensors",
        "\u{202e}.bashrc",
        "config.json",
        INDEX,
        &long,
        &"a/".repeat(600),
    ];
    for name in names {
        let all = Repository::with_shard(name);
        let told = home.refuses(name, move |request| all.reply(request));
        assert!(told.contains("the shard"), "{name:?}: {told}");
    }
    // Nothing is wrong with this name; its file is no weights.
    let all = Repository::with_shard("модель.safetensors");
    let told = home.refuses("unicode", move |request| all.reply(request));
    assert!(told.contains("cannot be used"), "{told}");
}

#[test]
fn names_put_together_at_random_change_nothing() {
    let home = Home::new();
    let place = home.0.path().display().to_string();
    let pieces = [
        "..",
        "/",
        ".",
        "",
        "a",
        "\\",
        "\0",
        ".bashrc",
        "thesis.safetensors",
        "//",
        &place,
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for round in 0..12 {
        let mut name: String = (0..rng.random_range(1..8))
            .map(|_| pieces[rng.random_range(0..pieces.len())])
            .collect();
        if rng.random() {
            name.push_str(".safetensors");
        }
        let all = Repository::with_shard(&name);
        home.refuses(&format!("round {round}, {name:?}"), move |request| {
            all.reply(request)
        });
    }
}

#[test]
fn lists_and_indexes_that_contradict_each_other_are_refused() {
    let home = Home::new();
    let mut absent = Repository::with_shard("b.safetensors");
    absent.siblings.pop();
    let mut many = Repository::new();
    let map: BTreeMap<String, String> = (0..1001)
        .map(|n| (n.to_string(), format!("{n}.safetensors")))
        .collect();
    many.siblings.extend(map.values().cloned());
    let index = json!({"weight_map": map}).to_string();
    many.files.insert(INDEX.to_owned(), index.into_bytes());
    let with_index = |text: &str| {
        let mut all = Repository::new();
        all.files.insert(INDEX.to_owned(), text.as_bytes().to_vec());
        all
    };
    for (case, all, expected) in [
        ("not listed", absent, "does not have it"),
        ("many", many, "1001 shards"),
        ("no map", with_index("{}"), "no weight_map"),
        (
            "an empty map",
            with_index(r#"{"weight_map": {}}"#),
            "no shards",
        ),
        (
            "numbers",
            with_index(r#"{"weight_map": {"x": 1}}"#),
            "no name",
        ),
        ("deep", with_index(&"[".repeat(100_000)), "recursion"),
        ("no text", with_index("\u{1b}[2J"), "expected value"),
    ] {
        let told = home.refuses(case, move |request| all.reply(request));
        assert!(told.contains(expected), "{case}: {told}");
    }
    let unusable = Repository::new();
    let told = home.refuses("no model", move |request| unusable.reply(request));
    assert!(told.contains("cannot be used and was not kept"), "{told}");
}

#[test]
fn odd_commits_and_checksums_never_become_paths() {
    let home = Home::new();
    let up = "../".repeat(6);
    let long = "a".repeat(200);
    for sha in [
        "",
        "..",
        "../c0",
        &format!("{up}.ssh"),
        "/etc",
        "c\0",
        &long,
    ] {
        let mut all = Repository::new();
        all.sha = sha.to_owned();
        let told = home.refuses(sha, move |request| all.reply(request));
        assert!(told.contains("is it a hub"), "{sha}: {told}");
    }
    for odd in [
        "",
        "\"\"",
        &format!("{up}.bashrc"),
        "/etc/passwd",
        "..",
        "b0.part",
        &long,
    ] {
        let (all, etag) = (Repository::new(), odd.to_owned());
        let told = home.refuses(odd, move |request| match request.file() {
            Some(_) => all.reply(request).with("ETag", etag.as_str()),
            None => all.reply(request),
        });
        assert!(told.contains("ETag"), "{odd}: {told}");
    }
    // Nor does a checksum of another content than what comes replace what is there.
    let all = Repository::new();
    let told = home.refuses("a wrong checksum", move |request| match request.file() {
        Some(_) => all.reply(request).with("ETag", etag(b"other")),
        None => all.reply(request),
    });
    assert!(told.contains("checksum"), "{told}");
}

/// What a hub may do to the answers of a well-behaved one.
type Lie = fn(&Request, Reply) -> Reply;

#[test]
fn answers_that_lie_about_themselves_are_bounded() {
    let home = Home::new();
    let lies: [(&str, &str, Lie); 13] = [
        ("another commit", "commit", |_, r| {
            r.with("X-Repo-Commit", "c1")
        }),
        ("no commit", "x-repo-commit", |_, r| {
            r.without("X-Repo-Commit")
        }),
        ("no range", "content-range", |_, r| {
            r.without("Content-Range")
        }),
        ("no number", "Content-Range", |_, r| {
            r.with("Content-Range", "bytes 0-0/*")
        }),
        ("too large a number", "Content-Range", |_, r| {
            r.with("Content-Range", format!("bytes 0-0/{}", u128::MAX))
        }),
        ("larger than any file", "bytes", |_, r| {
            r.with("Content-Range", format!("bytes 0-0/{}", u64::MAX))
        }),
        ("another part", "asked for those", |q, r| match q.probing {
            true => r,
            false => r.with("Content-Range", "bytes 5-9/10"),
        }),
        ("a longer body", "longer than", |q, r| match q.probing {
            true => r,
            false => Reply {
                body: b"x".repeat(1 << 16),
                ..r.with("Content-Length", "65536")
            },
        }),
        ("an endless body", "longer than", |q, r| match q.probing {
            true => r,
            false => r.endless(),
        }),
        ("an endless body in chunks", "longer than", |q, r| {
            match q.probing {
                true => r,
                false => Reply {
                    body: b"4\r\nabcd\r\n".to_vec(),
                    ..r.with("Transfer-Encoding", "chunked").endless()
                },
            }
        }),
        ("an endless header", "header", |_, r| {
            r.with("X-Long", "x".repeat(1 << 20))
        }),
        ("a redirection to nowhere", "location", |_, r| Reply {
            status: "302 Found",
            ..r
        }),
        ("a redirection to a file", "answers with", |_, r| {
            Reply {
                status: "302 Found",
                ..r
            }
            .with("Location", "file:///etc/passwd")
        }),
    ];
    for (case, expected, lie) in lies {
        let all = Repository::new();
        let told = home.refuses(case, move |request| match request.file() {
            Some(_) => lie(request, all.reply(request)),
            None => all.reply(request),
        });
        assert!(told.contains(expected), "{case}: {told}");
    }
}

#[test]
fn redirections_in_a_circle_end() {
    let home = Home::new();
    for location in ["/org/tiny/resolve/again", "//nowhere.invalid/x"] {
        let all = Repository::new();
        home.refuses(location, move |request| {
            match request.path.contains("/api/") {
                true => all.reply(request),
                false => Reply::new("302 Found", "")
                    .with("Location", location)
                    .with("X-Repo-Commit", COMMIT)
                    .with("ETag", etag(b"")),
            }
        });
    }
    for list in [true, false] {
        let all = Repository::new();
        let told = home.refuses("a circle", move |request| {
            let asked = request.path.contains("/api/") || request.path.contains("/circle");
            match asked && list || !list && !request.path.contains("/api/") {
                true => Reply::new("302 Found", "").with("Location", "/circle"),
                false => all.reply(request),
            }
        });
        assert!(told.contains("redirections"), "{told}");
    }
}

/// What a hub answers to everything.
type Always = fn() -> Reply;

#[test]
fn lists_without_end_or_sense_are_bounded() {
    let home = Home::new();
    let lists: [(&str, &str, Always); 6] = [
        ("endless", "a list of files of more than", || {
            let mut reply = Reply::new("200 OK", "[".repeat(1 << 16)).endless();
            reply.body[0] = b'{';
            reply
        }),
        ("a million files", "no config.json", || {
            let all: Vec<String> = (0..1_000_000)
                .map(|n| format!("{{\"rfilename\":\"{n}\"}}"))
                .collect();
            let list = format!("{{\"sha\":\"{COMMIT}\",\"siblings\":[{}]}}", all.join(","));
            Reply::new("200 OK", list)
        }),
        ("deep", "no list of files", || {
            Reply::new("200 OK", "[".repeat(1 << 20))
        }),
        ("empty", "no list of files", || Reply::new("200 OK", "")),
        ("a page", "no list of files", || {
            Reply::new("200 OK", "<html>\u{1b}[2J</html>")
        }),
        ("another shape", "no list of files", || {
            Reply::new("200 OK", r#"{"sha": 1}"#)
        }),
    ];
    for (case, expected, list) in lists {
        let told = home.refuses(case, move |_| list());
        assert!(told.contains(expected), "{case}: {told}");
    }
}

#[test]
fn links_and_pipes_planted_in_the_cache_lead_nowhere() {
    let blob = |name: &str| etag(&Repository::new().files[name]);
    let config = blob("config.json");
    let plants: [(&str, String); 7] = [
        (".bashrc", format!("{FOLDER}/blobs/{config}.part")),
        (".bashrc", format!("{FOLDER}/blobs/{config}.lock")),
        (".ssh", format!("{FOLDER}/blobs")),
        ("", format!("{FOLDER}/snapshots")),
        ("", format!("{FOLDER}/snapshots/{COMMIT}")),
        (".ssh", FOLDER.to_owned()),
        ("nowhere", format!("{FOLDER}/blobs")),
    ];
    for (target, name) in plants {
        let home = Home::new();
        home.link(target, &name);
        let all = Repository::new();
        home.refuses(&format!("{name} to {target}"), move |request| {
            all.reply(request)
        });
    }
    for name in [format!("{config}.part"), format!("{config}.lock")] {
        let home = Home::new();
        let pipe = home.at(&format!("{FOLDER}/blobs/{name}"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let all = Repository::new();
        let told = home.refuses(&name, move |request| all.reply(request));
        assert!(told.contains("is no file"), "{told}");
    }
}
