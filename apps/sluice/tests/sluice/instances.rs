//! Two instances of BGP and of static routes, each in a process and a table of its own: started, restarted, handed
//! over, killed and ended without an effect on the rest.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::bird::commit;
use sluice_router_lab::{RouterLab, possible, routes, share};
use std::collections::BTreeSet;
use std::path::Path;

const TOPOLOGY: &str = r#"
[nodes.main]
daemon = "bird"
config = '''
router id 10.1.0.2;
protocol device { }
protocol static announced { ipv4; route 198.51.100.0/24 blackhole; route 198.51.100.0/25 blackhole; }
protocol bgp sluice { local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; ipv4 { import all; export all; }; }
'''
[nodes.red]
daemon = "bird"
config = '''
router id 10.2.0.2;
protocol device { }
protocol static announced { ipv4; route 198.51.100.0/24 blackhole; route 198.51.100.128/25 blackhole; }
protocol bgp sluice { local 10.2.0.2 as 64502; neighbor 10.2.0.1 as 64510; ipv4 { import all; export all; }; }
'''
[nodes.sluice]
daemon = "sluice"
config = '''
protocols {
    static { route 192.0.2.0/24 { discard; } }
    bgp { local-as 64500; router-id 10.0.0.1; default-policy accept; neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; } }
}
instance red {
    table 100;
    protocols {
        static { route 192.0.2.0/24 { next-hop 10.2.0.2; } }
        bgp { local-as 64510; router-id 10.0.0.2; default-policy accept; neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; } }
    }
}
'''
[[links]]
a = "main:sluice"
b = "sluice:main"
a_addresses = ["10.1.0.2/24"]
b_addresses = ["10.1.0.1/24"]
[[links]]
a = "red:sluice"
b = "sluice:red"
a_addresses = ["10.2.0.2/24"]
b_addresses = ["10.2.0.1/24"]
"#;

/// Returns the kernel's routes of the router in a table, as printed by a foreign tool.
fn kernel(lab: &RouterLab, table: &str) -> String {
    let words = ["-4", "route", "show", "table", table, "proto", "83"];
    String::from_utf8(lab.lab.output("sluice", "ip", words).unwrap().stdout).unwrap()
}

fn prefixes(lab: &RouterLab, table: &str) -> BTreeSet<String> {
    routes(&kernel(lab, table)).map(Into::into).collect()
}

/// Returns the time when the session with the neighbor `red` came up, in milliseconds of the day: BIRD recomputes the
/// time on each request, give or take 1 ms.
fn established_at(lab: &RouterLab) -> u64 {
    let text = lab.birdc("red", "show protocols sluice");
    let time = text.split_whitespace().find(|word| word.matches(':').count() == 2).unwrap();
    let numbers = time.split([':', '.']).map(|number| number.parse::<u64>().unwrap());
    numbers.zip([3_600_000, 60_000, 1000, 1]).map(|(number, scale)| number * scale).sum()
}

const MAIN: [&str; 3] = ["192.0.2.0/24", "198.51.100.0/24", "198.51.100.0/25"];
const RED: [&str; 3] = ["192.0.2.0/24", "198.51.100.0/24", "198.51.100.128/25"];

#[test]
fn instances_live_beside_each_other() {
    let _share = share();
    if !possible() {
        return;
    }
    let mut lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    let expected = |all: &[&str]| all.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let both_are_there =
        |lab: &RouterLab| prefixes(lab, "main") == expected(&MAIN) && prefixes(lab, "100") == expected(&RED);
    lab.until("both tables are full", both_are_there);
    let text = kernel(&lab, "100");
    assert!(text.lines().filter(|l| !l.contains("blackhole")).count() == 3, "{text}");
    let pids =
        |lab: &RouterLab| ["bgp", "static", "bgp@red", "static@red"].map(|name| lab.pid(name).unwrap());
    let first = pids(&lab);

    // A drained router is drained in all instances.
    for (command, expected) in [("drain", Value::Bool(true)), ("undrain", Value::Null)] {
        let output = lab.cli(&[command]);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let runs = lab.ask(&["show", "configuration"]);
        for top in [&runs, &runs["instance"][0]] {
            assert_eq!(top["protocols"]["bgp"]["graceful-shutdown"], expected, "{command}: {runs}");
        }
    }

    // Each answers for itself.
    let address = |words: &[&str]| lab.ask(words)["neighbors"][0]["address"].clone();
    assert_eq!(address(&["show", "bgp", "neighbor"]), "10.1.0.2");
    assert_eq!(address(&["show", "bgp", "neighbor", "--instance", "red"]), "10.2.0.2");
    let unknown = lab.cli(&["show", "bgp", "summary", "--instance", "blue"]);
    assert!(String::from_utf8_lossy(&unknown.stdout).contains("no component `bgp@blue` runs"), "{unknown:?}");
    let groups = lab.ask(&["show", "bgp", "groups", "--instance", "red"]);
    assert_eq!(groups["tables"][0]["next_hops"][0]["address"], "10.2.0.2");

    // A change of one instance concerns that one.
    commit(&lab, "set instance red protocols static route 203.0.113.0/24 discard");
    lab.until("the table has it", |l| prefixes(l, "100").contains("203.0.113.0/24"));
    assert_eq!((pids(&lab), prefixes(&lab, "main")), (first, expected(&MAIN)));
    commit(&lab, "delete instance red protocols static route 203.0.113.0/24");

    // A new process takes over from the old one, and the session stays.
    let before = established_at(&lab);
    let output = lab.cli(&["restart", "bgp@red"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let second = pids(&lab);
    assert!(second[2] != first[2], "{first:?} {second:?}");
    assert_eq!((second[0], second[1], second[3]), (first[0], first[1], first[3]));
    assert!(established_at(&lab).abs_diff(before) < 500, "the session dropped");
    assert!(both_are_there(&lab));

    // One that is killed comes back by itself.
    lab.kill(second[3]);
    lab.until("it is started again", |l| l.ready() && l.pid("static@red").is_some_and(|p| p != second[3]));
    lab.until("both tables are full", both_are_there);
    assert_eq!(lab.pid("static"), Some(first[1]));

    // So does the RIB, which receives everything from all components.
    lab.kill(lab.pid("rib").unwrap());
    lab.until("the RIB is back", RouterLab::ready);
    lab.until("it has all routes of both instances", |l| l.rib("static").0.v4 == 2 && l.rib("bgp").0.v4 == 4);
    commit(&lab, "set instance red protocols static route 192.0.2.0/24 next-hop 10.2.0.2 weight 2");
    lab.until("both tables are full", both_are_there);

    // The manager finds all of them again.
    lab.kill(lab.pid("manager").unwrap());
    lab.lab.start("sluice").unwrap();
    lab.until("the manager is back", RouterLab::ready);
    assert_eq!(pids(&lab)[..3], second[..3]);

    // Into another table: nothing stays behind.
    commit(&lab, "set instance red table 200");
    lab.until("the routes are in the other table", |l| prefixes(l, "200") == expected(&RED));
    lab.until("the old table is empty", |l| prefixes(l, "100").is_empty());

    // An instance that goes takes its routes along.
    commit(&lab, "delete instance red");
    lab.until("its table is empty", |l| prefixes(l, "200").is_empty());
    assert!(lab.pid("bgp@red").is_none() && lab.pid("static@red").is_none());
    assert_eq!(pids_of_main(&lab), [first[0], first[1]]);
    assert_eq!(prefixes(&lab, "main"), expected(&MAIN));

    // What an earlier life left in a table that no instance has any more is swept.
    let fea = lab.pid("fea").unwrap();
    lab.kill(lab.pid("manager").unwrap());
    lab.kill(fea);
    let left = ["route", "add", "blackhole", "192.0.2.0/24", "table", "300", "proto", "83", "metric", "20"];
    assert!(lab.lab.output("sluice", "ip", left).unwrap().status.success());
    assert_eq!(prefixes(&lab, "300").len(), 1);
    lab.lab.start("sluice").unwrap();
    lab.until("the table is empty", |l| prefixes(l, "300").is_empty());
    lab.until("the router is back", RouterLab::ready);
    assert_eq!(prefixes(&lab, "main"), expected(&MAIN));
}

fn pids_of_main(lab: &RouterLab) -> [u64; 2] {
    ["bgp", "static"].map(|name| lab.pid(name).unwrap())
}
