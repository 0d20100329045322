//! Programs in the kernel: attached to interfaces of a lab's nodes, pinned, replaced and taken up again.
#![cfg(feature = "xdp")]

use crate::support::{in_node, pair, usable};
use sluice_bpf::array::MappedArray;
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::{Count, Reason, Slot};
use sluice_bpf::object::{program_by_id, program_id};
use sluice_bpf::run::{Verdict, run};
use sluice_bpf::slots::Slots;
use sluice_bpf::{BpfError, Embedded, Link, Loaded, Loader, Mode, Pins};
use sluice_lab::Lab;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

fn root() -> Loaded {
    Loader::new(Embedded::Root).load().unwrap()
}

fn packets(counters: &Counters, reason: Reason) -> u64 {
    counters.total(reason).unwrap().packets
}

/// Sends `count` requests from `a` to `r`, and returns the number of answers.
fn answers(lab: &Lab, count: u32, interval: &str) -> u32 {
    let count = count.to_string();
    // ping's status is a failure if answers are missing; its output has the number in either case.
    let mut ping = lab.command("a", "ping").unwrap();
    let output =
        ping.args(["-q", "-n", "-c", &count, "-i", interval, "-W", "2", "10.0.0.1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (before, _) = text.split_once(" received").unwrap_or_else(|| panic!("no summary: {text}"));
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn frames_pass_the_empty_chain_and_are_counted() {
    let Some(lab) = pair("bpf-count") else { return };
    in_node(&lab, "r", || {
        let program = root();
        let link = Link::attach("eth0", program.program()).unwrap();
        assert_eq!(*link.mode(), Mode::Native);
        assert_eq!(link.program_id().unwrap(), program_id(program.program()).unwrap());
        let counters = Counters::new(program.map("counts").unwrap()).unwrap();
        assert_eq!(answers(&lab, 20, "0.002"), 20);
        let passed = counters.total(Reason::NoTaker).unwrap();
        assert!(passed.packets >= 20, "{passed:?}");
        assert!(passed.octets >= 20 * 98, "an echo request of ping has 98 octets: {passed:?}");
        assert!(packets(&counters, Reason::OtherEthertype) >= 1, "ARP passes too");
        assert_eq!(packets(&counters, Reason::Dropped), 0);
    });
}

#[test]
fn slots_are_visited_in_order_and_skipped_when_empty() {
    let Some(lab) = pair("bpf-slots") else { return };
    in_node(&lab, "r", || {
        let (folder, pins) = pins();
        let shared = |loader: Loader| {
            let maps = ["slots", "counts", "ports"];
            maps.iter().fold(loader, |loader, map| loader.share(map, &pins.map_path(map)))
        };
        let root = shared(Loader::new(Embedded::Root)).load().unwrap();
        let slots = Slots::new(root.map("slots").unwrap()).unwrap();
        let counters = Counters::new(root.map("counts").unwrap()).unwrap();
        let _link = Link::attach("eth0", root.program()).unwrap();
        let fill = |slot: Slot, drops: u32| {
            let loader =
                Loader::new(Embedded::Empty).constant_u32("slot", slot.index()).constant_u32("drops", drops);
            slots.set(slot, shared(loader).load().unwrap().program()).unwrap();
        };
        for slot in Slot::ALL {
            assert_eq!(slots.program_id(slot).unwrap(), None);
            fill(slot, 0);
            assert!(slots.program_id(slot).unwrap().is_some());
        }
        assert_eq!(answers(&lab, 10, "0.002"), 10, "five empty programs pass everything");
        fill(Slot::Xip, 1);
        let ran = run(root.program(), &ipv4_frame(), 1).unwrap();
        assert_eq!(ran.verdict, Verdict::Drop, "the program for XIP sees IPv4, in which XIP's tunnels are");
        slots.clear(Slot::Xip).unwrap();
        assert_eq!(answers(&lab, 10, "0.002"), 10);
        fill(Slot::Balance, 1);
        let before = packets(&counters, Reason::Dropped);
        let ran = run(root.program(), &ipv4_frame(), 1).unwrap();
        assert_eq!((ran.verdict, packets(&counters, Reason::Dropped)), (Verdict::Drop, before + 1));
        slots.clear(Slot::Balance).unwrap();
        slots.clear(Slot::Balance).unwrap();
        assert_eq!(run(root.program(), &ipv4_frame(), 1).unwrap().verdict, Verdict::Pass);
        fill(Slot::Xip, 1);
        let mut xip = ipv4_frame();
        xip[12..14].copy_from_slice(&[0xc0, 0xde]);
        assert_eq!(run(root.program(), &xip, 1).unwrap().verdict, Verdict::Drop);
        drop(folder);
    });
}

#[test]
fn frames_are_counted_once_under_their_port() {
    if !usable() {
        return;
    }
    let drop = Loader::new(Embedded::Drop).load().unwrap();
    let counters = Counters::new(drop.map("counts").unwrap()).unwrap();
    let ports = MappedArray::new(drop.map("ports").unwrap()).unwrap();
    // Frames of test runs come from the loopback interface, which has the index 1. The number is behind the MAC address.
    let runs = [(0, 1), (1, 2), (255, 3), (256, 4), (u16::MAX, 5)];
    for (number, frames) in runs {
        assert!(ports.store64(1, 0, u64::from(number) << 48));
        assert_eq!(run(drop.program(), &ipv4_frame(), frames).unwrap().verdict, Verdict::Drop);
    }
    let counts = counters.read().unwrap();
    assert_eq!(counts.ports(), 0..256);
    for port in counts.ports() {
        // A number beyond the counters counts nowhere.
        let expected =
            runs.iter().find(|(number, _)| *number == port).map_or(0, |(_, frames)| (*frames).into());
        let count = Count { packets: expected, octets: 60 * expected };
        assert_eq!(
            (counts.count(port, Reason::Dropped), counts.received(port)),
            (count, count),
            "port {port}"
        );
    }
    assert_eq!(counts.total(Reason::Dropped).packets, 6);
    let some = counters.read_ports(255..300).unwrap();
    assert_eq!((some.ports(), some.count(255, Reason::Dropped).packets), (255..256, 3));
    assert_eq!((some.received(254), some.received(256)), (Count::default(), Count::default()));
    assert_eq!(counters.read_ports(256..300).unwrap().ports(), 256..256);
    let per_cpu = some.per_cpu(255, Reason::Dropped);
    assert_eq!(per_cpu.iter().map(|count| count.packets).sum::<u64>(), 3);
    assert!(matches!(Counters::new(drop.map("ports").unwrap()), Err(BpfError::Shape { .. })));
}

#[test]
fn pins_carry_traffic_and_counters_over_a_restart() {
    let Some(lab) = pair("bpf-pin") else { return };
    in_node(&lab, "r", || {
        let (_folder, pins) = pins();
        let load = || {
            Loader::new(Embedded::Root)
                .share("counts", &pins.map_path("counts"))
                .share("slots", &pins.map_path("slots"))
                .load()
                .unwrap()
        };
        let first = load();
        let link = Link::attach("eth0", first.program()).unwrap();
        pins.pin_program("root", &first).unwrap();
        pins.pin_link(&link).unwrap();
        let hash = first.hash().to_owned();
        let first_id = program_id(first.program()).unwrap();
        assert_eq!(answers(&lab, 5, "0.002"), 5);
        drop((first, link));

        // No process has a descriptor now; each round below is a restart.
        let restart = |round: u32| {
            let counts = pins.map("counts").unwrap().unwrap();
            let counters = Counters::new(counts.as_fd()).unwrap();
            assert!(packets(&counters, Reason::NoTaker) >= 5, "round {round}");
            let link = pins.link("eth0").unwrap().unwrap();
            assert_eq!(*link.mode(), Mode::Native);
            let next = load();
            link.update(next.program()).unwrap();
            assert_eq!(link.program_id().unwrap(), program_id(next.program()).unwrap());
            pins.pin_program("root", &next).unwrap();
        };
        let sent = 400;
        let (answered, rounds) = std::thread::scope(|threads| {
            let traffic = threads.spawn(|| answers(&lab, sent, "0.002"));
            let mut rounds = 0;
            while !traffic.is_finished() {
                restart(rounds);
                rounds += 1;
            }
            (traffic.join().unwrap(), rounds)
        });
        assert!(rounds > 0);
        assert_eq!(answered, sent, "traffic over {rounds} restarts");
        let counts = pins.map("counts").unwrap().unwrap();
        let counters = Counters::new(counts.as_fd()).unwrap();
        assert!(packets(&counters, Reason::NoTaker) >= u64::from(sent) + 5);
        assert!(pins.program("root", &hash).unwrap().is_some());
        assert!(program_by_id(first_id).is_err(), "the first program is gone from the kernel");
        let other = "0".repeat(64);
        assert!(
            matches!(pins.program("root", &other), Err(BpfError::Program { found, .. }) if found == hash)
        );
        pins.remove_all().unwrap();
    });
}

#[test]
fn pins_of_other_layouts_and_shapes_are_refused() {
    let Some(lab) = pair("bpf-shape") else { return };
    in_node(&lab, "r", || {
        let (folder, pins) = pins();
        Loader::new(Embedded::Sink).entries("seen", 64).share("seen", &pins.map_path("seen")).load().unwrap();
        let other =
            Loader::new(Embedded::Sink).entries("seen", 128).share("seen", &pins.map_path("seen")).load();
        assert!(matches!(other, Err(BpfError::Shape { map, .. }) if map == "seen"));
        let unknown = Loader::new(Embedded::Sink).share("nothing", &pins.map_path("nothing")).load();
        assert!(matches!(unknown, Err(BpfError::NoSuch { kind: "map", .. })), "{unknown:?}");
        let record = pins.folder().join("layout");
        std::fs::remove_file(&record).unwrap();
        std::os::unix::fs::symlink("0", &record).unwrap();
        assert!(matches!(Pins::open(pins.folder()), Err(BpfError::Layout { found, .. }) if found == "0"));
        assert!(matches!(pins.link("eth0.5"), Ok(None)));
        drop(folder);
    });
}

#[test]
fn a_second_program_is_refused_and_the_first_stays() {
    let Some(lab) = pair("bpf-second") else { return };
    in_node(&lab, "r", || {
        let first = root();
        let link = Link::attach("eth0", first.program()).unwrap();
        let second = Link::attach("eth0", root().program());
        assert!(matches!(&second, Err(BpfError::Occupied(interface)) if interface == "eth0"), "{second:?}");
        assert_eq!(link.program_id().unwrap(), program_id(first.program()).unwrap());
        drop(link);
        Link::attach("eth0", root().program()).unwrap();
        let missing = Link::attach("eth9", first.program());
        assert!(matches!(missing, Err(BpfError::NoInterface(_))));
    });
}

#[test]
fn an_interface_without_native_xdp_gets_the_generic_hook() {
    let Some(lab) = pair("bpf-generic") else { return };
    in_node(&lab, "r", || {
        let program = root();
        let link = Link::attach("lo", program.program()).unwrap();
        assert!(
            matches!(link.mode(), Mode::Generic { because } if because.contains("no native XDP")),
            "{link:?}"
        );
        let counters = Counters::new(program.map("counts").unwrap()).unwrap();
        lab.exec("r", "ping", ["-q", "-c", "1", "127.0.0.1"]).unwrap();
        assert!(packets(&counters, Reason::NoTaker) >= 2);
    });
}

#[test]
fn a_refused_program_comes_back_with_the_verifiers_words() {
    if !usable() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("bad.bpf.c"), folder.path().join("bad.bpf.o"));
    std::fs::write(&source, UNCHECKED).unwrap();
    let mut clang = Command::new("clang-14");
    let built =
        clang.args(["-O2", "-g", "-target", "bpf", "-c"]).arg(&source).arg("-o").arg(&object).status();
    assert!(built.unwrap().success());
    let refused = Loader::of_object("bad", &std::fs::read(&object).unwrap()).load();
    let Err(BpfError::Refused { verifier, .. }) = refused else { panic!("not refused: {refused:?}") };
    assert!(verifier.lines().iter().any(|line| line.contains("invalid access to packet")), "{verifier}");
    assert!(Loader::of_object("none", b"not an object").load().is_err());
}

/// Reads the packet without a look at its end.
const UNCHECKED: &str = r#"
struct xdp_md { unsigned data, data_end, data_meta, in, queue, out; };
__attribute__((section("license"), used)) char terms[] = "Dual MIT/GPL";
__attribute__((section("xdp"), used)) int bad(struct xdp_md *ctx) { return *(char *)(long)ctx->data; }
"#;

#[test]
fn unknown_constants_are_refused() {
    if !usable() {
        return;
    }
    let unknown = Loader::new(Embedded::Root).constant_u32("nothing", 1).load();
    assert!(matches!(unknown, Err(BpfError::NoSuch { kind: "constant", .. })), "{unknown:?}");
}

#[test]
fn a_mapped_array_is_what_the_program_sees() {
    if !usable() {
        return;
    }
    let sink = Loader::new(Embedded::Sink).load().unwrap();
    let tally = MappedArray::new(sink.map("tallies").unwrap()).unwrap();
    assert_eq!(tally.len(), 1);
    assert!(tally.store64(0, 1, 1 << 40) && tally.store32(0, 4, 7));
    assert_eq!(
        (tally.load64(0, 1), tally.load32(0, 3), tally.load64(0, 2)),
        (Some(1 << 40), Some(1 << 8), Some(7))
    );
    assert!(!tally.store64(1, 0, 1) && !tally.store64(0, 8, 1));
    assert_eq!((tally.load64(0, 8), tally.load32(1, 0)), (None, None));
    assert!(matches!(MappedArray::new(sink.map("seen").unwrap()), Err(BpfError::Shape { .. })));
}

/// Without capabilities each call reports what is missing, and nothing panics.
#[test]
fn without_rights_everything_is_not_available() {
    if !usable() {
        return;
    }
    let refused = std::thread::spawn(|| {
        caps::clear(None, caps::CapSet::Effective).unwrap();
        let loaded = Loader::new(Embedded::Root).load().map(drop);
        let mounted = Pins::mount(tempfile::tempdir().unwrap().path());
        let opened = Pins::open(Path::new("/tmp")).map(drop);
        [loaded, mounted, opened]
    });
    for result in refused.join().unwrap() {
        assert!(matches!(&result, Err(BpfError::NotAvailable { .. })), "{result:?}");
        assert!(result.unwrap_err().to_string().contains("not available, because"));
    }
}

#[test]
fn features_are_named() {
    if !usable() {
        return;
    }
    for probed in sluice_bpf::probe::features() {
        assert_eq!(probed.missing, None, "{probed}");
    }
}

/// A bpffs of the thread's own, in a temporary folder, with a folder of pins.
fn pins() -> (tempfile::TempDir, Pins) {
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("bpf");
    Pins::mount(&point).unwrap();
    let pins = Pins::open(&point.join("sluice")).unwrap();
    (folder, pins)
}

fn ipv4_frame() -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0, 46]);
    frame
}
