//! Fetching from a small hub that the test serves on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::write_tiny_bert;
use messages::exit::Exit;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the hub does wrong.
#[derive(Clone, Copy, PartialEq)]
enum HubError {
    None,
    /// The first download of the weights is cut in the middle.
    Cut,
    /// The weights' bytes differ from their checksum.
    Damaged,
    /// Ranges are not heeded.
    NoRanges,
    /// Connections are accepted, and nothing is ever said.
    Silent,
    /// The weights stop in the middle, and the connection stays.
    Stalled,
    /// The weights come a byte at a time, faster than the hub may be silent for.
    Dripping,
    /// The weights are announced as they are, and more is sent.
    Long,
    /// The configuration is none.
    Unusable,
    /// Every request is answered with this status.
    Status(u16),
}

/// A hub with one model.
struct Fake {
    endpoint: String,
    /// Requests for the weights' bytes: where each began.
    ranges: Arc<Mutex<Vec<u64>>>,
    requests: Arc<AtomicUsize>,
    authorised: Arc<Mutex<Vec<(bool, String)>>>,
    model: tempfile::TempDir,
}

fn serve(trouble: HubError) -> Fake {
    let model = tempfile::tempdir().unwrap();
    write_tiny_bert(model.path(), 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let fake = Fake {
        endpoint,
        ranges: Arc::default(),
        requests: Arc::default(),
        authorised: Arc::default(),
        model,
    };
    let (ranges, requests, authorised) = (
        fake.ranges.clone(),
        fake.requests.clone(),
        fake.authorised.clone(),
    );
    let (dir, endpoint) = (fake.model.path().to_owned(), fake.endpoint.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            requests.fetch_add(1, Ordering::Relaxed);
            // A client that goes away is no concern of the hub.
            let _ = answer(stream, &dir, &endpoint, trouble, &ranges, &authorised);
        }
    });
    fake
}

fn answer(
    mut stream: TcpStream,
    dir: &Path,
    endpoint: &str,
    trouble: HubError,
    ranges: &Mutex<Vec<u64>>,
    authorised: &Mutex<Vec<(bool, String)>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let path = request.split(' ').nth(1).unwrap_or("").to_owned();
    let mut range = None;
    let mut token = false;
    for line in lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
    {
        let line = line.to_ascii_lowercase();
        token |= line == "authorization: bearer secret";
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            let mut ends = bytes.split('-');
            let from: u64 = ends.next().unwrap().parse().unwrap();
            range = Some((from, ends.next().unwrap().parse::<u64>().ok()));
        }
    }
    authorised.lock().unwrap().push((token, path.clone()));
    let mut reply = |status: &str, headers: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    };
    if trouble == HubError::Silent {
        hold(stream);
        return Ok(());
    }
    if let HubError::Status(code) = trouble {
        return reply(&format!("{code} No"), "", b"");
    }
    if path.starts_with("/api/models/org/tiny/revision/") {
        let files = [
            "config.json",
            "tokenizer.json",
            "model.safetensors",
            "README.md",
            "tf_model.h5",
        ];
        let siblings: Vec<_> = files.map(|f| serde_json::json!({"rfilename": f})).to_vec();
        let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
        return reply(
            "200 OK",
            "Content-Type: application/json\r\n",
            body.as_bytes(),
        );
    }
    let Some(name) = path.rsplit('/').next().filter(|n| dir.join(n).is_file()) else {
        return reply("404 Not Found", "", b"");
    };
    let mut body = std::fs::read(dir.join(name))?;
    if trouble == HubError::Unusable && name == "config.json" {
        body = b"{}".to_vec();
    }
    let large = name == "model.safetensors";
    let etag = match large {
        true => training::hex(&<sha2::Sha256 as sha2::Digest>::digest(&body)),
        false => {
            use sha1::Digest;
            let blob = [format!("blob {}\0", body.len()).as_bytes(), &body].concat();
            training::hex(&sha1::Sha1::digest(&blob))
        }
    };
    let known = format!("X-Repo-Commit: {COMMIT}\r\n");
    if large && path.starts_with("/org/") {
        let headers =
            format!("{known}X-Linked-ETag: \"{etag}\"\r\nLocation: {endpoint}/cdn/{name}\r\n");
        return reply("302 Found", &headers, b"");
    }
    let known = format!("{known}ETag: \"{etag}\"\r\n");
    let size = body.len() as u64;
    let (from, to) = range.unwrap_or((0, None));
    let probing = to == Some(0);
    if large && trouble == HubError::Damaged {
        let last = body.len() - 1;
        body[last] ^= 1;
    }
    let first = if large && !probing {
        let mut all = ranges.lock().unwrap();
        all.push(from);
        all.len() == 1
    } else {
        false
    };
    if trouble == HubError::NoRanges && !probing {
        return reply("200 OK", &known, &body);
    }
    if from >= size {
        return reply("416 Range Not Satisfiable", "", b"");
    }
    let end = to.unwrap_or(size - 1).min(size - 1);
    let part = &body[from as usize..=end as usize];
    let headers = format!("{known}Content-Range: bytes {from}-{end}/{size}\r\n");
    if (trouble == HubError::Cut || trouble == HubError::Stalled) && first {
        let head = format!(
            "HTTP/1.1 206 Partial\r\nContent-Length: {}\r\n{headers}\r\n",
            part.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&part[..part.len() / 2])?;
        if trouble == HubError::Stalled {
            hold(stream);
        }
        return Ok(());
    }
    if trouble == HubError::Long && large && !probing {
        // Without a length the end of the connection is that of the body.
        let head = format!("HTTP/1.1 206 Partial\r\n{headers}\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(part)?;
        return stream.write_all(b"and more");
    }
    if trouble == HubError::Dripping && large && !probing {
        let length = part.len();
        let head = format!("HTTP/1.1 206 Partial\r\nContent-Length: {length}\r\n{headers}\r\n");
        stream.write_all(head.as_bytes())?;
        for byte in part {
            stream.write_all(&[*byte])?;
            std::thread::sleep(Duration::from_millis(5));
        }
        return Ok(());
    }
    reply("206 Partial Content", &headers, part)
}

/// Keeps a connection open until the tests end.
fn hold(stream: TcpStream) {
    static HELD: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());
    HELD.lock().unwrap().push(stream);
}

fn request(fake: &Fake, cache: &Path) -> FetchRequest {
    FetchRequest {
        model: "org/tiny".to_owned(),
        revision: "main".to_owned(),
        cache: cache.to_owned(),
        endpoint: Some(fake.endpoint.clone()),
        token: Some("secret".to_owned()),
        retries: 2,
        pause: Duration::ZERO,
        patience: Duration::from_secs(60),
    }
}

fn fetched(fake: &Fake, cache: &Path) -> Result<Fetched, Failure> {
    fetch(&request(fake, cache), &mut |_| {})
}

fn weights(of: &Path) -> Vec<u8> {
    std::fs::read(of.join("model.safetensors")).unwrap()
}

#[test]
fn what_a_checkpoint_needs_is_fetched_into_the_cache_and_found_there() {
    let (fake, cache) = (serve(HubError::None), tempfile::tempdir().unwrap());
    let mut steps = Vec::new();
    let fetched = fetch(&request(&fake, cache.path()), &mut |step| {
        steps.push(format!("{step:?}"))
    })
    .unwrap();
    let names: Vec<&str> = fetched.files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(
        names,
        ["config.json", "tokenizer.json", "model.safetensors"]
    );
    let kinds: Vec<Checksum> = fetched.files.iter().map(|f| f.checksum).collect();
    assert_eq!(
        kinds,
        [Checksum::GitSha1, Checksum::GitSha1, Checksum::Sha256]
    );
    assert!(fetched.files.iter().all(|f| f.downloaded));
    assert!(steps.iter().any(|s| s.starts_with("Advanced")), "{steps:?}");
    let places = super::super::checkpoint::ModelPlaces {
        models: None,
        caches: vec![cache.path().to_owned()],
    };
    let dir = super::super::checkpoint::locate("org/tiny", &Default::default(), &places).unwrap();
    assert_eq!(dir, fetched.dir);
    super::super::checkpoint::Checkpoint::open("org/tiny", &dir).unwrap();
    // The commit is named by `main` alone.
    let refs = cache.path().join("models--org--tiny/refs");
    let refs: Vec<_> = std::fs::read_dir(refs)
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(refs, ["main"]);
    // The token goes with every request to the hub.
    let asked = fake.authorised.lock().unwrap();
    assert!(
        asked
            .iter()
            .filter(|(_, path)| !path.starts_with("/cdn"))
            .all(|(token, _)| *token)
    );
}

#[test]
fn what_is_there_and_right_is_not_downloaded_again() {
    let (fake, cache) = (serve(HubError::None), tempfile::tempdir().unwrap());
    let first = fetched(&fake, cache.path()).unwrap();
    let again = fetched(&fake, cache.path()).unwrap();
    assert!(again.files.iter().all(|f| !f.downloaded));
    assert_eq!(fake.ranges.lock().unwrap().len(), 1);
    // A file that was damaged in the cache is.
    let blob = std::fs::canonicalize(first.dir.join("model.safetensors")).unwrap();
    std::fs::write(&blob, "x").unwrap();
    let mended = fetched(&fake, cache.path()).unwrap();
    assert!(mended.files[2].downloaded && !mended.files[0].downloaded);
    assert_eq!(weights(&mended.dir), weights(fake.model.path()));
}

#[test]
fn a_download_cut_in_the_middle_goes_on_where_it_broke_off() {
    let (fake, cache) = (serve(HubError::Cut), tempfile::tempdir().unwrap());
    let fetched = fetched(&fake, cache.path()).unwrap();
    assert_eq!(weights(&fetched.dir), weights(fake.model.path()));
    let size = weights(fake.model.path()).len() as u64;
    let ranges = fake.ranges.lock().unwrap();
    assert_eq!(*ranges, [0, size / 2]);
}

#[test]
fn a_later_fetch_takes_up_what_an_earlier_one_left() {
    let (fake, cache) = (serve(HubError::Cut), tempfile::tempdir().unwrap());
    let once = FetchRequest {
        retries: 0,
        ..request(&fake, cache.path())
    };
    let failure = fetch(&once, &mut |_| {}).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(failure.message.contains("model.safetensors"), "{failure}");
    // Nothing names the commit as long as a file is missing.
    assert!(!cache.path().join("models--org--tiny/refs/main").exists());
    let fetched = fetch(&once, &mut |_| {}).unwrap();
    assert_eq!(weights(&fetched.dir), weights(fake.model.path()));
    assert!(fake.ranges.lock().unwrap()[1] > 0);
}

#[test]
fn a_hub_that_heeds_no_ranges_still_gives_the_right_file() {
    let (fake, cache) = (serve(HubError::NoRanges), tempfile::tempdir().unwrap());
    let blobs = cache.path().join("models--org--tiny/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    let etag = training::hex(&<sha2::Sha256 as sha2::Digest>::digest(weights(
        fake.model.path(),
    )));
    std::fs::write(blobs.join(format!("{etag}.part")), "rubbish").unwrap();
    let fetched = fetched(&fake, cache.path()).unwrap();
    assert_eq!(weights(&fetched.dir), weights(fake.model.path()));
}

#[test]
fn a_wrong_checksum_is_an_error_and_leaves_nothing_behind() {
    let (fake, cache) = (serve(HubError::Damaged), tempfile::tempdir().unwrap());
    let failure = fetched(&fake, cache.path()).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(
        failure.message.contains("model.safetensors of org/tiny"),
        "{failure}"
    );
    assert!(failure.message.contains("checksum"), "{failure}");
    let folder = cache.path().join("models--org--tiny");
    assert!(!folder.join("refs/main").exists());
    assert!(
        !folder
            .join("snapshots")
            .join(COMMIT)
            .join("model.safetensors")
            .exists()
    );
}

#[test]
fn no_model_no_access_and_no_network_are_one_clear_line_each() {
    for (code, expected) in [
        (404, "has no the model org/tiny at the revision main"),
        (401, "HF_TOKEN"),
        (403, "HF_TOKEN"),
        (500, "status 500"),
    ] {
        let (fake, cache) = (serve(HubError::Status(code)), tempfile::tempdir().unwrap());
        let failure = fetched(&fake, cache.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert!(failure.message.contains(expected), "{failure}");
        assert_eq!(failure.message.lines().count(), 1, "{failure}");
    }
    let fake = serve(HubError::None);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = FetchRequest {
        endpoint: Some(format!("http://{}", closed.local_addr().unwrap())),
        ..request(&fake, fake.model.path())
    };
    drop(closed);
    let failure = fetch(&unreachable, &mut |_| {}).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(failure.message.contains("cannot be reached"), "{failure}");
}

#[test]
fn a_hub_that_falls_silent_is_given_up_with_one_line_that_names_it() {
    for (trouble, what) in [
        (HubError::Silent, "the model org/tiny from"),
        (HubError::Stalled, "model.safetensors from"),
    ] {
        let (fake, cache) = (serve(trouble), tempfile::tempdir().unwrap());
        let hasty = FetchRequest {
            patience: Duration::from_millis(500),
            ..request(&fake, cache.path())
        };
        let failure = fetch(&hasty, &mut |_| {}).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        for part in [what, &fake.endpoint, "not a byte for 500ms", "HF_ENDPOINT"] {
            assert!(failure.message.contains(part), "{part:?}: {failure}");
        }
        assert_eq!(failure.message.lines().count(), 1, "{failure}");
        let folder = cache.path().join("models--org--tiny");
        assert!(!folder.join("refs/main").exists());
        // What came is kept for the next fetch.
        let parts = std::fs::read_dir(folder.join("blobs"))
            .into_iter()
            .flatten();
        let mut parts = parts.flatten().map(|e| e.path());
        let part = parts.find(|p| p.extension().is_some_and(|e| e == "part"));
        assert_eq!(part.is_some(), trouble == HubError::Stalled);
    }
}

#[test]
fn a_hub_that_drips_is_given_up_and_what_came_is_kept() {
    let (fake, cache) = (serve(HubError::Dripping), tempfile::tempdir().unwrap());
    let hasty = FetchRequest {
        patience: Duration::from_millis(500),
        ..request(&fake, cache.path())
    };
    let failure = fetch(&hasty, &mut |_| {}).unwrap_err();
    let told = "fewer than 16384 bytes in 500ms";
    assert!(failure.message.contains(told), "{failure}");
    let folder = cache.path().join("models--org--tiny");
    assert!(!folder.join("refs/main").exists());
    let parts = std::fs::read_dir(folder.join("blobs")).unwrap().flatten();
    let mut sizes = parts.map(|e| (e.path(), e.metadata().unwrap().len()));
    assert!(sizes.any(|(path, size)| path.extension().is_some_and(|e| e == "part") && size > 0));
}

#[test]
fn no_byte_behind_the_announced_end_is_written_and_none_before_it_is_believed() {
    let (fake, cache) = (serve(HubError::Long), tempfile::tempdir().unwrap());
    let size = weights(fake.model.path()).len();
    let failure = fetched(&fake, cache.path()).unwrap_err();
    let told = format!("longer than the {size} bytes that were announced");
    assert!(failure.message.contains(&told), "{failure}");
    let blobs = cache.path().join("models--org--tiny/blobs");
    let mut names = std::fs::read_dir(blobs)
        .unwrap()
        .flatten()
        .map(|e| e.path());
    let weights = training::hex(&<sha2::Sha256 as sha2::Digest>::digest(weights(
        fake.model.path(),
    )));
    let part = format!("{weights}.part");
    assert!(!names.any(|path| path.ends_with(&part)));
}

#[test]
fn a_reference_names_only_what_can_be_used_and_is_never_written_through_a_link() {
    use std::os::unix::fs::symlink;
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("models--org--tiny");
    std::fs::create_dir_all(folder.join("refs")).unwrap();
    std::fs::write(folder.join("refs/main"), "c0").unwrap();
    let failure = fetched(&serve(HubError::Unusable), cache.path()).unwrap_err();
    assert!(failure.message.contains("was not kept"), "{failure}");
    assert_eq!(failure.exit, Exit::BadInput);
    assert_eq!(
        std::fs::read_to_string(folder.join("refs/main")).unwrap(),
        "c0"
    );
    assert!(!folder.join("snapshots").exists());
    // The file's place in the snapshot is told, not the one where it was looked at.
    let place = folder.join("snapshots").join(COMMIT).join("config.json");
    let place = place.display().to_string();
    assert!(failure.message.contains(&place), "{failure}");
    // A link is replaced: the file that it leads to is not the cache's.
    let mine = cache.path().join("mine");
    std::fs::write(&mine, "mine").unwrap();
    for name in ["refs/main", &format!("snapshots/{COMMIT}/config.json")] {
        std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(folder.join(name));
        symlink(&mine, folder.join(name)).unwrap();
    }
    let fetched = fetched(&serve(HubError::None), cache.path()).unwrap();
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(
        std::fs::read_to_string(folder.join("refs/main")).unwrap(),
        COMMIT
    );
    super::super::checkpoint::Checkpoint::open("org/tiny", &fetched.dir).unwrap();
}

#[test]
fn what_another_process_is_downloading_is_left_to_it() {
    let (fake, cache) = (serve(HubError::None), tempfile::tempdir().unwrap());
    let config = std::fs::read(fake.model.path().join("config.json")).unwrap();
    let blob = [format!("blob {}\0", config.len()).as_bytes(), &config].concat();
    use sha1::Digest;
    let etag = training::hex(&sha1::Sha1::digest(&blob));
    let folder = Folder::new(cache.path(), "org/tiny");
    let held = folder.part(&etag, config.len() as u64).unwrap();
    let failure = fetched(&fake, cache.path()).unwrap_err();
    assert!(failure.message.contains("another process"), "{failure}");
    drop(held);
    fetched(&fake, cache.path()).unwrap();
}

#[test]
fn a_snapshot_whose_links_are_gone_is_made_again_from_its_blobs() {
    let (fake, cache) = (serve(HubError::None), tempfile::tempdir().unwrap());
    let first = fetched(&fake, cache.path()).unwrap();
    std::fs::remove_dir_all(&first.dir).unwrap();
    let again = fetched(&fake, cache.path()).unwrap();
    assert!(again.files.iter().all(|f| !f.downloaded));
    assert_eq!(weights(&again.dir), weights(fake.model.path()));
}

#[test]
fn names_that_would_leave_the_cache_are_refused_without_a_request() {
    let (fake, cache) = (serve(HubError::None), tempfile::tempdir().unwrap());
    for model in ["", "../x", "a/b/c", "a b", "org/..", "/etc", "org/tiny?x"] {
        let request = FetchRequest {
            model: model.to_owned(),
            ..request(&fake, cache.path())
        };
        assert!(fetch(&request, &mut |_| {}).is_err(), "{model}");
    }
    for revision in ["", "../main", "a//b", "x y"] {
        let request = FetchRequest {
            revision: revision.to_owned(),
            ..request(&fake, cache.path())
        };
        assert!(fetch(&request, &mut |_| {}).is_err(), "{revision}");
    }
    assert_eq!(fake.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn of_the_weights_the_best_form_is_chosen_and_shards_come_from_the_index() {
    let all = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let both = all(&[
        "pytorch_model.bin",
        "config.json",
        "vocab.txt",
        "model.safetensors",
    ]);
    let choice = choose::choose(&both).unwrap();
    assert_eq!(
        choice.files,
        ["config.json", "vocab.txt", "model.safetensors"]
    );
    let sharded = all(&[
        "config.json",
        "spm.model",
        "pytorch_model.bin.index.json",
        "a.bin",
        "b.bin",
    ]);
    let choice = choose::choose(&sharded).unwrap();
    let named = "pytorch_model.bin.index.json";
    assert_eq!(choice.weights, named);
    let index = br#"{"weight_map": {"x": "b.bin", "y": "a.bin", "z": "b.bin"}}"#;
    let shards = |index: &[u8]| choose::shards(index, &sharded, named);
    assert_eq!(shards(index).unwrap(), ["a.bin", "b.bin"]);
    for odd in [
        r#"{"weight_map": {"x": "../b.bin"}}"#,
        r#"{"weight_map": {"x": "c.bin"}}"#,
        r#"{"weight_map": {"x": "config.json"}}"#,
        r#"{"weight_map": {"x": 1}}"#,
        r#"{"weight_map": {}}"#,
        "[]",
    ] {
        assert!(shards(odd.as_bytes()).is_err(), "{odd}");
    }
    for lacking in [
        &["model.safetensors", "tokenizer.json"][..],
        &["config.json", "tokenizer.json", "tf_model.h5"],
        &["config.json", "model.safetensors"],
    ] {
        assert!(choose::choose(&all(lacking)).is_err());
    }
}
