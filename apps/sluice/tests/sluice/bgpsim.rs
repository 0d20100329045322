//! `sluice bgpsim` against real daemons, each in a lab: ten senders with a tenth of a table each, a single receiver,
//! sent = received; and every scenario.

use crate::SLUICE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available};
use sluice_load::wide;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The executable under test: the client, and a router.
/// The router's neighbors: 10.1.0.2 and the following, AS 65001 and the following.
const PEERS: usize = 12;

/// A router with its neighbors' addresses on a single link.
fn topology(daemon: &str, config: &str) -> Topology {
    let addresses: Vec<String> =
        (2..2 + PEERS).map(|n| format!("'10.1.0.{n}/24', '2001:db8:1::{n:x}/64'")).collect();
    let text = format!(
        "[nodes.peers]\n[nodes.router]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n[[links]]\na = 'router:peers'\n\
         b = 'peers:router'\na_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']\nb_addresses = [{}]\n",
        addresses.join(", ")
    );
    text.parse().unwrap()
}

fn sluice() -> Topology {
    let mut config =
        "protocols bgp {\n  local-as 64500;\n  router-id 10.0.0.1;\n  default-policy accept;\n".to_owned();
    for n in 0..PEERS {
        let asn = 65001 + n;
        writeln!(
            config,
            "  neighbor 10.1.0.{} {{ peer-as {asn}; passive; ipv6-unicast enabled; add-path {{ receive true; send all; }} }}",
            n + 2
        )
        .unwrap();
    }
    topology("sluice", &(config + "}\n"))
}

fn bird() -> Topology {
    let mut config = "router id 10.0.0.1;\nprotocol device {}\n".to_owned();
    for n in 0..PEERS {
        let (peer, asn) = (n + 2, 65001 + n);
        writeln!(
            config,
            "protocol bgp {{\n local as 64500; neighbor 10.1.0.{peer} as {asn}; passive;\n \
             ipv4 {{ add paths on; import all; export all; }};\n ipv6 {{ add paths on; import all; export all; }};\n}}"
        )
        .unwrap();
    }
    topology("bird", &config)
}

fn up(topology: &Topology, program: &str) -> Option<Lab> {
    if let Err(reason) = available() {
        sluice_testkit::skipped(reason);
        return None;
    }
    if program != SLUICE && Command::new(program).arg("--version").output().is_err() {
        sluice_testkit::skipped(format_args!("{program} is not installed"));
        return None;
    }
    let options = LabOptions { sluice: Some(Path::new(SLUICE).into()), ..LabOptions::unique("bgpsim") };
    Some(Lab::up(topology, options).unwrap())
}

/// Runs the client on the node with the neighbors' addresses. Returns its report.
fn bgpsim(lab: &Lab, line: &str) -> Value {
    let words = "bgpsim --json --target 10.1.0.1 --local 10.1.0.2 --next-hop6 2001:db8:1::2 --timeout 120 --settle 100";
    let output = lab.output("peers", SLUICE, words.split(' ').chain(line.split(' '))).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{line}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["verified"], output.status.success());
    report
}

fn check(lab: &Lab, line: &str) {
    let report = bgpsim(lab, line);
    assert_eq!(report["verified"], true, "{line}: {report:#}");
    let measured = report["phases"].as_array().unwrap().last().unwrap();
    println!("{line}: {} routes in {} s", measured["routes"], measured["done_s"]);
}

fn everything(lab: &Lab) {
    // Each of the ten has a tenth; their marks come on top.
    let report = bgpsim(lab, "--workload synthetic --routes 10000 --senders 10 --beside-floor");
    assert_eq!(report["floor"][0]["verified"], true, "{report:#}");
    assert_eq!(report["verified"], true, "{report:#}");
    let receiver = &report["phases"][0]["receivers"][0];
    assert_eq!((&receiver["announced"], &receiver["unexpected"]), (&"10010".into(), &"0".into()));
    for scenario in
        ["1", "2", "3", "4", "5", "6", "7", "8", "lost", "lost-best", "restart", "late", "latency"]
    {
        check(
            lab,
            &format!("--workload synthetic:{scenario} --routes 3000 --senders 3 --receivers 2 --family both"),
        );
    }
    for variant in
        ["--mix best", "--order trace --mix 2", "--order threads --mix worst", "--order round-robin:9"]
    {
        check(lab, &format!("--workload synthetic --routes 3000 --senders 10 --receivers 2 {variant}"));
    }
    check(lab, "--workload synthetic --routes 1000 --senders 5 --spread same --hold-time 90");
    check(lab, "--workload synthetic:late --routes 1000 --senders 3 --receivers 2 --family both --paths 3");
    if let Some(file) = sluice_testkit::shared("data/bgp/updates/ris.updates.20160811.1600.gz") {
        check(lab, &format!("--workload mrt:{} --senders 11 --family both", file.display()));
    }
}

#[test]
fn at_sluice() {
    let Some(lab) = up(&sluice(), SLUICE) else { return };
    everything(&lab);
}

#[test]
fn at_bird() {
    let Some(lab) = up(&bird(), "bird") else { return };
    everything(&lab);
}

/// Starts the client with `--stay`. Returns the client, and its line reporting that its sessions stay.
fn staying(lab: &Lab, stay: &str) -> (Child, String) {
    let words =
        "bgpsim --json --target 10.1.0.1 --local 10.1.0.2 --workload synthetic --routes 1000 --hold-time 9";
    let mut command = lab.command("peers", SLUICE).unwrap();
    command.args(words.split(' ').chain(stay.split(' '))).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(client.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    (client, line)
}

/// Returns the number of the router's sessions.
fn established(lab: &Lab) -> Value {
    let run_dir = format!("SLUICE_RUN_DIR={}", lab.dir("router").join("run").display());
    let output =
        lab.output("router", "env", [&*run_dir, SLUICE, "show", "bgp", "summary", "--json"]).unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["established"].clone()
}

#[test]
fn sessions_stay_until_ctrl_c_or_for_a_time() {
    let Some(lab) = up(&sluice(), SLUICE) else { return };
    let (mut client, line) = staying(&lab, "--stay");
    assert_eq!(line, "sluice bgpsim: sessions that stay up until Ctrl-C: 2\n");
    assert_eq!(established(&lab), 2);
    kill(Pid::from_raw(client.id() as i32), Signal::SIGINT).unwrap();
    assert!(client.wait().unwrap().success());
    // Longer than the hold time: without KEEPALIVEs the router would end the sessions, and the exit status would say so.
    let (mut client, line) = staying(&lab, "--stay 10");
    assert_eq!(line, "sluice bgpsim: sessions that stay up for 10 s, or until Ctrl-C: 2\n");
    assert!(client.wait().unwrap().success());
    // The router's process ends, and with it the sessions.
    let (mut client, line) = staying(&lab, "--stay");
    assert!(line.contains("stay up"), "{line}");
    let run_dir = format!("SLUICE_RUN_DIR={}", lab.dir("router").join("run").display());
    let stopped = lab.output("router", "env", [&*run_dir, SLUICE, "stop"]).unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(client.wait().unwrap().code(), Some(1));
}

/// The client runs over IPv6, and the router connects to its neighbors.
#[test]
fn the_client_listens() {
    let mut config = "router id 10.0.0.1;\nprotocol device {}\n".to_owned();
    for n in 0..2 {
        let (peer, asn) = (n + 2, 65001 + n);
        writeln!(
            config,
            "protocol bgp {{\n local 2001:db8:1::1 as 64500; neighbor 2001:db8:1::{peer} as {asn};\n \
             connect delay time 1; connect retry time 1; error wait time 1, 2;\n ipv6 {{ import all; export all; }};\n}}"
        )
        .unwrap();
    }
    let Some(lab) = up(&topology("bird", &config), "bird") else { return };
    let words = "bgpsim --json --target 2001:db8:1::1 --local 2001:db8:1::2 --listen --workload synthetic --routes 2000";
    let output = lab.output("peers", SLUICE, words.split(' ')).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"], true, "{report:#}");
    assert_eq!(report["phases"][0]["receivers"][0]["announced"], "2001");
}

/// Missing routes, and the reason why no session comes up, are reported.
#[test]
fn what_goes_wrong_is_said() {
    let config = "router id 10.0.0.1;\nprotocol device {}\n\
        protocol bgp { local as 64500; neighbor 10.1.0.2 as 65001; passive; ipv4 { import all; export none; }; }\n\
        protocol bgp { local as 64500; neighbor 10.1.0.3 as 65002; passive; ipv4 { import none; export where net !~ [20.0.0.0/6+]; }; }\n";
    let Some(lab) = up(&topology("bird", config), "bird") else { return };
    let report = bgpsim(&lab, "--workload synthetic --routes 2000 --patience 2");
    assert_eq!(report["verified"], false, "{report:#}");
    let receiver = &report["phases"][0]["receivers"][0];
    let (received, missing) = (wide(&receiver["announced"]).unwrap(), wide(&receiver["missing"]).unwrap());
    assert_eq!(received + missing, 2001, "{report:#}");
    assert!(received > 0 && missing > 0, "{report:#}");

    // Each with another neighbor: a router does not talk for a while to one that said something wrong.
    for (line, expected) in [
        ("--local 10.1.0.2 --target-as 64999", "the target's AS is 64500, not 64999"),
        ("--local 10.1.0.3 --sender-as 65009", "bad peer AS"),
        ("--local 10.1.0.4", "sender 1 (AS 65001, 10.1.0.4) has no session"),
        ("--local 10.9.9.9", "no address of this machine"),
    ] {
        let words =
            "bgpsim --json --target 10.1.0.1 --receivers 0 --workload synthetic --routes 10 --timeout 3";
        let output = lab.output("peers", SLUICE, words.split(' ').chain(line.split(' '))).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && text.contains(expected), "{line}: {text}");
    }
}
