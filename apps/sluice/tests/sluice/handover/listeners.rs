//! Connections to BGP's port during a hand-over of BGP are never refused, and keys of neighbors stay on the listeners:
//! the successor has the very sockets.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::{RouterLab, possible, program_with};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

/// The places at which strangers knock, and their addresses.
const PLACES: [&str; 6] = ["10.1.0.9", "10.1.0.1", "179", "fd00:1::9", "fd00:1::1", "179"];

/// Both wait for the neighbor to connect.
fn router(key: &str) -> String {
    format!(
        "protocols {{ bgp {{
            local-as 64500; router-id 10.0.0.1; default-policy accept;
            neighbor 10.1.0.2 {{ peer-as 64501; passive; password {key}; }}
            neighbor fd00:1::2 {{ peer-as 64501; passive; }}
        }} }}"
    )
}

fn bird(key: &str) -> String {
    format!(
        "router id 10.1.0.2;
protocol device {{ }}
protocol bgp four {{
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; password \"{key}\";
    connect delay time 1; connect retry time 1; error wait time 1, 1;
    ipv4 {{ import all; export all; }};
}}
protocol bgp six {{
    local fd00:1::2 as 64501; neighbor fd00:1::1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 1;
    ipv6 {{ import all; export all; }};
}}
"
    )
}

fn network() -> RouterLab {
    let topology = format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{}\n'''\n\
         [nodes.bird]\ndaemon = 'bird'\nconfig = '''\n{}\n'''\n\
         [[links]]\na = 'sluice:bird'\nb = 'bird:sluice'\n\
         a_addresses = ['10.1.0.1/24', 'fd00:1::1/64']\n\
         b_addresses = ['10.1.0.2/24', '10.1.0.9/24', 'fd00:1::2/64', 'fd00:1::9/64']\n",
        router("first"),
        bird("first")
    );
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    lab.until("both sessions are up", both_are_up);
    lab
}

fn both_are_up(lab: &RouterLab) -> bool {
    ["10.1.0.2", "fd00:1::2"].iter().all(|neighbor| lab.established(neighbor))
}

/// A client that connects all the time.
struct Knocker {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Knocker {
    fn start(lab: &RouterLab) -> Self {
        let mut command = lab.lab.command("bird", "python3").unwrap();
        command.args(["-c", include_str!("knock.py")]).args(PLACES);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "knocks\n");
        Knocker { process, output }
    }

    /// Ends the client. Returns the results by frequency.
    fn end(mut self) -> Value {
        drop(self.process.stdin.take());
        let got = serde_json::from_reader(&mut self.output).unwrap();
        assert!(self.process.wait().unwrap().success());
        got
    }
}

/// Makes BIRD begin its sessions anew: BIRD has to connect.
fn connect_anew(lab: &RouterLab) {
    for name in ["four", "six"] {
        lab.birdc("bird", &format!("restart {name}"));
    }
}

#[test]
fn nobody_is_refused_while_bgp_hands_over() {
    if !possible() {
        return;
    }
    let lab = network();
    let knocker = Knocker::start(&lab);
    let mut pid = lab.pid("bgp");
    for words in [["restart", "bgp"].as_slice(); 4]
        .into_iter()
        .chain([["upgrade", "bgp", "--binary", SLUICE].as_slice()])
    {
        let output = lab.cli(words);
        assert!(output.status.success(), "{output:?}\n{}", lab.whole_log());
        let next = lab.pid("bgp");
        assert_ne!(next, pid);
        pid = next;
    }
    // With too few descriptors a successor fails at one step or another of all there are, the listeners among them.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let failed = (5..16).take_while(|limit| {
        let lacks = program_with(folder.path(), &format!("ulimit -n {limit};"));
        let output = lab.cli(&["upgrade", "bgp", "--binary", &lacks.display().to_string()]);
        !output.status.success()
    });
    let failed = failed.count();
    assert!(failed > 0);
    assert!(lab.cli(&["restart", "bgp"]).status.success(), "{}", lab.whole_log());
    let got = knocker.end();
    println!("knocked while 6 processes handed over and {failed} could not: {got}");
    let outcomes: Vec<&String> = got.as_object().unwrap().keys().collect();
    assert_eq!(outcomes, ["in"], "{got}\n{}", lab.whole_log());

    keys_are_there_and_change(&lab);
}

/// The FEA is killed: sessions stay up, connections made meanwhile are not refused, and the next FEA knows the
/// listeners with their keys.
#[test]
fn listeners_and_sessions_survive_the_fea() {
    if !possible() {
        return;
    }
    let lab = network();
    let knocker = Knocker::start(&lab);
    let since =
        |lab: &RouterLab| ["four", "six"].map(|name| lab.birdc("bird", &format!("show protocols {name}")));
    let (before, bgp) = (since(&lab), lab.pid("bgp"));
    let adopted = |lab: &RouterLab| lab.whole_log().matches("may go on to listen on TCP port 179").count();
    for _life in 1..=2 {
        let (fea, before) = (lab.pid("fea").unwrap(), adopted(&lab));
        lab.kill(fea);
        lab.until("the next FEA runs", |lab| lab.pid("fea").is_some_and(|pid| pid != fea));
        lab.until("it has adopted both listeners", |lab| adopted(lab) == before + 2);
    }
    let got = knocker.end();
    let outcomes: Vec<&String> = got.as_object().unwrap().keys().collect();
    assert_eq!(outcomes, ["in"], "{got}\n{}", lab.whole_log());
    assert_eq!((since(&lab), lab.pid("bgp")), (before, bgp), "the sessions are those from before");
    keys_are_there_and_change(&lab);
}

/// The neighbor connects anew with the configured key; the router changes the key, and only the new key works from then
/// on.
fn keys_are_there_and_change(lab: &RouterLab) {
    connect_anew(lab);
    lab.until("both connected anew", both_are_up);
    std::fs::write(lab.lab.dir("sluice").join("config"), router("second")).unwrap();
    lab.signal("-HUP", lab.pid("manager").unwrap());
    lab.until("the session with the old key ends", |l| !l.established("10.1.0.2"));
    let returns = sluice_lab::until(Duration::from_secs(3), || lab.established("10.1.0.2"));
    assert!(!returns, "the old key still does");
    let config = lab.lab.dir("bird").join("config");
    std::fs::write(&config, bird("second")).unwrap();
    lab.birdc("bird", "configure");
    lab.until("both sessions are up with the new key", both_are_up);
}
