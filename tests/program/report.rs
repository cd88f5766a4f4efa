//! `tune report` and `tune plot`: what is in the page is what is in the database, and text of others stays text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use messages::testing::{HOSTILE, harmful_in};
use report::format::value;
use roxmltree::Document;
use search::space::{Domain, Value};
use search::study::{Direction, FrozenTrial, TrialState};
use serde_json::{Map, Value as Json, json};
use store::{NewStudy, Store};

use crate::common::{Project, valid};

fn figures(project: &Project, args: &[&str]) -> Json {
    let args = [&["report"], args, &["--json"]].concat();
    let answer = serde_json::from_str(&project.expect(0, &args).0).unwrap();
    valid("report", &answer);
    answer
}

/// The page of a study, and the charts in it, each parsed by itself.
fn page(project: &Project, study: &str) -> (String, Vec<String>) {
    let out = project.path().join("page.html");
    let args = ["report", study, "-o", out.to_str().unwrap()];
    project.expect(0, &args);
    let page = fs::read_to_string(&out).unwrap();
    let charts: Vec<String> = page
        .split("<svg ")
        .skip(1)
        .map(|rest| format!("<svg {}</svg>", rest.split_once("</svg>").unwrap().0))
        .collect();
    for chart in &charts {
        let parsed = Document::parse(chart).unwrap_or_else(|e| panic!("{e}: {chart}"));
        let root = parsed.root_element();
        let text = |name: &str| {
            let found = root.children().find(|n| n.has_tag_name(name)).unwrap();
            found.text().unwrap_or_default().to_owned()
        };
        assert_eq!(root.attribute("role"), Some("img"));
        assert!(
            text("title").len() > 3 && text("desc").len() > 20,
            "{chart}"
        );
    }
    (page, charts)
}

/// The page asks nobody for anything, and every name in it is there once.
fn stands_alone(page: &str) {
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=", "href=\"h", "url(", "@import", "fetch(", "style=\""] {
        assert!(!page.contains(outside), "{outside}");
    }
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0)
        .collect();
    let once: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
    for link in page.split("href=\"#").skip(1) {
        let to = link.split_once('"').unwrap().0;
        assert!(ids.contains(&to), "{to}");
    }
}

#[test]
fn the_page_tells_what_the_database_has() {
    let project = Project::synthetic();
    // With two at a time it is chance which trials are pruned; importances need 20 that are not.
    let run = "synthetic --trials 60 --parallel 2 --seed 3 --repeats 2 --set task.noise=0.05 --inject segv:2,kill:1 \
               --set pruner.n_startup_trials=25";
    project.expect(0, &run.split(' ').collect::<Vec<_>>());
    let (page, charts) = page(&project, "synthetic");
    stands_alone(&page);
    let trials = project.trials("synthetic");
    let complete: Vec<&Json> = trials.iter().filter(|t| t["state"] == "COMPLETE").collect();
    assert!(page.contains(&format!(">complete ({})<", complete.len())));
    // The table has the best trials, the best first.
    let mut order: Vec<(f64, u64)> = complete
        .iter()
        .map(|t| (t["value"].as_f64().unwrap(), t["number"].as_u64().unwrap()))
        .collect();
    order.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let shown: Vec<String> = page
        .split("<tr><th scope=\"row\">")
        .skip(1)
        .filter(|row| row.contains("data-v"))
        .map(|row| row.split_once("</tr>").unwrap().0.to_owned())
        .collect();
    assert_eq!(shown.len(), order.len().min(25));
    for (row, (x, number)) in shown.iter().zip(&order) {
        let start = format!("{number}</th><td data-v=\"{x}\">{}</td>", value(*x));
        assert!(row.starts_with(&start), "{row}: {start}");
    }
    let answer = figures(&project, &["synthetic"]);
    assert_eq!(answer["page"], json!(null));
    assert_eq!(answer["counts"]["complete"], complete.len());
    let faults: u64 = answer["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["attempts"].as_u64().unwrap())
        .sum();
    let again: usize = trials
        .iter()
        .map(|t| t["attempts"].as_array().unwrap().len() - 1)
        .sum();
    assert!(faults >= again as u64 && again > 0, "{faults} {again}");
    // What won is what `tune best` says, and by its repeats.
    let best: Json = serde_json::from_str(&project.expect(0, &["best", "--json"]).0).unwrap();
    assert_eq!(answer["best"], best["best"]);
    let mean = best["selection"]["winner"]["mean"].as_f64().unwrap();
    let margin = best["baseline"]["value"].as_f64().unwrap() - mean;
    assert!((answer["margin"].as_f64().unwrap() - margin).abs() < 1e-12);
    assert!(
        page.contains(&format!("loss {}, ", value(mean))),
        "{}",
        answer["verdict"]
    );
    let importance: Json =
        serde_json::from_str(&project.expect(0, &["importance", "--json"]).0).unwrap();
    assert_eq!(
        answer["importance"],
        importance["importance"][0]["parameters"]
    );
    assert!(charts.len() > 15, "{}", charts.len());
    // What is left out is said.
    assert!(page.contains("No other study was named beside it"));
}

#[test]
fn hostile_text_is_text_everywhere() {
    let project = Project::empty();
    let long = "x".repeat(10_000);
    // No argument of a program can have a NUL in it.
    let hostile = HOSTILE.replace('\0', "");
    let name = format!("<script>alert(1)</script>\"'&{hostile}");
    let mut store = Store::open(project.database()).unwrap();
    let texts = [name.as_str(), &long, "</svg><img src=x onerror=alert(1)>"];
    let domain = Domain::choices(texts);
    let trials: Vec<FrozenTrial> = (0..60u64)
        .map(|n| {
            let value = Value::from(texts[n as usize % 3]);
            let mut trial =
                FrozenTrial::new(n, TrialState::Complete, [(name.clone(), value)].into());
            trial.distributions = [(name.clone(), domain.clone())].into();
            trial.values = vec![(n % 3) as f64 + n as f64 / 100.0];
            trial.intermediate = [(1, 1.0), (2, 0.5)].into();
            trial
        })
        .collect();
    let noted = json!({"metric": name, "baseline": {"value": 9.0, "what": name}});
    let Json::Object(user_attrs) = noted else {
        unreachable!()
    };
    let study = NewStudy {
        name: &name,
        directions: &[Direction::Minimize],
        user_attrs: &user_attrs,
        identity: &Map::new(),
    };
    store.create_study(&study, &trials).unwrap();
    drop(store);
    let (page, _) = page(&project, &name);
    stands_alone(&page.replace("&lt;img src=", ""));
    assert_eq!(page.matches("<script>").count(), 1, "the page's own");
    assert!(!page.contains("<img") && !page.contains(&"x".repeat(400)));
    assert_eq!(harmful_in(&page), Vec::<char>::new());
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    figures(&project, &[&name]);
    // The same texts beside another study, and where trials failed.
    let mut store = Store::open(project.database()).unwrap();
    let other = NewStudy {
        name: "other",
        ..study
    };
    store.create_study(&other, &trials[..40]).unwrap();
    drop(store);
    for args in [&["compare", &name, "other"][..], &["faults", &name]] {
        let (text, _) = project.expect(0, args);
        assert_eq!(harmful_in(&text), Vec::<char>::new(), "{args:?}");
        assert!(!text.contains(&"x".repeat(400)), "{args:?}");
    }
    for kind in ["history", "importances", "slice", "parallel", "curves"] {
        let (svg, _) = project.expect(0, &["plot", kind, &name]);
        Document::parse(&svg).unwrap_or_else(|e| panic!("{kind}: {e}"));
        assert!(
            !svg.contains("<script") && harmful_in(&svg).is_empty(),
            "{kind}"
        );
    }
}

#[test]
fn several_objectives_and_studies_beside_each_other_have_charts_of_their_own() {
    let project = Project::synthetic();
    let two = "synthetic --study two --trials 40 --objective loss:min --objective cost:min";
    project.expect(0, &two.split(' ').collect::<Vec<_>>());
    project.expect(0, &["synthetic", "--trials", "5"]);
    let answer = figures(&project, &["two"]);
    let best: Json =
        serde_json::from_str(&project.expect(0, &["best", "two", "--json"]).0).unwrap();
    assert_eq!(answer["front"], best["front"]);
    assert!(answer["hypervolume"].as_f64().unwrap() > 0.0);
    let (page, _) = page(&project, "two");
    let front = answer["front"].as_array().unwrap().len();
    assert!(page.contains(&format!(">the front ({front})<")));
    let (answer, _) = project.expect(0, &["plot", "history", "synthetic", "--json"]);
    let answer: Json = serde_json::from_str(&answer).unwrap();
    valid("plot", &answer);
    let (svg, _) = project.expect(0, &["plot", "history", "synthetic"]);
    assert_eq!(answer["svg"].as_str(), Some(svg.as_str()));
    let (svg, _) = project.expect(0, &["plot", "edf", "synthetic", "--with", "two"]);
    assert!(
        svg.contains(">synthetic (5)<") && svg.contains(">two (40)<"),
        "{svg}"
    );
    let (_, stderr) = project.expect(2, &["plot", "edf", "synthetic", "--with", "three"]);
    assert!(stderr.contains("three"), "{stderr}");
    let other = "synthetic --study other --trials 2 --objective cost:min";
    project.expect(0, &other.split(' ').collect::<Vec<_>>());
    let (_, stderr) = project.expect(2, &["report", "synthetic", "--with", "other"]);
    let why = "--with other: it is to minimize cost";
    assert!(stderr.contains(why), "{stderr}");
}

#[test]
fn a_plot_is_drawn_where_there_is_something_to_see_and_else_it_says_why() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "40", "--seed", "1"]);
    let out = project.path().join("x.svg");
    let out = out.to_str().unwrap();
    for kind in [
        "history",
        "importances",
        "slice",
        "contour",
        "parallel",
        "curves",
        "timeline",
    ] {
        project.expect(0, &["plot", kind, "-o", out, "--width", "85"]);
        let svg = fs::read_to_string(out).unwrap();
        let parsed = Document::parse(&svg).unwrap();
        assert_eq!(
            parsed.root_element().attribute("width"),
            Some("321.3"),
            "{kind}"
        );
        assert!(
            parsed.descendants().any(|n| n.has_tag_name("path")),
            "{kind}"
        );
    }
    let (svg, _) = project.expect(0, &["plot", "slice", "--param", "optim.lr"]);
    assert!(svg.contains(">optim.lr (log)<"), "{svg}");
    for (args, why) in [
        (&["plot", "pareto"][..], "one objective"),
        (&["plot", "repeats"], "trained again"),
        (
            &["plot", "slice", "--param", "nothing"],
            "No complete trial has a parameter nothing",
        ),
        (&["plot", "history", "-o", "x.pdf"], "ends in .svg or .png"),
        (&["plot", "history", "--dpi", "3"], "from 30 to 1200"),
        (&["plot", "history", "--width", "3"], "from 40 to 1000"),
        (&["plot", "piechart"], "possible values: history, repeats"),
    ] {
        let (_, stderr) = project.expect(2, args);
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
}

/// Width and height that the header of a PNG file names.
fn size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_plot_is_drawn_as_pixels_with_its_words() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "40", "--seed", "1"]);
    let out = project.path().join("x.png");
    let draw = |more: &[&str]| {
        let args = [
            "plot",
            "history",
            "-o",
            out.to_str().unwrap(),
            "--width",
            "85",
        ];
        project.expect(0, &[&args[..], more].concat());
        fs::read(&out).unwrap()
    };
    let usual = draw(&[]);
    assert_eq!(size(&usual).0, 1004, "85 mm at 300 pixels an inch");
    let coarse = draw(&["--dpi", "96", "--theme", "dark"]);
    assert_eq!(size(&coarse).0, 321);
    let (first, _) = project.expect(0, &["plot", "history", "--width", "85"]);
    let words = first.matches("<text").count();
    assert!(
        words > 10 && usual.len() > 10_000,
        "{words}, {}",
        usual.len()
    );
}

#[test]
fn a_file_of_somebody_else_is_not_replaced() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let plot = &["plot", "history"][..];
    for (name, args) in [
        ("x.html", &["report"][..]),
        ("x.svg", plot),
        ("x.png", plot),
    ] {
        let out = project.path().join(name);
        let args = [args, &["-o", out.to_str().unwrap()]].concat();
        fs::write(&out, "mine").unwrap();
        let (_, stderr) = project.expect(2, &args);
        assert!(stderr.contains("tune has not made it"), "{stderr}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
        fs::remove_file(&out).unwrap();
        project.expect(0, &args);
        project.expect(0, &args);
    }
    let (_, stderr) = project.expect(2, &["report", "-o", "/nowhere/x.html"]);
    assert!(stderr.contains("/nowhere/x.html"), "{stderr}");
}

/// Asks a server of this machine, and gives all that it answers.
fn ask(port: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(stream, "{request}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_page_that_is_open_changes_with_its_study() {
    for opens in [&["report", "--open"][..], &["watch", "--web"]] {
        page_changes(opens);
    }
}

fn page_changes(opens: &[&str]) {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let mut server = project.tune(opens).spawn().unwrap();
    let mut address = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut address).unwrap();
    let path = address.trim().strip_prefix("http://127.0.0.1:").unwrap();
    let (port, path) = path.split_once('/').unwrap();
    let host = format!("Host: 127.0.0.1:{port}");
    let first = ask(port, &format!("GET /{path} HTTP/1.1\r\n{host}"));
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("connect-src 'self'"));
    assert!(first.contains(">complete (3)<"), "{first}");
    let tag = first
        .lines()
        .find_map(|l| l.strip_prefix("ETag: "))
        .unwrap();
    let again = ask(
        port,
        &format!("GET /{path} HTTP/1.1\r\n{host}\r\nIf-None-Match: {tag}"),
    );
    assert!(again.starts_with("HTTP/1.1 304"), "{again}");
    let elsewhere = ask(
        port,
        &format!("GET /{path} HTTP/1.1\r\nHost: evil.example:{port}"),
    );
    assert!(elsewhere.starts_with("HTTP/1.1 403"), "{elsewhere}");
    let guessed = ask(port, &format!("GET /0123/1 HTTP/1.1\r\n{host}"));
    assert!(guessed.starts_with("HTTP/1.1 404"), "{guessed}");
    let (token, _) = path.split_once('/').unwrap();
    let index = ask(port, &format!("GET /{token}/ HTTP/1.1\r\n{host}"));
    assert!(index.contains(">synthetic</a>"), "{index}");
    // It is told of what comes.
    let mut events = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(events, "GET /{path}/events HTTP/1.1\r\n{host}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(events).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "HTTP/1.1 200 OK");
    while !lines.next().unwrap().unwrap().is_empty() {}
    let mut tags = || -> BTreeMap<String, String> {
        let told = lines.find_map(|l| Some(l.unwrap().strip_prefix("data: ")?.to_owned()));
        serde_json::from_str::<Vec<(String, String)>>(&told.unwrap())
            .unwrap()
            .into_iter()
            .collect()
    };
    let before = tags();
    project.expect(0, &["synthetic", "--trials", "5", "--quiet"]);
    let mut after = tags();
    // The run may have been seen before its end.
    let answer = |part: &str, tag: &str| {
        let known = format!("If-None-Match: W/{tag}, \"other\"");
        ask(
            port,
            &format!("GET /{path}/{part} HTTP/1.1\r\n{host}\r\n{known}"),
        )
    };
    while !answer("history", &after["history"]).starts_with("HTTP/1.1 304") {
        after = tags();
    }
    assert_ne!(before["history"], after["history"]);
    let history = answer("history", &before["history"]);
    assert!(history.starts_with("HTTP/1.1 200"), "{history}");
    assert!(
        history.contains(&format!("ETag: {}", after["history"])),
        "{history}"
    );
    assert!(
        history.contains("\r\n\r\n<section id=\"history\""),
        "{history}"
    );
    assert!(answer("other", "\"\"").starts_with("HTTP/1.1 404"));
    let page = ask(port, &format!("GET /{path} HTTP/1.1\r\n{host}"));
    assert!(page.contains(">complete (5)<"), "{page}");
    // A strike starts and ends no trial, and another one in its place leaves as many.
    let tag = || -> String {
        let page = ask(port, &format!("GET /{path} HTTP/1.1\r\n{host}"));
        let tag = page.lines().find_map(|l| l.strip_prefix("ETag: "));
        tag.unwrap().to_owned()
    };
    let mut tags = BTreeSet::from([tag()]);
    project.expect(0, &["strike", "synthetic", "0", "--why", "x"]);
    tags.insert(tag());
    project.expect(0, &["strike", "synthetic", "0", "--undo"]);
    project.expect(0, &["strike", "synthetic", "1", "--why", "x"]);
    tags.insert(tag());
    assert_eq!(tags.len(), 3, "{tags:?}");
    server.kill().unwrap();
    server.wait().unwrap();
}
