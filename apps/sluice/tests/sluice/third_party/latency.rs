//! The time of single routes through the router, from one BGP neighbor to another.

use crate::third_party::router::Router;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

/// The neighbors' node and links, for [`Router::start_among`].
pub const NEIGHBORS: &str = "
[nodes.peers]
[[links]]
a = 'host:first'
b = 'peers:first'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
[[links]]
a = 'host:second'
b = 'peers:second'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";

/// The router's side of the sessions.
pub const SESSIONS: &str = "bgp { local-as 64500; router-id 10.1.0.1; default-policy accept; \
    neighbor 10.1.0.2 { peer-as 64501; passive; } neighbor 10.2.0.2 { peer-as 64502; passive; } }";

/// Two neighbors with established sessions.
pub struct Neighbors {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// The median and the 99th percentile of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    pub p50: Duration,
    pub p99: Duration,
}

impl Neighbors {
    /// Starts the neighbors, and waits for their sessions.
    pub fn connect(router: &Router) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sluice/third_party/latency.py");
        let mut command = router.lab.command("peers", "python3").unwrap();
        let mut process = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut neighbors = Neighbors { process, orders, answers };
        assert_eq!(neighbors.answer(), "ready");
        neighbors
    }

    /// Sends `count` routes one after the other; fails if a session has ended or a route does not arrive.
    pub fn sample(&mut self, count: usize) -> Latency {
        writeln!(self.orders, "{count}").unwrap();
        let answer = self.answer();
        let mut times: Vec<u64> = answer.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(times.len(), count, "routes are missing");
        times.sort_unstable();
        let at = |percent: usize| Duration::from_micros(times[(count * percent / 100).min(count - 1)]);
        Latency { p50: at(50), p99: at(99) }
    }

    fn answer(&mut self) -> String {
        let answer = self.answers.next();
        answer.and_then(Result::ok).expect("the neighbors' sessions are up")
    }
}

impl Drop for Neighbors {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _ = self.process.wait();
    }
}
