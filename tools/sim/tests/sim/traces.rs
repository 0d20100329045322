//! Traces of routers' input, read by the kit's reader and by bgpdump.

use sluice_sim::network::{Link, Network, Node};
use sluice_sim::simulate::{self, Plan};
use sluice_sim::trace::Trace;
use sluice_sim::world::{SECOND, Settings};
use std::process::Command;

#[test]
fn a_trace_has_every_message_with_its_virtual_time() {
    let nodes = (0..4).map(|n| Node::new(65001 + n)).collect();
    let links = (0..3).map(|n| Link::new(n, n + 1, 5_000_000)).collect();
    let mut network = Network { nodes, links };
    simulate::originate(&mut network, 2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.mrt");
    let trace = Trace::create(&file).unwrap();
    let plan = Plan { network, seed: 1, settings: Settings::light(), until: 60, boot_spread: SECOND };
    let (summary, world) = simulate::run(plan, |world| world.tap(trace.tap([1].into())));
    drop(world);
    assert!(summary.quiet);
    let count = trace.finish().unwrap();
    let octets = std::fs::read(&file).unwrap();
    let messages: Vec<_> = sluice_mrt::messages(&octets).collect();
    assert_eq!(messages.len() as u64, count);
    let end = (summary.virtual_seconds * 1e6) as u64;
    assert!(messages.iter().all(|m| m.time > 0 && m.time <= end));
    assert!(messages.iter().all(|m| m.peer_as == 65001 || m.peer_as == 65003));
    // From either side OPEN, KEEPALIVE, UPDATEs and End-of-RIB.
    let updates = messages.iter().filter(|m| m.octets[18] == 2).count();
    assert!(updates >= 5 && messages.iter().filter(|m| m.octets[18] == 1).count() >= 2, "{updates}");

    if Command::new("bgpdump").arg("-h").output().is_err() {
        return sluice_testkit::skipped("no bgpdump");
    }
    let output = Command::new("bgpdump").args(["-m", "-q"]).arg(&file).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    // Two prefixes from one side, four from the other, with the path that they came by.
    let announced = |path: &str| text.lines().filter(|l| l.contains("|A|") && l.contains(path)).count();
    let expected = [("|65001|IGP|", 2), ("|65003|IGP|", 2), ("|65003 65004|IGP|", 2)];
    for (path, count) in expected {
        assert_eq!(announced(path), count, "{path}\n{text}");
    }
}
