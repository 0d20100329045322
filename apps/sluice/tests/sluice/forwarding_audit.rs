//! The maps of the fast path are filled with garbage while packets flow: the audit finds and mends each word.

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sluice_base::Rng;
use sluice_bpf::array::MappedArray;
use sluice_router_lab::xdp::{FAR, Flood, PLAIN, forwarding, is_forwarded, port};
use sluice_router_lab::{RouterLab, possible, share};
use std::os::fd::AsFd;

/// The maps by entries and octets of an entry, each with words that packets of the test are looked up by.
const MAPS: [(&str, u64, u64, &[usize]); 7] = [
    ("IPv4 root entries", 1 << 22, 8, &[0xcb_0071 >> 2]),
    ("IPv4 nodes", 1 << 15, 512, &[64, 65, 128, 192, 256]),
    ("IPv6 root entries", 1 << 23, 8, &[0x20_010d >> 1]),
    ("IPv6 nodes", 1 << 16, 1024, &[128, 220, 332, 256, 384]),
    ("groups", 1 << 15, 8, &[0, 1, 2, 3, 4, 5, 6]),
    ("blocks of buckets", 1 << 12, 512, &[]),
    ("members", 1 << 14, 24, &[0, 1, 2, 3, 6, 9, 10, 11, 12, 13, 14]),
];

fn mended(lab: &RouterLab, area: &str) -> u64 {
    let shown = forwarding(lab);
    let mended = shown["mended"].as_array().unwrap().iter().find(|mended| mended["area"] == area);
    sluice_load::wide(&mended.unwrap()["words"]).unwrap()
}

/// Maps an array of the FEA's into this process, by its shape.
fn open(pid: u64, entries: u64, octets: u64) -> MappedArray {
    let field = |info: &str, name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.trim().parse::<u64>().ok())
    };
    let process =
        pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten() {
        let info = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if (field(&info, "max_entries"), field(&info, "value_size")) == (Some(entries), Some(octets)) {
            let fd = entry.file_name().to_string_lossy().parse().unwrap();
            let map = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).unwrap();
            return MappedArray::new(map.as_fd()).unwrap();
        }
    }
    panic!("the FEA has no map of {entries} entries of {octets} octets");
}

#[test]
fn garbage_in_the_maps_is_mended_while_packets_flow() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = PLAIN.up();
    for (address, reason) in FAR {
        lab.until("packets are forwarded", |lab| is_forwarded(lab, address, reason));
    }
    let flood = Flood::start(&lab, FAR[0].0);
    let pid = lab.pid("fea").unwrap();
    let maps = MAPS.map(|(area, entries, octets, words)| {
        (area, open(pid, entries, octets), entries * octets / 8, words)
    });
    let mut random = Rng::from_seed(7);
    for round in 0..3 {
        let before = maps.each_ref().map(|(area, ..)| mended(&lab, area));
        for (_, map, size, words) in &maps {
            let any = (0..2000).map(|_| (random.next_u64() % size) as usize).collect::<Vec<_>>();
            for word in words.iter().copied().chain(any) {
                assert!(map.store_word(word, random.next_u64()));
            }
        }
        for ((area, ..), before) in maps.iter().zip(before) {
            // The test's routes need no block of buckets.
            if *area != "blocks of buckets" {
                lab.until(area, |lab| mended(lab, area) > before);
            }
        }
        for (address, reason) in FAR {
            lab.until("packets are forwarded again", |lab| is_forwarded(lab, address, reason));
        }
        assert_eq!(lab.pid("fea"), Some(pid), "round {round}");
    }
    // Garbage in an interface's entry: flags of no meaning, and another address.
    let ports = open(pid, 1 << 16, 16);
    let entry = port(&lab, "eth0")["index"].as_u64().unwrap() as usize;
    assert!(ports.store64(entry, 0, random.next_u64()) && ports.store64(entry, 1, random.next_u64()));
    lab.until("the entry is mended", |lab| mended(lab, "ports") > 0);
    for (address, reason) in FAR {
        lab.until("packets are forwarded again", |lab| is_forwarded(lab, address, reason));
    }
    flood.stop(&lab);
    assert!(lab.lab.log("sluice", "sluice").contains("forwarding.mended"));
}
