//! Pickles that no program of PyTorch wrote. What files hold is compared with what PyTorch says in the crate `text`.

use super::pickle;

#[test]
fn torn_pickles_are_refused() {
    for torn in [
        &b""[..],
        b".",
        b"\x80",
        b"0.",
        b"t.",
        b"(0.",
        b"s.",
        b"h\x00.",
        b"R.",
        b"NNR.",
        b"NQ.",
        b"Nb.",
        b"Na.",
        b"]]Rq\x00.",
        b"X\xff\xff\xff\xffabc.",
        b"\x8b\xff\xff\xff\x7f.",
        b"ccollections\nOrderedDict\nNR.",
        b"(iposix\nsystem\n.",
        b"\x82\x01.",
        b"Pname\n.",
    ] {
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
