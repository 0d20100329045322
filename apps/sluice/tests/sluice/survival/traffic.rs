//! Packets across the router during every disturbance.

use sluice_lab::Lab;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

/// The program of the hosts at both ends.
const PROGRAM: &str = include_str!("traffic.py");
/// Packets a second.
const RATE: &str = "500";

/// A flow of packets from a node to a second node.
pub struct Traffic {
    source: Child,
    sink: Child,
    counted: BufReader<std::process::ChildStdout>,
}

/// Words in the names of the kernel's counters of packets that were not forwarded or delivered.
const DROPS: [&str; 6] = ["NoRoutes", "Discards", "Errors", "DestUnreachs", "NoPorts", "Drop"];

/// The kernel's counters of dropped packets on each node of a lab.
pub struct Drops(BTreeMap<String, u64>);

impl Drops {
    /// Reads the counters of all nodes.
    pub fn read(lab: &Lab) -> Self {
        let mut all = BTreeMap::new();
        for node in lab.state().nodes.keys() {
            let lines = |file: &str| lab.exec(node, "cat", [file]).unwrap();
            let mut note = |name: &str, value: &str| {
                if DROPS.iter().any(|word| name.contains(word)) {
                    all.insert(format!("{node} {name}"), value.parse().unwrap_or(0));
                }
            };
            for line in lines("/proc/net/snmp6").lines() {
                let mut words = line.split_whitespace();
                note(words.next().unwrap_or_default(), words.next().unwrap_or_default());
            }
            for file in ["/proc/net/snmp", "/proc/net/netstat"] {
                let text = lines(file);
                let mut rows = text.lines();
                while let (Some(names), Some(values)) = (rows.next(), rows.next()) {
                    let protocol = names.split(':').next().unwrap_or_default();
                    for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
                        note(&format!("{protocol}{name}"), value);
                    }
                }
            }
        }
        Drops(all)
    }

    /// Returns the counters that have grown since `self` was read, with their growth.
    pub fn since(&self, lab: &Lab) -> Vec<(String, u64)> {
        let grown = |(name, now): (String, u64)| {
            let more = now - self.0.get(&name).copied().unwrap_or(0);
            (more > 0).then_some((name, more))
        };
        Drops::read(lab).0.into_iter().filter_map(grown).collect()
    }
}

/// The results of the packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packets {
    pub sent: u64,
    /// The numbers of missing packets, first and last of each run. A packet is sent every 2 ms.
    pub missing: Vec<(u64, u64)>,
}

impl Packets {
    /// The number of lost packets.
    pub fn lost(&self) -> u64 {
        self.missing.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// From what the sink prints: `FIRST-LAST FIRST-LAST ...`.
    fn new(sent: u64, arrived: &str) -> Self {
        let mut missing = Vec::new();
        let mut next = 0;
        for run in arrived.split_whitespace() {
            let (first, last) = run.split_once('-').unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            if first > next {
                missing.push((next, first - 1));
            }
            next = last + 1;
        }
        if next < sent {
            missing.push((next, sent - 1));
        }
        Packets { sent, missing }
    }
}

impl Traffic {
    /// Starts a flow from the node `from` to `addresses`, which all lie behind or on the node `to`.
    pub fn start(lab: &Lab, from: &str, to: &str, addresses: &[String]) -> Self {
        let host = |node: &str| {
            let program = lab.dir(node).join("traffic.py");
            std::fs::write(&program, PROGRAM).unwrap();
            let mut command = lab.command(node, "python3").unwrap();
            command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        };
        let file = lab.dir(from).join("addresses");
        std::fs::write(&file, addresses.join("\n")).unwrap();
        let mut sink = host(to).arg("sink").spawn().unwrap();
        let mut counted = BufReader::new(sink.stdout.take().unwrap());
        counted.read_line(&mut String::new()).unwrap(); // it listens
        let source = host(from).arg("source").arg(file).arg(RATE).spawn().unwrap();
        Traffic { source, sink, counted }
    }

    /// Ends the flow. Returns the sent and the missing packets.
    pub fn end(mut self) -> Packets {
        drop(self.source.stdin.take());
        let mut text = String::new();
        self.source.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let sent = text.trim().parse().unwrap();
        drop(self.sink.stdin.take());
        text.clear();
        self.counted.read_to_string(&mut text).unwrap();
        Packets::new(sent, &text)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        for host in [&mut self.source, &mut self.sink] {
            let _ = host.kill(); // after an orderly end there is nothing to kill
            let _ = host.wait();
        }
    }
}
