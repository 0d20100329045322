//! A peer that brings its session up and then never reads again: the others do not feel it, it costs no memory, and when it falls
//! silent too its hold time ends it; if it does not, the send hold time does (RFC 9687).

use crate::feed::{fed, feed_of};
use crate::router_lab::{RouterLab, SLUICE, possible, share};
use sluice_lab::Topology;
use sluice_load::RoutingTable;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// Routes of the feed.
const ROUTES: usize = 30_000;
/// How often the whole table is withdrawn and announced again while the peer stands still.
const ROUNDS: usize = 4;
/// What BGP may grow by in these rounds. Four tables in a queue would be more.
const GROWTH: u64 = 8 << 20;
const STALLED: &str = "10.3.0.2";

const TOPOLOGY: &str = "
[nodes.witness]
daemon = 'bird'
config = '''
router id 10.2.0.2;
protocol device {}
protocol bgp sluice {
  local 10.2.0.2 as 64502;
  neighbor 10.2.0.1 as 64500;
  connect delay time 1;
  ipv4 { import all; export none; };
}
'''
[nodes.stalled]
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols bgp {
    local-as 64500;
    router-id 10.0.0.1;
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }
    neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; }
    neighbor 10.3.0.2 { peer-as 64503; passive; hold-time 9; }
}
'''
[[links]]
a = 'sluice:witness'
b = 'witness:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
[[links]]
a = 'sluice:stalled'
b = 'stalled:sluice'
a_addresses = ['10.3.0.1/24']
b_addresses = ['10.3.0.2/24']
";

fn topology() -> Topology {
    let prefixes = (0..ROUTES).map(|i| format!("20.{}.{}.0/24", i / 256, i % 256));
    let table = RoutingTable::with_made_up_paths(prefixes.map(|p| (p.parse().unwrap(), None)));
    fed(TOPOLOGY, feed_of(&table).config())
}

/// The peer; killed with the test.
struct Stalled(Child);

impl Stalled {
    /// A peer whose session is up, and that will never read again.
    fn established(lab: &RouterLab) -> Self {
        let mut command = lab.lab.command("stalled", "python3").unwrap();
        command.args(["-c", include_str!("stalled_peer.py"), "64503", STALLED, "10.3.0.1", "9"]);
        let mut peer = Stalled(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut said = String::new();
        BufReader::new(peer.0.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "established\n");
        peer
    }

    /// No more KEEPALIVEs either.
    fn falls_silent(&mut self) {
        drop(self.0.stdin.take());
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it does not end by itself
        let _ = self.0.wait();
    }
}

#[test]
fn a_peer_that_stops_reading() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&topology(), Path::new(SLUICE));
    let witness_has = |l: &RouterLab, n: usize| {
        l.birdc("witness", "show route count")
            .contains(&format!("{n} of {n} routes for {n} networks in table master4"))
    };
    lab.until("the other peer has the table", |l| witness_has(l, ROUTES));
    let mut stalled = Stalled::established(&lab);
    let flap = || {
        lab.birdc("feed", "disable feed4");
        lab.until("the other peer hears the withdrawal", |l| witness_has(l, 0));
        lab.birdc("feed", "enable feed4");
        lab.until("the other peer has the table again", |l| witness_has(l, ROUTES));
    };
    flap();
    let before = lab.memory("bgp").unwrap();
    for _ in 0..ROUNDS {
        flap();
    }
    let after = lab.memory("bgp").unwrap();
    println!("bgp: {before} octets before, {after} after {ROUNDS} tables that a peer did not read");
    assert!(after < before + GROWTH, "{before} octets before, {after} after");
    assert!(lab.established(STALLED), "it still says KEEPALIVE");
    assert_eq!(lab.neighbor(STALLED)["flaps"], "0");

    stalled.falls_silent();
    lab.until("its hold time ends it", |l| !l.established(STALLED));
    flap();

    let _stalled = Stalled::established(&lab);
    flap();
    let statement = format!("set protocols bgp neighbor {STALLED} send-hold-time 10");
    assert!(lab.cli(&["configure", &statement, "commit"]).status.success());
    lab.until("its send hold time ends it although it sends KEEPALIVEs", |l| {
        l.neighbor(STALLED)["last_error"].as_str().is_some_and(|e| e.contains("send hold timer expired"))
    });
    for peer in ["10.1.0.2", "10.2.0.2"] {
        assert_eq!(lab.neighbor(peer)["flaps"], "0", "{peer} never felt it");
    }
    assert_eq!(lab.restarts(), 0);
}
