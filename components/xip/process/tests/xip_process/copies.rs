//! Copies of packets by the programs `xip` and `copy`, on live frames: each neighbor of a set gets the packet, as by a plain route,
//! and no other station does.

use crate::support;
use crate::support::{Bench, ROUTER, frame, octets, row, xid};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sluice_base::{InterfaceIndex, Rng, XidType};
use sluice_bpf::attach::interface_index;
use sluice_bpf::devices::Devices;
use sluice_bpf::layout::xip::{CacheAction, REASON_NAMES, SET_MEMBERS, SETS};
use sluice_bpf::run::{Verdict, run_live};
use sluice_bpf::{Embedded, Loader, Pins};
use sluice_lab::{Lab, LabOptions};
use sluice_xip::answer::{NeighborId, PortSetId};
use sluice_xip::cache::{AnswerWord, Lines, Put};
use sluice_xip_process::maps::{CacheLines, Member};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A zFilter's row, and a source with a single row.
const HEADER: &str = "010000008001017e00000020a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1007f7f7f00000010a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2007f7f7f";
const LINKS: usize = 4;
/// The MTU of the last link's member.
const SMALL: u32 = 600;

fn topology() -> String {
    let mut text = "[nodes.r]\n[nodes.a]\n[[links]]\na = 'a:eth0'\nb = 'r:eth0'\nxdp = true\n".to_owned();
    for n in 1..=LINKS {
        text += &format!("[nodes.b{n}]\n[[links]]\na = 'r:eth{n}'\nb = 'b{n}:eth0'\nxdp = true\n");
    }
    text
}

fn neighbor(link: usize) -> [u8; 6] {
    [2, 0, 0, 0, link as u8, 2]
}

fn own(link: usize) -> [u8; 6] {
    [2, 0, 0, 0, link as u8, 1]
}

fn packet(number: u16, length: usize) -> Vec<u8> {
    let mut packet = octets(HEADER);
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.resize(packet.len() + length - 2, 0x5a);
    packet
}

/// Captures the frames of XIP at the far node of a link into a file.
fn listen(lab: &Lab, link: usize, folder: &Path) -> (Child, PathBuf) {
    let file = folder.join(format!("b{link}"));
    let mut command = lab.command(&format!("b{link}"), "tcpdump").unwrap();
    // tcpdump would give up its rights to the folder.
    command.args(["-i", "eth0", "-U", "-Z", "root", "-w"]).arg(&file).args(["ether", "proto", "0xc0de"]);
    let listener = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The file has a header once the socket is open.
    until(|| std::fs::metadata(&file).is_ok_and(|found| found.len() >= 24));
    (listener, file)
}

fn until(is_done: impl Fn() -> bool) {
    assert!(sluice_lab::until(Duration::from_secs(20), is_done), "waited for 20 seconds");
}

fn frames_of(file: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(file).unwrap();
    let capture = sluice_capture::parse(&file).unwrap();
    capture.records.iter().map(|record| record.octets.to_vec()).collect()
}

/// The programs, with shared maps pinned in a private mount namespace.
fn bench(folder: &Path) -> (Bench, CacheLines, Devices) {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let point = folder.join("bpf");
    Pins::mount(&point).unwrap();
    let pins = Pins::open(&point.join("sluice")).unwrap();
    let share = |program| {
        let maps = ["xip_members", "xip_sets", "xip_counts"];
        let loader = Loader::new(program);
        maps.iter().fold(loader, |loader, map| loader.share(map, &pins.map_path(map))).load().unwrap()
    };
    let (bench, lines) = (Bench::of(share(Embedded::Xip)), share(Embedded::Copy));
    let devices = Devices::new(&bench.program, "xip_devices", &lines).unwrap();
    // The sets are stored beside the bench's cache.
    let lines = sluice_xip_process::maps::ProgramMaps::new(|name| bench.program.map(name)).unwrap().0;
    (bench, lines, devices)
}

fn index(name: &str) -> InterfaceIndex {
    InterfaceIndex::new(interface_index(name).unwrap()).unwrap()
}

fn counted(bench: &Bench, name: &str) -> u64 {
    let (number, _) = REASON_NAMES.iter().find(|(_, known)| *known == name).unwrap();
    bench.maps.counts()[*number as usize]
}

#[test]
fn each_neighbor_of_a_set_gets_a_copy() {
    if !support::is_root() {
        return sluice_testkit::skipped("not root");
    }
    let lab = Lab::up(&topology().parse().unwrap(), LabOptions::unique("xip-copies")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let listeners: Vec<_> = (1..=LINKS).map(|link| listen(&lab, link, folder.path())).collect();
    let work = || {
        let (mut bench, mut lines, mut devices) = bench(folder.path());
        let incoming = index("eth0");
        support::set_port(&bench.program, incoming.number() as usize, ROUTER);
        let links: Vec<InterfaceIndex> = (1..=LINKS).map(|link| index(&format!("eth{link}"))).collect();
        let all = links.iter().chain([&incoming]).map(|index| index.number());
        devices.set(all.collect()).unwrap();
        for (link, interface) in (1..).zip(&links) {
            let mtu = if link == LINKS { SMALL } else { 1500 };
            let (destination, source) = (neighbor(link), own(link));
            bench
                .maps
                .set_member(link as u32, Member { interface: interface.number(), mtu, destination, source });
        }
        let zf = row(&[(xid(XidType::ZF, 0xa1), true)]);
        let answer = AnswerWord::new(CacheAction::Copy as u8, 0, 3);
        let Put::Stored { id, .. } = bench.cache.put(&zf, answer) else { panic!("not stored") };
        let mut rng = Rng::from_seed(4);
        let mut expected: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        let mut too_big = 0;
        for number in 0..200_u16 {
            let members: Vec<usize> = (1..=LINKS).filter(|_| rng.below(2) == 0).collect();
            let copies: Vec<_> =
                members.iter().map(|link| (links[link - 1], NeighborId(*link as u32))).collect();
            assert!(lines.set_copies(PortSetId(3), &copies));
            // Storing the same again changes nothing, and neither does deciding anew.
            assert!(lines.set_copies(PortSetId(3), &copies));
            bench.cache.set(id, answer);
            let sent = packet(number, 2 + rng.below(1000) as usize);
            run_live(bench.program.program(), &frame(&sent), incoming.number(), 1).unwrap();
            for link in members {
                if link == LINKS && sent.len() > SMALL as usize {
                    too_big += 1;
                    continue;
                }
                let mut copy = [&neighbor(link)[..], &own(link), &[0xc0, 0xde], &sent].concat();
                copy[14 + 4] -= 1;
                expected.entry(link).or_default().push(copy);
            }
        }
        let sent: usize = expected.values().map(Vec::len).sum();
        assert_eq!((counted(&bench, "replicated"), counted(&bench, "copied")), (200, sent as u64));
        assert_eq!((counted(&bench, "too-big"), counted(&bench, "no-member")), (too_big, 0));
        assert!(too_big > 10 && sent > 300);
        expected
    };
    let expected = lab.inside("r", work).unwrap();
    for (link, (mut listener, file)) in (1..).zip(listeners) {
        let expected = &expected[&link];
        until(|| frames_of(&file).len() >= expected.len());
        listener.kill().unwrap();
        listener.wait().unwrap();
        assert_eq!(&frames_of(&file), expected, "link {link}");
    }
}

#[test]
fn sets_that_change_or_do_not_fit_come_up() {
    if !support::is_root() {
        return sluice_testkit::skipped("not root");
    }
    let mut bench = Bench::new().unwrap();
    let (mut lines, _) = sluice_xip_process::maps::ProgramMaps::new(|name| bench.program.map(name)).unwrap();
    bench.put(&[(xid(XidType::ZF, 0xa1), true)], CacheAction::Copy, 0, 3);
    let packet = packet(1, 20);
    let (ran, reasons) = bench.run(&packet);
    assert_eq!((ran.verdict, reasons), (Verdict::Pass, vec!["hit", "to-user"]), "an empty set");
    assert_eq!(ran.frame, frame(&packet));
    let copies = |count: usize| -> Vec<_> {
        let member = |n: u32| (InterfaceIndex::new(n + 1).unwrap(), NeighborId(n));
        (0..count as u32).map(member).collect()
    };
    assert!(lines.set_copies(PortSetId(3), &copies(SET_MEMBERS)));
    assert!(!lines.set_copies(PortSetId(3), &copies(SET_MEMBERS + 1)));
    assert!(!lines.set_copies(PortSetId(SETS), &copies(2)));
    assert_eq!(bench.run(&packet).1, ["hit", "replicated"]);
    let mut last = packet.clone();
    last[4] = 0;
    assert_eq!(bench.run(&last).1, ["hit", "hop-limit"]);
}
