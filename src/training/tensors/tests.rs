//! Pickles that no program of PyTorch wrote. What files hold is compared with what PyTorch says in the crate `text`.

use pickle::Refused;

use super::described;
use crate::testing::TORN_PICKLES;

#[test]
fn torn_pickles_are_refused() {
    for torn in TORN_PICKLES {
        assert!(described::read(torn).is_err(), "{torn:?}");
    }
}

#[test]
fn what_a_pickle_would_call_is_named() {
    let named = |bytes: &[u8]| match described::read(bytes) {
        Err(Refused::Global(name)) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(b"cos\nsystem\n."), "os.system");
    assert_eq!(named(b"\x8c\x08builtins\x8c\x04eval\x93."), "builtins.eval");
    assert_eq!(named(b"(ios\nsystem\n."), "os.system");
    assert_eq!(named(b"ctorch\nsaveStorage\n."), "torch.saveStorage");
}

fn told(program: &[u8]) -> String {
    match described::read(program) {
        Ok(_) => "read".to_owned(),
        Err(refused) => format!("{refused:?}"),
    }
}

/// An opcode for a string.
fn text(words: &str) -> Vec<u8> {
    let mut all = vec![b'X'];
    all.extend((words.len() as u32).to_le_bytes());
    all.extend(words.as_bytes());
    all
}

#[test]
fn tensors_of_more_dimensions_than_pytorch_has_and_long_names_of_storages_are_refused() {
    let tensor = |key: &str, dimensions: usize| {
        let mut program = b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec();
        program.extend(text("storage"));
        program.extend(b"ctorch\nFloatStorage\n");
        program.extend(text(key));
        program.extend(text("cpu"));
        program.extend(b"K\x01tQK\x00(");
        program.extend(b"K\x01".repeat(dimensions));
        program.extend(b"t(");
        program.extend(b"K\x01".repeat(dimensions));
        program.extend(b"ttR.");
        told(&program)
    };
    assert_eq!(tensor("0", described::MAX_DIMENSIONS), "read");
    assert!(tensor("0", described::MAX_DIMENSIONS + 1).contains("makes no tensor"));
    assert_eq!(tensor(&"9".repeat(described::MAX_KEY), 1), "read");
    assert!(tensor(&"9".repeat(described::MAX_KEY + 1), 1).contains("no storage"));
}
