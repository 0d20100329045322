//! Layouts and numbers in Rust beside those of the compiled C programs.
#![cfg(feature = "xdp")]
#![allow(clippy::unwrap_used)]

mod btf;

use sluice_bpf::Embedded;
use sluice_bpf::layout::*;
use std::collections::BTreeMap;
use std::mem::offset_of;

macro_rules! same {
    ($types:expr, $c:literal, $rust:ident { $($field:ident),* }) => {
        let mut members = BTreeMap::new();
        $(members.insert(stringify!($field).to_owned(), offset_of!($rust, $field));)*
        assert_eq!($types.structs.get($c), Some(&(size_of::<$rust>(), members)), "struct {}", $c);
    };
}

#[test]
fn structs_have_the_same_sizes_and_offsets() {
    let root = btf::types(Embedded::Root.object().unwrap());
    same!(root, "count", Count { packets, octets });
    let sink = btf::types(Embedded::Sink.object().unwrap());
    same!(sink, "tally", Tally { received, octets, duplicates, reordered, late, expected, first, last });
    same!(sink, "window", Window { word, seen });
    let generator = btf::types(Embedded::Pktgen.object().unwrap());
    same!(generator, "generator", Generator { sent, idle, first, last });
    same!(generator, "destination", Destination { address });
}

#[test]
fn numbers_are_the_same() {
    let root = btf::types(Embedded::Root.object().unwrap());
    assert_eq!(root.numbers["LAYOUT_VERSION"], LAYOUT_VERSION);
    assert_eq!(root.numbers["REASONS"], REASONS);
    for reason in Reason::ALL {
        let name = format!("REASON_{}", reason.name().to_uppercase());
        assert_eq!(root.numbers[&name], reason.index(), "{name}");
    }
    let empty = btf::types(Embedded::Empty.object().unwrap());
    assert_eq!(empty.numbers["SLOTS"], SLOTS);
    for slot in Slot::ALL {
        let name = format!("SLOT_{}", slot.name().to_uppercase());
        assert_eq!(empty.numbers[&name], slot.index(), "{name}");
    }
    let reasons = root.numbers.keys().filter(|name| name.starts_with("REASON_")).count();
    let slots = empty.numbers.keys().filter(|name| name.starts_with("SLOT_")).count();
    assert_eq!((reasons, slots), (Reason::ALL.len(), Slot::ALL.len()));
}

/// `struct stamp` is only reached through pointers, so that no object has its type.
#[test]
fn the_stamp_is_laid_out_as_it_is_sent() {
    assert_eq!((size_of::<Stamp>(), offset_of!(Stamp, stream), offset_of!(Stamp, sequence)), (16, 4, 8));
}
