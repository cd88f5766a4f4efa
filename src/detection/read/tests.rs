//! Data sets as people have them, and damaged ones.

use super::*;
use image::RgbImage;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};
use training::split::Part;

/// A directory with these files; pictures are 100 x 50 pixels.
fn files(files: &[(&str, &str)]) -> TempDir {
    let dir = tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match picture::is_picture(&path) {
            true => RgbImage::new(100, 50).save(&path).unwrap(),
            false => fs::write(&path, content).unwrap(),
        }
    }
    dir
}

/// What is wrong, without the directory.
fn wrong(dir: &TempDir, name: &str) -> String {
    let problems = read(&dir.path().join(name), Placement::default()).unwrap_err();
    problems
        .to_string()
        .replace(&format!("{}/", dir.path().display()), "")
}

fn told(truths: &[Truth]) -> Vec<(&str, bool, Vec<Point>)> {
    let told = |truth: &'_ Truth| truth.polygon.points().to_vec();
    truths
        .iter()
        .map(|t| (t.text.as_str(), t.ignored, told(t)))
        .collect()
}

#[test]
fn icdar_is_read_with_its_mark_commas_quotes_and_ignored_texts() {
    let texts = "\u{feff}1,2,31,2,31,12,1,12,\"Hello, world\"\r\n40,2,60,2,60,12,40,12,###\r\n\r\n1,20,9,20,9,29,1,29,a,,b\r\n";
    let dir = files(&[
        ("img_1.png", ""),
        ("gt_img_1.txt", texts),
        ("img_2.JPG", ""),
        ("gt_img_2.txt", ""),
    ]);
    let found = read(dir.path(), Placement::default()).unwrap();
    let square = |[x0, y0, x1, y1]: [f64; 4]| vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
    assert_eq!(
        told(&found.pages[0].truths),
        [
            ("\"Hello, world\"", false, square([1.0, 2.0, 31.0, 12.0])),
            ("###", true, square([40.0, 2.0, 60.0, 12.0])),
            ("a,,b", false, square([1.0, 20.0, 9.0, 29.0])),
        ]
    );
    assert_eq!(found.pages[1].truths, []);
    assert!(found.samples.parts.is_empty());
}

#[test]
fn directories_named_after_parts_are_the_parts() {
    let dir = files(&[
        ("train/a.png", ""),
        ("train/gt_a.txt", ""),
        ("val/x/b.png", ""),
        ("val/x/gt_b.txt", ""),
        ("test/c.png", ""),
        ("test/gt_c.txt", ""),
    ]);
    let found = read(dir.path(), Placement::default()).unwrap();
    assert_eq!(
        found.samples.parts,
        [Part::Test, Part::Train, Part::Validation]
    );
}

#[test]
fn all_that_is_wrong_in_a_directory_is_told_together() {
    let dir = files(&[
        ("a.png", ""),
        (
            "gt_a.txt",
            "1,2,3\n1,2,31,2,31,12,1,x,text\n5,5,5,5,5,5,5,5,point\n1,1,9,1,9,9,1,inf,far\n",
        ),
        ("b.png", ""),
        ("c.png", ""),
        ("gt_c.txt", "0,0,9,0,9,9,0,9,fine\n,\n"),
    ]);
    fs::write(dir.path().join("d.png"), "").unwrap();
    fs::write(dir.path().join("gt_d.txt"), b"\xff\xfe0\0").unwrap();
    let line = "expected eight numbers, x and y of four points, and the text, separated by commas";
    let problems = read(dir.path(), Placement::default())
        .unwrap_err()
        .to_string();
    let problems = problems.replace(&format!("{}/", dir.path().display()), "");
    let expected = [
        "7 problems:".to_owned(),
        format!("gt_a.txt:1: text: found 3 values, {line}"),
        format!("gt_a.txt:2: text: found \"x\" for a number, {line}"),
        "gt_a.txt:3: text: found an outline without an inside, expected an outline that encloses a text".to_owned(),
        "gt_a.txt:4: text: found the point 1, inf, expected finite coordinates in pixels".to_owned(),
        "b.png: data.path: found no gt_b.txt beside it, expected a file with the texts of each picture".to_owned(),
        format!("gt_c.txt:2: text: found 2 values, {line}"),
        "gt_d.txt: data.path: found UTF-16 (by its byte-order mark), expected UTF-8, expected a file of texts that can be read".to_owned(),
    ];
    assert_eq!(problems, expected.join("\n"));
}

#[test]
fn json_lines_are_read_with_parts_and_groups() {
    let lines = [
        r#"{"image": "in/a.png", "texts": [{"polygon": [[1, 2], [9, 2], [9.5, 8], [5, 9], [1, 8]], "text": "x"}], "part": "train", "book": 1}"#,
        r#"{"image": "b.png", "texts": [{"polygon": [[1, 2], [9, 2], [9, 8]], "ignored": true}], "part": "val", "book": "2"}"#,
        r#"{"image": "b.png", "texts": [], "part": "test", "book": "2"}"#,
    ];
    let dir = files(&[("pages.jsonl", &lines.join("\n"))]);
    let placement = Placement {
        group: Some("book"),
        part: Some("part"),
    };
    let found = read(&dir.path().join("pages.jsonl"), placement).unwrap();
    assert_eq!(
        found.samples.parts,
        [Part::Train, Part::Validation, Part::Test]
    );
    assert_eq!(
        (found.samples.group(0), found.samples.group(2)),
        (Some("1"), Some("2"))
    );
    assert_eq!(found.pages[0].image, dir.path().join("in/a.png"));
    assert_eq!(found.pages[0].truths[0].polygon.points().len(), 5);
    assert_eq!(
        told(&found.pages[1].truths),
        [("", true, vec![[1.0, 2.0], [9.0, 2.0], [9.0, 8.0]])]
    );
    assert_eq!(found.samples.lines[2], 3);
}

#[test]
fn all_that_is_wrong_in_json_lines_is_told_together() {
    let lines = [
        r#"{"texts": []}"#,
        r#"{"image": "a.png"}"#,
        r#"{"image": "a.png", "texts": [{"polygon": [[1, 2]]}, {"polygon": 3}, {"poligon": []}]}"#,
        "no json",
    ];
    let dir = files(&[("pages.jsonl", &lines.join("\n"))]);
    let problems = wrong(&dir, "pages.jsonl");
    let starts = [
        "7 problems:",
        "pages.jsonl:1: row 1, column image: found no path",
        "pages.jsonl:2: row 2, column texts: found no list",
        "pages.jsonl:3: row 3, column texts, text 1: found 1 points, expected at least three points",
        "pages.jsonl:3: row 3, column texts, text 2: found invalid type",
        "pages.jsonl:3: row 3, column texts, text 3: found unknown field `poligon`",
        "pages.jsonl:4: row 4: found expected ident",
        "a.png: picture: found No such file",
    ];
    let lines: Vec<&str> = problems.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{problems}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    // A cell that cannot be read is not told as a missing one, too.
    let dir = files(&[("pages.jsonl", r#"{"image": ["a.png"], "texts": []}"#)]);
    let problems = wrong(&dir, "pages.jsonl");
    assert_eq!(problems.lines().count(), 1, "{problems}");
    assert!(
        problems.contains("column image: found a list"),
        "{problems}"
    );
}

#[test]
fn coco_text_is_read_in_both_versions() {
    let json = r#"{"imgs": {
            "17": {"id": 17, "file_name": "b.png", "set": "val"},
            "4": {"id": 4, "file_name": "train/a.png", "set": "train"}},
        "anns": {
            "2": {"id": 2, "image_id": 17, "mask": [1, 1, 9, 1, 9, 9], "utf8_string": "two", "legibility": "legible"},
            "1": {"id": 1, "image_id": "4", "polygon": [1, 1, 9, 1, 9, 9, 1, 9], "legibility": "illegible"}}}"#;
    let dir = files(&[("coco.json", json), ("a.png", ""), ("b.png", "")]);
    let found = read(&dir.path().join("coco.json"), Placement::default()).unwrap();
    // Not in the directory that is told, but beside the file.
    let names: Vec<PathBuf> = found.pages.iter().map(|page| page.image.clone()).collect();
    assert_eq!(names, ["a.png", "b.png"].map(|name| dir.path().join(name)));
    assert_eq!(found.samples.parts, [Part::Train, Part::Validation]);
    assert_eq!(
        told(&found.pages[1].truths),
        [("two", false, vec![[1.0, 1.0], [9.0, 1.0], [9.0, 9.0]])]
    );
    assert!(found.pages[0].truths[0].ignored);
    // More digits than a number of 64 bits with a point keeps.
    let long = json.replace("17", "9007199254740993");
    fs::write(dir.path().join("coco.json"), long).unwrap();
    let found = read(&dir.path().join("coco.json"), Placement::default()).unwrap();
    assert_eq!(found.pages[1].truths.len(), 1);
    let odd = json
        .replace("[1, 1, 9, 1, 9, 9]", "[1, 1, 9]")
        .replace("\"4\", \"polygon\"", "5, \"polygon\"");
    fs::write(dir.path().join("coco.json"), odd).unwrap();
    assert_eq!(
        wrong(&dir, "coco.json"),
        "2 problems:\ncoco.json: anns.1: found image_id 5, expected the number of one of imgs\n\
         coco.json: anns.2: found 3 numbers, expected x and y of each point"
    );
}

#[test]
fn mmocr_is_read() {
    let sample = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/detection-sample/textdet_test.json"
    ));
    let json = r#"{"data_list": [{"img_path": "a.png", "instances": [{"polygon": [1, 1, 9, 1, 9, 9], "ignore": true}]}]}"#;
    let dir = files(&[("own.json", json)]);
    let found = read(&dir.path().join("own.json"), Placement::default()).unwrap();
    assert!(found.pages[0].truths[0].ignored);
    // Ten photographs that are not ours to keep here.
    if sample.exists() {
        let found = read(sample, Placement::default()).unwrap();
        let truths = || found.pages.iter().flat_map(|page| &page.truths);
        assert_eq!(
            (
                found.pages.len(),
                truths().count(),
                truths().filter(|t| !t.ignored).count()
            ),
            (10, 82, 21)
        );
        assert_eq!(found.examine().unwrap().len(), 64);
    }
}

#[test]
fn what_is_no_data_set_is_said() {
    let dir = files(&[
        ("a.txt", ""),
        ("empty.jsonl", ""),
        ("no.json", "{}"),
        ("empty/x.txt", ""),
    ]);
    for (name, found) in [
        (
            "a.txt",
            "a.txt: data.path: found a.txt, expected a directory with pictures",
        ),
        (
            "not.there",
            "not.there: data.path: found not.there, which is not there, expected",
        ),
        ("empty.jsonl", "empty.jsonl: data.path: found no page"),
        ("empty", "empty: data.path: found no page"),
        ("no.json", "no.json: data.path: found missing field `imgs`"),
    ] {
        let wrong = wrong(&dir, name);
        assert!(wrong.starts_with(found), "{wrong}");
    }
}

#[test]
fn pictures_are_examined_and_so_is_whether_texts_are_in_them() {
    let inside = r#"{"image": "a.png", "texts": [{"polygon": [[90, 2], [109, 2], [109, 8]]}]}"#;
    let outside = r#"{"image": "a.png", "texts": [{"polygon": [[9, 50], [20, 50], [20, 60]]}]}"#;
    let dir = files(&[
        ("a.png", ""),
        ("b.txt", "no picture"),
        ("fine.jsonl", inside),
    ]);
    let path = dir.path().join("fine.jsonl");
    let read = |path: &Path| read(path, Placement::default()).unwrap().examine();
    let first = read(&path).unwrap();
    assert_eq!(read(&path).unwrap(), first);
    // What a text says is not learned; where it is, and whether it matters, is.
    for (change, same) in [
        (("]]}", "]], \"text\": \"x\"}"), true),
        (("]]}", "]], \"ignored\": true}"), false),
        (("90", "91"), false),
    ] {
        fs::write(&path, inside.replace(change.0, change.1)).unwrap();
        assert_eq!(read(&path).unwrap() == first, same, "{change:?}");
    }
    let broken = inside.replace("a.png", "b.txt");
    let missing = inside.replace("a.png", "c.png");
    fs::write(&path, [inside, outside, &broken, &missing].join("\n")).unwrap();
    let found = read(&path).unwrap_err().to_string();
    let found = found.replace(&format!("{}/", dir.path().display()), "");
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "3 problems:",
            "a.png: picture: found text 1 at 9, 50, outside of its 100 x 50 pixels, expected texts that are in the upright picture"
        ]
    );
    assert!(
        lines[2].starts_with("b.txt: picture: found ")
            && lines[2].ends_with("expected a JPEG, PNG or WebP picture")
    );
    assert!(
        lines[3].starts_with("c.png: picture: found No such file"),
        "{found}"
    );
}

/// What somebody else's file may be: a valid one in which bytes were changed, removed or repeated.
fn damaged(sample: &[u8], changes: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for (at, how, byte) in changes {
        let at = at % (bytes.len() + 1);
        match how % 4 {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, *byte),
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    proptest::collection::vec(any::<(usize, u8, u8)>(), 1..4)
}

proptest! {
    #[test]
    fn damaged_data_sets_are_read_or_told_of(changes in changes()) {
        let icdar = "\u{feff}1,2,31,2,31,12,1,12,\"Hello, world\"\r\n40,2,60,2,60,12,40,12,###\r\n";
        let coco = r#"{"imgs":{"4":{"file_name":"a.png","set":"train"}},"anns":{"1":{"image_id":4,"mask":[1,1,9,1,9,9]}}}"#;
        let mmocr = r#"{"data_list":[{"img_path":"a.png","instances":[{"polygon":[1,1,9,1,9,9],"ignore":true}]}]}"#;
        let lines = "{\"image\":\"a.png\",\"texts\":[{\"polygon\":[[1,2],[9,2],[9,8]],\"text\":\"x\"}]}\n{\"image\":\"b.png\",\"texts\":[]}\n";
        let dir = files(&[("set/a.png", ""), ("set/gt_a.txt", "")]);
        for (name, sample) in [("set/gt_a.txt", icdar), ("a.json", coco), ("b.json", mmocr), ("c.jsonl", lines)] {
            let path = dir.path().join(name);
            fs::write(&path, damaged(sample.as_bytes(), &changes)).unwrap();
            let path = if name.starts_with("set") { dir.path().join("set") } else { path };
            if let Err(problems) = read(&path, Placement::default()) {
                prop_assert!(!problems.0.is_empty());
            }
        }
    }

    #[test]
    fn damaged_pictures_are_read_or_told_of(changes in changes()) {
        let sample = RgbImage::from_fn(24, 20, |x, y| image::Rgb([(x * 9) as u8, (y * 12) as u8, 40]));
        for format in [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::WebP] {
            let mut bytes = std::io::Cursor::new(Vec::new());
            sample.write_to(&mut bytes, format).unwrap();
            if let Err(found) = picture::decode(&damaged(bytes.get_ref(), &changes)) {
                prop_assert!(!found.is_empty());
            }
        }
    }
}
