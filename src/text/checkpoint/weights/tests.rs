//! Weights from every kind of file, compared with what `tests/reference/make_weights.py` wrote.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;

use super::*;
use training::tensors::FloatType;
use training::testing::TORN_PICKLES;

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/reference/weights")
        .join(name)
}

/// A directory in which the file stands under this name.
fn directory(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), bytes).unwrap();
    dir
}

fn found(dir: &Path) -> Result<Weights, String> {
    Weights::find(dir, "m").map_err(|p| format!("{:?}: {}; {}", p.source, p.found, p.expected))
}

fn bin(name: &str) -> Result<(tempfile::TempDir, Weights), String> {
    let dir = directory(
        "pytorch_model.bin",
        &std::fs::read(reference(name)).unwrap(),
    );
    let weights = found(dir.path())?;
    Ok((dir, weights))
}

/// Every tensor is there, of the right shape, and those of weights' types have the right values.
fn assert_expected(weights: &Weights, case: &str) {
    let bytes = std::fs::read(reference("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(weights.tensors.held().count(), expected.len(), "{case}");
    let mut reader = weights.reader();
    let mut compared = 0;
    for (held, dtype, shape) in weights.tensors.held() {
        let view = expected.tensor(held).unwrap();
        assert_eq!(shape, view.shape(), "{case}: {held}");
        assert_eq!(dtype, view.dtype().to_string(), "{case}: {held}");
        if FloatType::of(dtype).is_some() {
            assert_eq!(
                reader.read(held).unwrap().bytes,
                view.data(),
                "{case}: {held}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 12, "{case}");
}

#[test]
fn every_kind_of_file_holds_the_same_values() {
    for case in ["zip.bin", "legacy.bin", "protocol4.bin"] {
        let (_dir, weights) = bin(case).unwrap();
        assert_expected(&weights, case);
        weights.verify("m").unwrap();
    }
    let bytes = std::fs::read(reference("expected.safetensors")).unwrap();
    let dir = directory("model.safetensors", &bytes);
    assert_expected(&found(dir.path()).unwrap(), "safetensors");
}

#[test]
fn what_is_no_tensor_is_refused_by_its_name_and_never_called() {
    for case in ["evil_zip.bin", "evil_legacy.bin"] {
        let error = bin(case).unwrap_err();
        assert!(error.contains("pytorch_model.bin"), "{error}");
        // os.system is called posix.system by Python.
        assert!(error.contains("asks for posix.system"), "{error}");
    }
    let error = bin("module.bin").unwrap_err();
    assert!(
        error.contains("asks for torch.nn.modules.linear.Linear"),
        "{error}"
    );
}

#[test]
fn files_of_another_kind_are_one_clear_error_each() {
    for (case, expected) in [
        ("list.bin", "something else than a dictionary"),
        ("plain_pickle.bin", "did not write"),
        ("big_endian.bin", "byte order \"big\""),
        (
            "longer.bin",
            "storage 0 has 44 bytes instead of 12 values of F32",
        ),
    ] {
        let error = bin(case).unwrap_err();
        assert!(error.contains(expected), "{case}: {error}");
    }
    let dir = directory("pytorch_model.bin", b"");
    assert!(found(dir.path()).unwrap_err().contains("an empty file"));
    let dir = directory(
        "pytorch_model.bin",
        b"version https://git-lfs.github.com/spec/v1\n",
    );
    assert!(found(dir.path()).unwrap_err().contains("Git LFS"));
}

#[test]
fn a_file_of_torch_cut_anywhere_is_refused_when_it_is_found_or_verified() {
    for case in ["zip.bin", "legacy.bin"] {
        let whole = std::fs::read(reference(case)).unwrap();
        for size in (0..whole.len()).step_by(41).chain([whole.len() - 1]) {
            let dir = directory("pytorch_model.bin", &whole[..size]);
            let refused = found(dir.path()).and_then(|w| w.verify("m").map_err(|p| p.found));
            assert!(refused.is_err(), "{case} cut at {size}");
        }
    }
}

#[test]
fn no_damaged_byte_makes_a_reader_panic_and_damaged_values_have_a_wrong_crc() {
    let whole = std::fs::read(reference("zip.bin")).unwrap();
    let (_dir, weights) = bin("zip.bin").unwrap();
    let plain = weights.reader().read("plain").unwrap().bytes;
    let values = whole.windows(plain.len()).position(|w| w == plain).unwrap();
    let mut broken = whole.clone();
    broken[values] ^= 1;
    let dir = directory("pytorch_model.bin", &broken);
    let weights = found(dir.path()).unwrap();
    let problem = weights.verify("m").unwrap_err();
    assert!(problem.found.contains("CRC is wrong"), "{problem:?}");
    assert!(weights.reader().read("plain").is_err());
    for case in ["zip.bin", "legacy.bin"] {
        let whole = std::fs::read(reference(case)).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] = broken[at].wrapping_add(0x81);
            let dir = directory("pytorch_model.bin", &broken);
            if let Ok(weights) = found(dir.path()) {
                let mut reader = weights.reader();
                for name in weights.tensors.held().map(|(name, ..)| name) {
                    let _ = reader.read(name);
                }
            }
        }
    }
}

#[test]
fn files_are_preferred_as_transformers_prefers_them() {
    let zip = std::fs::read(reference("zip.bin")).unwrap();
    let dir = directory("pytorch_model.bin", &zip);
    let safe = std::fs::read(reference("expected.safetensors")).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), safe).unwrap();
    std::fs::write(dir.path().join("pytorch_model.bin.index.json"), "?").unwrap();
    let weights = found(dir.path()).unwrap();
    assert!(weights.file.ends_with("model.safetensors"));
    std::fs::remove_file(&weights.file).unwrap();
    assert!(
        found(dir.path())
            .unwrap()
            .file
            .ends_with("pytorch_model.bin")
    );
}

/// Two shards: `a` of one tensor, `b` of two, one of which nobody asked for.
fn sharded() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, names: &[&str], first: u8| {
        let views = names.iter().enumerate().map(|(i, name)| {
            let data: &'static [u8] = Box::leak(vec![first + i as u8; 8].into_boxed_slice());
            let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], data);
            (*name, view.unwrap())
        });
        safetensors::serialize_to_file(views, None, &dir.path().join(file)).unwrap();
    };
    write("s-1.safetensors", &["x"], 1);
    write("s-2.safetensors", &["x", "y"], 5);
    let index =
        r#"{"metadata": {}, "weight_map": {"x": "s-1.safetensors", "y": "s-2.safetensors"}}"#;
    std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
    dir
}

#[test]
fn shards_are_read_where_the_index_places_each_tensor() {
    let dir = sharded();
    let weights = found(dir.path()).unwrap();
    let names: Vec<_> = (weights.files().iter())
        .map(|f| f.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "model.safetensors.index.json",
            "s-1.safetensors",
            "s-2.safetensors"
        ]
    );
    let mut reader = weights.reader();
    assert_eq!(reader.read("x").unwrap().bytes, [1; 8]);
    assert_eq!(reader.read("y").unwrap().bytes, [6; 8]);
}

#[test]
fn shards_that_are_missing_or_lack_a_tensor_are_named() {
    let dir = sharded();
    let index = dir.path().join("model.safetensors.index.json");
    std::fs::write(
        &index,
        r#"{"weight_map": {"x": "s-2.safetensors", "z": "s-1.safetensors"}}"#,
    )
    .unwrap();
    let error = found(dir.path()).unwrap_err();
    assert!(
        error.contains("s-1.safetensors") && error.contains("no tensor z"),
        "{error}"
    );
    std::fs::remove_file(dir.path().join("s-1.safetensors")).unwrap();
    let error = found(dir.path()).unwrap_err();
    assert!(error.contains("not there: s-1.safetensors"), "{error}");
    for outside in ["../x.safetensors", "/x.safetensors", ""] {
        std::fs::write(&index, format!(r#"{{"weight_map": {{"x": "{outside}"}}}}"#)).unwrap();
        assert!(found(dir.path()).is_err(), "{outside}");
    }
    std::fs::write(&index, "{}").unwrap();
    assert!(found(dir.path()).unwrap_err().contains("broken index"));
}

/// A pickle of one tensor of these sizes in a storage of `values` 32-bit floats.
fn pickled(values: u64, offset: u64, shape: &[u64], strides: &[u64]) -> Vec<u8> {
    let number = |n: u64| [&[0x8a, 8][..], &n.to_le_bytes()].concat();
    let text = |t: &str| [&[0x8c, t.len() as u8][..], t.as_bytes()].concat();
    let tuple = |all: &[u64]| {
        let members: Vec<u8> = all.iter().flat_map(|n| number(*n)).collect();
        [b"(".as_slice(), &members, b"t"].concat()
    };
    [
        b"\x80\x02}".to_vec(),
        text("a"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        number(values),
        b"tQ".to_vec(),
        number(offset),
        tuple(shape),
        tuple(strides),
        b"\x89NtRs.".to_vec(),
    ]
    .concat()
}

/// An archive of `torch.save` with this pickle and one storage of 16 bytes.
fn archived(pickle: &[u8]) -> tempfile::TempDir {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [("m/data.pkl", pickle), ("m/data/0", &[0; 16])] {
        zip.start_file(name, stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    directory("pytorch_model.bin", &bytes)
}

#[test]
fn hostile_sizes_are_refused_before_anything_is_allocated() {
    let of = |values, offset, shape: &[u64], strides: &[u64]| {
        found(archived(&pickled(values, offset, shape, strides)).path())
    };
    assert!(of(4, 0, &[4], &[1]).is_ok());
    assert!(of(4, 1, &[3], &[1]).is_ok());
    let huge = 1 << 62;
    for (values, offset, shape, strides) in [
        (4, 1, &[4][..], &[1][..]),
        (4, 0, &[2, 2], &[3, 1]),
        (huge, 0, &[huge], &[1]),
        (4, 0, &[huge, huge], &[0, 0]),
        (4, 0, &[huge], &[0]),
        (4, huge, &[4], &[huge]),
        (5, 0, &[5], &[1]),
    ] {
        let error = of(values, offset, shape, strides).unwrap_err();
        assert!(error.contains("a: "), "{shape:?}: {error}");
    }
}

#[test]
fn pickles_that_are_deep_endless_or_torn_are_refused_without_harm() {
    // A million tuples, one in the other, are no recursion.
    let mut deep = b"\x80\x02N".to_vec();
    deep.extend(std::iter::repeat_n(0x85, 1_000_000));
    deep.push(b'.');
    assert!(
        found(archived(&deep).path())
            .unwrap_err()
            .contains("something else")
    );
    for torn in TORN_PICKLES {
        assert!(found(archived(torn).path()).is_err(), "{torn:?}");
    }
}
