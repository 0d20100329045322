//! A neighbor whose routes cost much: a policy of a thousand terms, and a set of attributes for each route that no term has seen
//! before. Another neighbor's routes pass meanwhile, the session stays, and memory stays bounded.

use crate::SLUICE;
use crate::policies::feed;
use crate::policies::network::{LOCAL_AS, Role, Router};
use crate::policies::peer::{self, Peer, Words};
use sluice_base::Ipv4Prefix;
use sluice_router_lab::RouterLab;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUTER: Router = Router { node: "sluice", number: 2 };
const TERMS: usize = 1000;
/// The sets that wait in the flooding neighbor.
const AHEAD: u32 = 1000;
/// The sets of the flood.
const FLOOD: u32 = 8_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// The most memory that the flood may take: the router keeps the sets of the present routes, and what waits in bounded queues.
const MOST_MEMORY: u64 = 64 << 20;

/// No term but the last applies to a route of the flood.
fn config() -> String {
    let mut text = "policy {\npolicy-statement everything { term all { then { accept; } } }\n".to_owned();
    (0..TERMS).for_each(|term| writeln!(text, "community c{term} {{ member {LOCAL_AS}:{term}; }}").unwrap());
    text += "policy-statement long {\n";
    for term in 0..TERMS {
        let then = format!("{{ local-preference {term}; accept; }}");
        writeln!(text, "term t{term} {{ from {{ community c{term}; }} then {then} }}").unwrap();
    }
    text += "term rest { then { accept; } }\n}\n}\n";
    write!(
        text,
        "protocols {{ bgp {{ local-as {LOCAL_AS}; router-id {}; default-policy reject;",
        ROUTER.address(Role::Feeder)
    )
    .unwrap();
    let neighbors = [
        (Role::Feeder, 1, "import long"),
        (Role::Feeder, 2, "import everything"),
        (Role::External, 1, "export everything"),
    ];
    for (role, number, policy) in neighbors {
        let (address, asn) = (ROUTER.peer(role, number), role.asn());
        writeln!(text, "neighbor {address} {{ peer-as {asn}; passive; {policy}; }}").unwrap();
    }
    text + "} }\n"
}

fn topology() -> String {
    let routes = ROUTER.routes().collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{}'''\n[nodes.peers]\nroutes = [{routes}]\n",
        config()
    );
    ROUTER.links(&mut text);
    text
}

/// Sends the flood while probes pass.
pub fn run() {
    let lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    lab.lab.inside("peers", || pass_probes(&lab)).unwrap();
}

fn pass_probes(lab: &RouterLab) {
    let [flooder, other] = [1, 2].map(|number| Peer::connect(ROUTER, Role::Feeder, number));
    let receiver = Peer::connect(ROUTER, Role::External, 1);
    let mut peers = Peers { flooder, other, receiver, sets: 0, words: Words::default() };
    let before = lab.memory("bgp").unwrap();
    let (begin, mut waits) = (Instant::now(), Vec::new());
    while peers.sets < FLOOD {
        let (prefix, octets) = feed::single(peers.other.address, waits.len() as u32);
        peers.other.announce(&octets);
        waits.push(peers.wait_for(prefix));
    }
    // The flood's last route comes when the router has read all of them.
    let (prefix, octets) = feed::single(peers.flooder.address, waits.len() as u32);
    peers.flooder.announce(&octets);
    peers.wait_for(prefix);
    let rate = f64::from(peers.sets) / begin.elapsed().as_secs_f64();
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("{} sets, {rate:.0} a second: others wait {median:?}, at most {longest:?}", peers.sets);
    let grown = lab.memory("bgp").unwrap().saturating_sub(before);
    assert!(grown < MOST_MEMORY, "{grown} octets more");
    // It would not come back by itself.
    let flooder = peers.flooder.address.to_string();
    lab.until("the neighbor keeps its session", |lab| lab.established(&flooder));
}

struct Peers {
    flooder: Peer,
    other: Peer,
    receiver: Peer,
    /// The sets of the flood so far.
    sets: u32,
    words: Words,
}

impl Peers {
    /// Floods until the receiver has a route; returns the time that it takes.
    fn wait_for(&mut self, prefix: Ipv4Prefix) -> Duration {
        let begin = Instant::now();
        while !self.receiver.routes.contains_key(&prefix) {
            if self.flooder.is_sent() && self.sets < FLOOD {
                let (address, next) = (self.flooder.address, self.sets + AHEAD);
                (self.sets..next).for_each(|set| self.flooder.announce(&feed::distinct(address, set)));
                self.sets = next;
            }
            for peer in [&mut self.flooder, &mut self.other, &mut self.receiver] {
                peer.pump(&mut self.words);
            }
            peer::wait([&self.other, &self.receiver], Duration::from_millis(1));
            assert!(begin.elapsed() < PATIENCE, "{prefix} does not pass the flood of {} sets", self.sets);
        }
        begin.elapsed()
    }
}
