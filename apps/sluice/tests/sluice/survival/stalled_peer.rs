//! A peer that establishes its session and then never reads again: the remaining peers are not affected, memory stays
//! bounded, and the hold time ends the session if the peer falls silent too; otherwise the send hold time does (RFC
//! 9687).

use crate::SLUICE;
use crate::survival::feed::{fed, feed_of};
use sluice_base::Asn;
use sluice_lab::Topology;
use sluice_load::{Announcement, RoutingTable, wide};
use sluice_router_lab::{RouterLab, possible, share};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

/// Routes of the feed.
const ROUTES: usize = 30_000;
/// The number of times that the whole table is withdrawn and announced again before memory is measured: an allocator takes some rounds to
/// come to rest.
const FIRST_ROUNDS: usize = 3;
/// The number of times after that, while the peer stands still: an unread queue would then hold far more than an allocator's differences.
const ROUNDS: usize = 8;

/// The addresses of a family's sessions, and the family's number.
struct Addresses {
    /// The router's address toward the healthy peer, and the peer's address.
    witness: [&'static str; 2],
    /// The router's address toward the stalled peer, and the peer's address.
    stalled: [&'static str; 2],
    mask: u8,
    number: u8,
}

const IPV4: Addresses =
    Addresses { witness: ["10.2.0.1", "10.2.0.2"], stalled: ["10.3.0.1", "10.3.0.2"], mask: 24, number: 4 };
const IPV6: Addresses = Addresses {
    witness: ["fd00:2::1", "fd00:2::2"],
    stalled: ["fd00:3::1", "fd00:3::2"],
    mask: 64,
    number: 6,
};

fn topology(family: &Addresses) -> Topology {
    let Addresses { witness: [to_witness, witness], stalled: [to_stalled, stalled], mask, number } = family;
    let text = format!(
        "
[nodes.witness]
daemon = 'bird'
config = '''
router id 10.2.0.2;
protocol device {{}}
protocol bgp sluice {{
  local {witness} as 64502;
  neighbor {to_witness} as 64500;
  connect delay time 1;
  ipv{number} {{ import all; export none; }};
}}
'''
[nodes.stalled]
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols bgp {{
    local-as 64500;
    router-id 10.0.0.1;
    default-policy accept;
    neighbor 10.1.0.2 {{ peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; }}
    neighbor {witness} {{ peer-as 64502; connect-retry-time 1; }}
    neighbor {stalled} {{ peer-as 64503; passive; hold-time 9; }}
}}
'''
[[links]]
a = 'sluice:witness'
b = 'witness:sluice'
a_addresses = ['{to_witness}/{mask}']
b_addresses = ['{witness}/{mask}']
[[links]]
a = 'sluice:stalled'
b = 'stalled:sluice'
a_addresses = ['{to_stalled}/{mask}']
b_addresses = ['{stalled}/{mask}']
"
    );
    let prefix = |i: usize| match number {
        4 => format!("20.{}.{}.0/24", i / 256, i % 256),
        _ => format!("2a00:{i:x}::/32"),
    };
    // A path of its own for each route, so that a table has many octets.
    let path = |i: usize| [1000 + i as u32 / 8, 1000 + i as u32].map(Asn).to_vec();
    let routes = (0..ROUTES).map(|i| Announcement { prefix: prefix(i).parse().unwrap(), path: path(i) });
    let table = RoutingTable::new(routes);
    fed(&text, feed_of(&table).config())
}

/// The peer; killed with the test.
struct Stalled(Child);

impl Stalled {
    /// A peer whose session is up, and that will never read again.
    fn established(lab: &RouterLab, router: &str) -> Self {
        let mut command = lab.lab.command("stalled", "python3").unwrap();
        command.args(["-c", include_str!("stalled_peer.py"), "64503", "10.3.0.2", router, "9"]);
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

fn a_peer_stops_reading(family: &Addresses) {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&topology(family), Path::new(SLUICE));
    let Addresses { stalled: [to_stalled, address], number, .. } = family;
    let witness_has = |l: &RouterLab, n: usize| {
        l.birdc("witness", "show route count")
            .contains(&format!("{n} of {n} routes for {n} networks in table master{number}"))
    };
    lab.until("the other peer has the table", |l| witness_has(l, ROUTES));
    let mut stalled = Stalled::established(&lab, to_stalled);
    let flap = || {
        lab.birdc("feed", &format!("disable feed{number}"));
        lab.until("the other peer receives the withdrawal", |l| witness_has(l, 0));
        lab.birdc("feed", &format!("enable feed{number}"));
        lab.until("the other peer has the table again", |l| witness_has(l, ROUTES));
    };
    (0..FIRST_ROUNDS).for_each(|_| flap());
    // The feed's UPDATEs are what a queue for the stalled peer would hold.
    let received = |lab: &RouterLab| wide(&lab.neighbor("10.1.0.2")["octets_received"]).unwrap();
    let (before, received_before) = (lab.memory("bgp").unwrap(), received(&lab));
    for _ in 0..ROUNDS {
        flap();
    }
    let (growth, unread) =
        (lab.memory("bgp").unwrap().saturating_sub(before), received(&lab) - received_before);
    println!("bgp: {growth} octets more than {before} after {unread} octets that a peer did not read");
    assert!(growth < unread / 2, "{growth} octets more after {unread} that a peer did not read");
    assert!(lab.established(address), "it still sends KEEPALIVE");
    assert_eq!(lab.neighbor(address)["flaps"], "0");

    stalled.falls_silent();
    lab.until("its hold time ends it", |l| !l.established(address));
    flap();

    let _stalled = Stalled::established(&lab, to_stalled);
    flap();
    let statement = format!("set protocols bgp neighbor {address} send-hold-time 10");
    assert!(lab.cli(&["configure", &statement, "commit"]).status.success());
    lab.until("its send hold time ends it although it sends KEEPALIVEs", |l| {
        l.neighbor(address)["last_error"].as_str().is_some_and(|e| e.contains("send hold timer expired"))
    });
    for peer in ["10.1.0.2", family.witness[1]] {
        assert_eq!(lab.neighbor(peer)["flaps"], "0", "{peer} never felt it");
    }
    assert_eq!(lab.restarts(), 0);
}

#[test]
fn a_peer_that_stops_reading() {
    a_peer_stops_reading(&IPV4);
}

#[test]
fn a_peer_that_stops_reading_over_ipv6() {
    a_peer_stops_reading(&IPV6);
}
