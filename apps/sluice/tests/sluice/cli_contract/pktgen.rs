//! Packets sent, counted and replayed between two nodes: documents, texts, and refusals.

use crate::cli_contract::{SLUICE, assert_valid, check_failure, text};
use serde_json::{Value, json};
use sluice_bpf::probe::{Feature, require};
use sluice_lab::{Lab, LabOptions, until};
use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PAIR: &str = "
[nodes.r]
[nodes.a]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
xdp = true
";

/// A number of packets that a veth's ring holds, so that none is lost.
const FEW: u64 = 200;

const SEND: &str = "pktgen send --interface eth0 --to ff:ff:ff:ff:ff:ff --source 10.0.0.1 --destination 10.0.0.2 --count 200";

/// The nodes, and a folder for files.
struct Pair {
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Pair {
    fn up(name: &str) -> Self {
        let lab = Lab::up(&PAIR.parse().unwrap(), LabOptions::unique(name)).unwrap();
        Pair { lab, folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, node: &str, line: &str) -> Command {
        let mut command = self.lab.command(node, SLUICE).unwrap();
        command.args(line.split(' ')).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command("r", line).output().unwrap()
    }

    /// Starts `count` at the node `a` and waits until its program is attached.
    fn count(&self, line: &str) -> Child {
        let mut command = self.command("a", line);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let is_attached = || self.lab.exec("a", "ip", ["link", "show", "eth0"]).unwrap().contains("prog/xdp");
        assert!(until(Duration::from_secs(20), is_attached));
        child
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

fn document(output: &Output, schema: &str) -> Value {
    assert_eq!(output.status.code(), Some(0), "{schema}: {}", text(output));
    assert!(output.stderr.is_empty(), "{schema}: {}", text(output));
    let value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid(schema, &value, schema);
    value
}

/// A capture of two Ethernet frames at the same time.
fn capture() -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 2 << 16 | 4, 0, 0, 0xffff, 1].iter().flat_map(|word| word.to_be_bytes()).collect();
    for octet in [1, 2] {
        file.extend([0_u32, 0, 60, 60].iter().flat_map(|word| word.to_be_bytes()));
        file.extend([octet; 60]);
    }
    file
}

/// Every document of `sluice pktgen`. Without rights for live frames, the documents are not printed.
pub fn packets(seen: &mut BTreeSet<String>) {
    seen.extend(["pktgen-send", "pktgen-count", "pktgen-replay"].map(String::from));
    if let Err(reason) = require(Feature::LiveFrames) {
        return sluice_testkit::skipped(reason);
    }
    let pair = Pair::up("cli-pktgen");
    let counter = pair.count("pktgen count --interface eth0 --stream 7 --count 200 --time 60 --json");
    let sent = document(&pair.run(&format!("{SEND} --stream 7 --json")), "pktgen-send");
    assert_eq!((&sent["sent"], &sent["octets"]), (&json!("200"), &json!("12000")));
    let counted = document(&counter.wait_with_output().unwrap(), "pktgen-count");
    let counts = ["received", "expected", "lost", "duplicates", "reordered", "late"].map(|key| &counted[key]);
    assert_eq!(counts, ["200", "200", "0", "0", "0", "0"], "{counted}");
    assert_eq!((&counted["hook"], &counted["stream"]), (&json!("native"), &json!(7)));

    let file = pair.file("two.pcap", &capture());
    let replayed = pair.run(&format!("pktgen replay --interface eth0 {file} --loops 3 --full-speed --json"));
    let replayed = document(&replayed, "pktgen-replay");
    let counts = ["captured", "sent", "octets", "loops", "refused", "cut"].map(|key| &replayed[key]);
    assert_eq!(counts, ["2", "6", "360", "3", "0", "0"], "{replayed}");
}

#[test]
fn packets_are_sent_and_counted_in_words() {
    if let Err(reason) = require(Feature::LiveFrames) {
        return sluice_testkit::skipped(reason);
    }
    let pair = Pair::up("cli-packets");
    let counter = pair.count("pktgen count --interface eth0");
    // Destinations from a file, drawn at random and from a distribution.
    let list = pair.file("list", b"# prefixes\n10.1.0.0/16\n10.2.0.0/16 # and more\n\n10.0.0.9\n");
    let line =
        format!("{SEND} --destinations {list} --random 50 --zipf 1.1 --seed 9 --flows 10 --flow-length 2");
    let output = pair.run(&format!("{line} --size 128 --rate 20000"));
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).starts_with("200 packets sent in "), "{}", text(&output));
    let shown = pair.lab.exec("r", "ip", ["-s", "-j", "link", "show", "eth0"]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown[0]["stats64"]["tx"]["packets"].as_u64() >= Some(FEW), "{shown}");
    // Ctrl-C ends the counting, and the counts are printed.
    assert!(Command::new("kill").args(["-INT", &counter.id().to_string()]).status().unwrap().success());
    let output = counter.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(" packets received in "), "{}", text(&output));
    assert!(text(&output).contains("0 duplicates, 0 reordered, 0 late"), "{}", text(&output));

    let raw = pair.file("raw", b"ffffffffffff 02:00:00:00:00:01 c0de # a header alone\n");
    let output = pair.run(&format!("pktgen send --interface eth0 --raw {raw} --count 5 --json"));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["sent"], &value["octets"]), (&json!("5"), &json!("300")));
    // Without a count, SIGTERM ends the sending.
    let endless = pair.command("r", "pktgen send --interface eth0 --to 02:00:00:00:00:02 --source fd00::1 --destination fd00::2 --rate 1000");
    let mut endless = { endless }.stdout(Stdio::piped()).spawn().unwrap();
    let has_sent = || {
        let shown = pair.lab.exec("r", "ip", ["-s", "-j", "link", "show", "eth0"]).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown[0]["stats64"]["tx"]["packets"].as_u64() >= Some(FEW + 20)
    };
    assert!(until(Duration::from_secs(20), has_sent));
    assert!(Command::new("kill").arg(endless.id().to_string()).status().unwrap().success());
    assert!(endless.wait().unwrap().success());
}

#[test]
fn packets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "10.0.0.0/8\nten\n").unwrap();
    let wrong = wrong.display();
    let lo = "pktgen send --interface lo --to 02:00:00:00:00:01 --source 10.0.0.1";
    for (line, status, code, part) in [
        // The thread of a test is in the host's own namespace.
        (format!("{lo} --destination 10.0.0.2"), 7, "not-allowed", "--yes-send-on lo"),
        (format!("{lo} --destination 10.0.0.2 --yes-send-on eth0"), 7, "not-allowed", "--yes-send-on lo"),
        (lo.into(), 2, "usage", "--destination"),
        (format!("{lo} --destination fd00::1"), 2, "usage", "one family"),
        (format!("{lo} --destination ten"), 2, "usage", "10.1.0.0/16"),
        (format!("{lo} --destination 10.0.0.2 --size 59"), 2, "usage", "60..=1514"),
        (format!("{lo} --destination 10.0.0.2 --rate 0"), 2, "usage", "--rate"),
        (format!("{lo} --destinations {wrong}"), 1, "failed", "wrong:2: `ten`"),
        (format!("{lo} --destinations /nowhere"), 1, "failed", "/nowhere"),
        ("pktgen send --interface lo --to 02:00 --source 10.0.0.1".into(), 2, "usage", "02:00:00:00:00:01"),
        ("pktgen send --interface lo".into(), 2, "usage", "--to"),
        (format!("pktgen send --interface lo --raw {wrong}"), 1, "failed", "hexadecimal"),
        ("pktgen count --interface nothing0".into(), 1, "failed", "nothing0"),
        (format!("pktgen replay --interface lo {wrong}"), 1, "failed", "pcap"),
        (format!("pktgen replay --interface lo {wrong} --speed 0"), 2, "usage", "0.000001"),
    ] {
        let run = |json: &[&str]| Command::new(SLUICE).args(line.split(' ')).args(json).output().unwrap();
        let output = run(&["--json"]);
        check_failure(&output, &line, status, code);
        assert!(text(&output).contains(part), "{line}: {}", text(&output));
        let output = run(&[]);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", text(&output));
        assert!(output.stdout.is_empty(), "{line}: {}", text(&output));
    }
}
