//! Each target over its seeds, over available real and fuzzer-made inputs, and over damage to them.

use sluice_fuzz::methods::METHODS;
use sluice_fuzz::{TARGETS, Target};
use sluice_testkit::tar;

/// Damaged inputs of a target in every test run; slow targets get fewer.
const RUNS: u64 = 20_000;
const FEW: u64 = 2_000;

fn runs(target: &Target) -> u64 {
    let slow = [
        "bgp-session",
        "config-load",
        "config-steps",
        "xrl-text",
        "command-line",
        "hand-over",
        "xdp-tables",
        "cluster-stream",
    ];
    if slow.contains(&target.name) || target.name.starts_with("descriptor-") { FEW } else { RUNS }
}

fn run(target: &Target, more: &[Vec<u8>], seed: u64) {
    target.warm_up();
    let mut inputs = target.inputs();
    inputs.extend_from_slice(more);
    inputs.iter().for_each(|input| target.check(input));
    target.attack(&inputs, seed, |done| done < runs(target));
}

fn target(name: &str) -> &'static Target {
    sluice_fuzz::target(name).unwrap_or_else(|| panic!("there is no target {name}"))
}

#[test]
fn seeds_and_their_mutations() {
    TARGETS.iter().for_each(|target| run(target, &[], 1));
}

#[test]
fn what_fuzzers_found_against_other_daemons() {
    let Some(archive) = sluice_testkit::read("data/fuzz/corpi-bgpd.tar.zst") else { return };
    let files: Vec<Vec<u8>> = tar::files(&archive).into_iter().map(|(_, f)| f.to_vec()).collect();
    assert!(files.len() > 1000);
    let bodies: Vec<Vec<u8>> = files.iter().filter_map(|f| f.get(19..).map(<[u8]>::to_vec)).collect();
    for target in TARGETS.iter().filter(|t| t.name.starts_with("bgp-")) {
        match target.name {
            "bgp-frame" => run(target, &files, 3),
            "bgp-session" => files.iter().for_each(|f| target.check(f)),
            _ => run(target, &bodies, 3),
        }
    }
}

#[test]
fn pieces_of_real_files() {
    const PIECE: usize = 4000;
    for (name, path) in [
        ("prefix-list", "data/bgp/prefixes/ris-as3333-20260511-ipv6.txt.zst"),
        ("mrt", "data/bgp/updates/icsi1.mrtd"),
        ("mrt", "data/bgp/updates/rrc01.updates.20241001.0055.gz"),
        ("pcap", "data/pcap/bgp/netgauze__bgp.pcap"),
        ("replay", "data/pcap/ospf/tcpdump__OSPFv2_Capture_FINAL.pcapng"),
        ("tar", "data/fuzz/corpi-bgpd.tar.zst"),
    ] {
        let Some(file) = sluice_testkit::read(path) else { return };
        run(target(name), &[file[..file.len().min(PIECE)].to_vec()], 4);
    }
}

#[test]
fn methods_of_the_platform_and_of_components_are_listed() {
    for path in ["rib.v1.Rib/UpdateRoutes", "fea.v1.Fib/UpdateFib", "bgp.v1.Bgp/GetSummary"] {
        assert!(METHODS.iter().any(|method| method.path == path), "{path}");
    }
    assert_eq!(sluice_fuzz::methods::full_bodies().len(), 2 * METHODS.len());
}
