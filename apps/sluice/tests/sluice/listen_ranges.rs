//! Listen ranges with foreign daemons: FRR and ExaBGP with passwords, a storm of connections, changes of the configuration; and with
//! the long test a thousand neighbors.

use crate::SLUICE;
use serde_json::Value;
use sluice_load::wide;
use sluice_router_lab::{RouterLab, possible_with_frr};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// ExaBGP's neighbors: 10.9.0.2 and the following, AS 64602 and the following. FRR is the twentieth.
const EXA: usize = 19;
/// The limit of the range of the storm, and the addresses that connect.
const STORM: (u64, u64) = (10, 100);

fn topology() -> String {
    let mut exa = String::new();
    for n in 2..2 + EXA {
        // One is of an AS that the range does not allow, and one has another password.
        let asn = if n == 2 { 64999 } else { 64600 + n };
        let password = if n == 3 { "another one" } else { "of-the-range" };
        writeln!(
            exa,
            "neighbor 10.9.0.1 {{ router-id 10.9.0.{n}; local-address 10.9.0.{n}; local-as {asn}; peer-as 64500; \
             md5-password '{password}'; md5-base64 false; outgoing-ttl 255; static {{ route 100.64.{n}.0/24 next-hop self; }} }}"
        )
        .unwrap();
    }
    let own = |link: &str, range: std::ops::Range<u64>| {
        range.map(|n| format!("'10.{link}.0.{n}/16'")).collect::<Vec<_>>().join(", ")
    };
    let sources = (1..=STORM.1).map(|n| format!("'10.8.1.{n}/16'")).collect::<Vec<_>>().join(", ");
    format!(
        r#"
[nodes.sluice]
daemon = "sluice"
config = '''
protocols {{
    bgp {{
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        network 192.0.2.0/24;
        group edge {{ password "of-the-range"; ttl-security; description "an edge"; }}
        group silent;
        listen-range 10.9.0.0/16 {{ group edge; peer-as [ 64600-64700 ]; }}
        listen-range 10.8.1.0/24 {{ group silent; peer-as 64800; limit {}; }}
        listen-range 2001:db8:9::/48 {{ group edge; peer-as [ 64600 64601 ]; }}
    }}
}}
'''
[nodes.frr]
daemon = "frr"
config = '''
router bgp 64600
 bgp router-id 10.9.1.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 10.9.1.1 remote-as 64500
 neighbor 10.9.1.1 password of-the-range
 neighbor 10.9.1.1 ttl-security hops 1
 neighbor 10.9.1.1 timers connect 1
 neighbor 2001:db8:9::1 remote-as 64500
 neighbor 2001:db8:9::1 password of-the-range
 neighbor 2001:db8:9::1 ttl-security hops 1
 neighbor 2001:db8:9::1 timers connect 1
 address-family ipv4 unicast
  neighbor 10.9.1.1 activate
  network 100.64.100.0/24
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:9::1 activate
  network 2001:db8:f::/48
 exit-address-family
ip route 100.64.100.0/24 blackhole
ipv6 route 2001:db8:f::/48 blackhole
'''
[nodes.exa]
daemon = "exabgp"
config = '''
{exa}
'''
[nodes.storm]
[[links]]
a = "sluice:frr"
b = "frr:sluice"
a_addresses = ["10.9.1.1/30", "2001:db8:9::1/64"]
b_addresses = ["10.9.1.2/30", "2001:db8:9::2/64"]
[[links]]
a = "sluice:exa"
b = "exa:sluice"
a_addresses = ["10.9.0.1/24"]
b_addresses = [{}]
[[links]]
a = "sluice:storm"
b = "storm:sluice"
a_addresses = ["10.8.0.1/16"]
b_addresses = [{sources}]
"#,
        STORM.0,
        own("9", 2..2 + EXA as u64).replace("/16", "/24"),
    )
}

/// Returns the text of a command, as people see it.
fn text(lab: &RouterLab, words: &[&str]) -> String {
    let mut command = lab.lab.command("sluice", SLUICE).unwrap();
    let output = command.args(words).arg("--run-dir").arg(lab.run_dir()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the view of a listen range.
fn range(lab: &RouterLab, prefix: &str) -> Value {
    let all = lab.ask(&["show", "bgp", "ranges"]);
    let mut ranges = all["ranges"].as_array().cloned().unwrap_or_default().into_iter();
    ranges.find(|range| range["prefix"] == prefix).unwrap_or_default()
}

fn number(range: &Value, name: &str) -> u64 {
    wide(&range[name]).unwrap_or(u64::MAX)
}

fn configure(lab: &RouterLab, statements: &[&str]) {
    let words: Vec<&str> = ["configure"].iter().chain(statements).chain(&["commit"]).copied().collect();
    let output = lab.cli(&words);
    assert!(output.status.success(), "{statements:?}: {output:?}");
}

#[test]
fn foreign_daemons_connect_from_ranges() {
    if !possible_with_frr() {
        return;
    }
    if Command::new("exabgp").arg("--version").output().is_err() {
        return sluice_testkit::skipped("ExaBGP is not installed");
    }
    let lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    let edge = "10.9.0.0/16";
    let expected = EXA as u64 - 1;
    lab.until("all neighbors of the range but two are up", |lab| {
        let range = range(lab, edge);
        number(&range, "established") == expected && number(&range, "refused_for_as") > 0
    });
    lab.until("all routes are in the kernel", |lab| {
        lab.kernel().v4 == expected as usize && lab.kernel().v6 == 1
    });
    let frr = lab.neighbor("10.9.1.2");
    assert_eq!(
        (&frr["range"], &frr["group"], &frr["peer_as"]),
        (&edge.into(), &"edge".into(), &64600.into())
    );
    assert_eq!(frr["description"], "an edge");
    assert!(!lab.established("10.9.0.2") && !lab.established("10.9.0.3"));
    let said = text(&lab, &["show", "bgp", "neighbor", "10.9.1.2"]);
    assert!(
        said.contains("dynamic, of the listen range 10.9.0.0/16, with the statements of group edge"),
        "{said}"
    );
    let metrics = text(&lab, &["show", "metrics"]);
    assert!(metrics.contains(&format!("sluice_bgp_range_neighbors{{range=\"{edge}\"}}")), "{metrics}");
    let explained = text(&lab, &["explain", "100.64.100.0/24"]);
    assert!(explained.contains("listen range 10.9.0.0/16"), "{explained}");
    assert!(lab.whole_log().contains("bgp.range.refused"), "{}", lab.whole_log());
    storm(&lab);
    // A configured neighbor takes the place of the dynamic one, and its session goes on.
    let before = lab.neighbor("10.9.1.2");
    configure(
        &lab,
        &[
            "set protocols bgp neighbor 10.9.1.2 peer-as 64600",
            "set protocols bgp neighbor 10.9.1.2 group edge",
        ],
    );
    let after = lab.neighbor("10.9.1.2");
    assert_eq!(
        (&after["range"], &after["flaps"], &after["state"]),
        (&"".into(), &before["flaps"], &"Established".into())
    );
    assert_eq!(number(&range(&lab, edge), "neighbors"), expected - 1);
    // Without the range its neighbors are gone, with their routes.
    configure(&lab, &[&format!("delete protocols bgp listen-range {edge}")]);
    lab.until("two neighbors are left", |lab| lab.kernel().v4 == 1);
    let all = lab.ask(&["show", "bgp", "neighbor"]);
    let left: Vec<_> = all["neighbors"].as_array().unwrap().iter().map(|n| n["address"].clone()).collect();
    assert_eq!(left, ["10.9.1.2", "2001:db8:9::2"]);
}

/// Connects from many addresses at once: the range takes as many as its limit.
fn storm(lab: &RouterLab) {
    let (limit, all) = STORM;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sluice/storm.py");
    let mut command = lab.lab.command("storm", "python3").unwrap();
    command.arg(script).args([&*all.to_string(), "10.8.1", "10.8.0.1", "179"]);
    let mut storm = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(storm.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let got: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&got["held"], &got["closed"]), (&limit.into(), &(all - limit).into()), "{got}");
    let full = range(lab, "10.8.1.0/24");
    let counts = ["neighbors", "established", "refused_for_limit"].map(|name| number(&full, name));
    assert_eq!(counts, [limit, 0, all - limit], "{full}");
    storm.stdin.take().unwrap().flush().unwrap();
    storm.wait().unwrap();
    lab.until("the storm is over", |lab| number(&range(lab, "10.8.1.0/24"), "neighbors") == 0);
}

#[test]
fn a_thousand_neighbors_of_a_range() {
    let program = sluice_testkit::long!("listen ranges");
    const ALL: usize = 1000;
    const BUSY: usize = 10;
    if !sluice_router_lab::possible() {
        return;
    }
    let addresses: Vec<String> = (2..2 + ALL).map(|n| format!("'10.1.{}.{}/16'", n / 256, n % 256)).collect();
    let topology = format!(
        "[nodes.peers]\n[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\nprotocols bgp {{ local-as 64500; router-id 10.0.0.1;\n\
         default-policy accept; group edge; listen-range 10.1.0.0/16 {{ group edge; limit {ALL}; peer-as 65001-66000; }} }}\n'''\n\
         [[links]]\na = 'sluice:peers'\nb = 'peers:sluice'\na_addresses = ['10.1.0.1/16']\nb_addresses = [{}]\n",
        addresses.join(", ")
    );
    let lab = RouterLab::up(&topology.parse().unwrap(), &program);
    let receivers = ALL - BUSY;
    let words = format!(
        "bgpsim --json --target 10.1.0.1 --local 10.1.0.2 --timeout 300 --settle 100 --workload synthetic --routes 1000 \
         --senders {BUSY} --receivers {receivers}"
    );
    let output = lab.lab.output("peers", &program.display().to_string(), words.split(' ')).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["verified"], true, "{report:#}");
    let came = range(&lab, "10.1.0.0/16");
    assert_eq!(number(&came, "refused_for_limit") + number(&came, "refused_for_rate"), 0, "{came}");
    assert!(number(&came, "joined") >= ALL as u64, "{came}");
    lab.until_within(Duration::from_secs(120), "nobody is left", |lab| {
        number(&range(lab, "10.1.0.0/16"), "neighbors") == 0
    });
}
