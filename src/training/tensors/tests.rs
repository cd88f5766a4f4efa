//! Pickles that no program of PyTorch wrote. What files hold is compared with what PyTorch says in the crate `text`.

use super::pickle;
use crate::testing::TORN_PICKLES;

#[test]
fn torn_pickles_are_refused() {
    for torn in TORN_PICKLES {
        assert!(pickle::read(torn).is_err(), "{torn:?}");
    }
}

#[test]
fn what_a_pickle_would_call_is_named() {
    let named = |bytes: &[u8]| match pickle::read(bytes) {
        Err(pickle::Refused::Global(name)) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(b"cos\nsystem\n."), "os.system");
    assert_eq!(named(b"\x8c\x08builtins\x8c\x04eval\x93."), "builtins.eval");
    assert_eq!(named(b"(ios\nsystem\n."), "os.system");
    assert_eq!(named(b"ctorch\nsaveStorage\n."), "torch.saveStorage");
}
