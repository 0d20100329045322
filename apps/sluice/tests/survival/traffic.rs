//! Packets across the router, all the time that something happens to it.

use sluice_lab::Lab;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

/// The program of the hosts at both ends.
const PROGRAM: &str = include_str!("traffic.py");
/// Packets a second.
const RATE: &str = "500";

/// A flow of packets from one node to another.
pub struct Traffic {
    source: Child,
    sink: Child,
    counted: BufReader<std::process::ChildStdout>,
}

/// What became of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    pub sent: u64,
    pub arrived: u64,
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

    /// Ends the flow; what was sent and what arrived.
    pub fn end(mut self) -> Arrived {
        drop(self.source.stdin.take());
        let mut text = String::new();
        self.source.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let sent = text.trim().parse().unwrap();
        drop(self.sink.stdin.take());
        text.clear();
        self.counted.read_to_string(&mut text).unwrap();
        Arrived { sent, arrived: text.trim().parse().unwrap() }
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
