//! Sluice beside BIRD, fed the same octets: UPDATEs of real tables and traces from several peers, and what an external, an internal and a
//! 2-octet neighbor are sent by each, compared prefix by prefix with all attributes. Each difference is of a kind with a reason
//! (`docs/same-octets.md`). Some thousand UPDATEs; long tests take all traces and tables of the shared data.

mod compare;
mod feed;
mod whole;

use crate::SLUICE;
use compare::{AdjRibOut, Differences, Kind, compare};
use feed::{Feed, feeds};
use sluice_base::Asn;
use sluice_bgpsim::wire::{AFI_IPV4, AFI_IPV6, Capability, MessageType};
use sluice_router_lab::speaker::{Attr, End, Speaker, announcement, base, message, nlri};
use sluice_router_lab::{RouterLab, possible, share};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

const AS: u32 = 64500;
/// The receiving neighbors: name, last octet of the address, AS, and true if AS numbers have 4 octets.
const RECEIVERS: [(&str, u8, u32, bool); 3] =
    [("external", 11, 64600, true), ("internal", 12, AS, true), ("2-octet", 13, 64601, false)];
/// The longest wait for both routers to send all.
const PATIENCE: Duration = Duration::from_secs(240);
/// Messages that a feed sends at once.
const AT_ONCE: usize = 500;
/// The time without a message after which a router may have sent all.
const QUIET: Duration = Duration::from_millis(300);

/// Both routers with the same addresses, each with a node of feeds and a node of receivers.
fn topology(feeds: &[Feed]) -> sluice_lab::Topology {
    let numbered = || (0_u8..).zip(feeds);
    let of_sluice: String = numbered()
        .map(|(n, feed)| format!("neighbor {} {{ peer-as {}; group feeds; }}\n", feed::address(n), feed.asn))
        .collect();
    let to_receivers: String = RECEIVERS
        .iter()
        .map(|(_, host, asn, _)| format!("neighbor 10.2.0.{host} {{ peer-as {asn}; group receivers; }}\n"))
        .collect();
    let of_bird: String = numbered()
        .map(|(n, feed)| {
            format!("protocol bgp f{n} from feed {{ neighbor {} as {}; }}\n", feed::address(n), feed.asn)
        })
        .collect();
    let bird_receivers: String = RECEIVERS
        .iter()
        .map(|(_, host, asn, _)| {
            format!("protocol bgp r{host} from receiver {{ neighbor 10.2.0.{host} as {asn}; }}\n")
        })
        .collect();
    let link = |router: &str| {
        let (feeds, receivers) = (format!("feeds-{router}"), format!("receivers-{router}"));
        let own = |network: u8| format!("'10.{network}.0.1/24', 'fd00:{network}::1/64'");
        let of_feeds: Vec<String> = numbered()
            .map(|(n, _)| format!("'{}/24', 'fd00:1::{:x}/64'", feed::address(n), 16 + n))
            .collect();
        let of_receivers: Vec<String> = RECEIVERS
            .iter()
            .map(|(_, host, ..)| format!("'10.2.0.{host}/24', 'fd00:2::{host}/64'"))
            .collect();
        format!(
            "[nodes.{feeds}]\n[nodes.{receivers}]\n
[[links]]\na = '{router}:feeds'\nb = '{feeds}:{router}'\na_addresses = [{}]\nb_addresses = [{}]
[[links]]\na = '{router}:receivers'\nb = '{receivers}:{router}'\na_addresses = [{}]\nb_addresses = [{}]\n",
            own(1),
            of_feeds.join(", "),
            own(2),
            of_receivers.join(", ")
        )
    };
    let families = "ipv4-unicast { enabled true; } ipv6-unicast { enabled true; }";
    let text = format!(
        "[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {{ bgp {{
    local-as {AS}; router-id 10.1.0.1; default-policy accept;
    group feeds {{ passive true; enforce-first-as false; export [ nothing ]; {families} }}
    group receivers {{ passive true; {families} }}
    {of_sluice} {to_receivers}
}} }}
policy {{ policy-statement nothing {{ term all {{ then {{ reject; }} }} }} }}
'''
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.1;
protocol device {{ }}
template bgp feed {{ local 10.1.0.1 as {AS}; passive; deterministic med;
    ipv4 {{ import all; export none; }}; ipv6 {{ import all; export none; }}; }}
template bgp receiver {{ local 10.2.0.1 as {AS}; passive;
    ipv4 {{ import none; export all; }}; ipv6 {{ import none; export all; }}; }}
{of_bird} {bird_receivers}
'''
{}{}",
        link("sluice"),
        link("bird")
    );
    text.parse().unwrap()
}

fn capabilities(asn: u32, four_octet_as: bool) -> Vec<Capability> {
    let mut all = vec![Capability::unicast(AFI_IPV4), Capability::unicast(AFI_IPV6)];
    all.extend(four_octet_as.then_some(Capability::FourOctetAs(Asn(asn))));
    all
}

/// The prefix that a feed announces last.
fn sentinel(number: u8) -> String {
    format!("192.0.2.{number}/32")
}

/// A router's sessions.
struct Sessions {
    feeds: Vec<Speaker>,
    /// The ends of feeds' sessions: an UPDATE was so malformed that the router ended the session.
    ended: Vec<Option<End>>,
    receivers: Vec<Speaker>,
}

impl Sessions {
    fn open(lab: &RouterLab, router: &str, feeds: &[Feed]) -> Sessions {
        let feed = |(number, feed): (u8, &Feed)| {
            let between = (feed::address(number), Ipv4Addr::new(10, 1, 0, 1));
            let capabilities = capabilities(feed.asn.0, feed.four_octet_as);
            Speaker::connect_as(lab, &format!("feeds-{router}"), between, feed.asn, &capabilities)
        };
        let receiver = |(_, host, asn, four_octet_as): &(&str, u8, u32, bool)| {
            let between = (Ipv4Addr::new(10, 2, 0, *host), Ipv4Addr::new(10, 2, 0, 1));
            let capabilities = capabilities(*asn, *four_octet_as);
            Speaker::connect_as(lab, &format!("receivers-{router}"), between, Asn(*asn), &capabilities)
        };
        Sessions {
            feeds: (0_u8..).zip(feeds).map(feed).collect(),
            ended: feeds.iter().map(|_| None).collect(),
            receivers: RECEIVERS.iter().map(receiver).collect(),
        }
    }

    /// Reads what the router sends, until it sends nothing for so long; returns the number of messages.
    fn drain(&mut self, quiet: Duration) -> usize {
        for (feed, ended) in self.feeds.iter_mut().zip(&mut self.ended).filter(|(_, ended)| ended.is_none()) {
            *ended = feed.drain(Duration::from_millis(1)).err();
        }
        self.receivers.iter_mut().map(|receiver| receiver.drain(quiet).unwrap()).sum()
    }

    /// Returns the numbers of feeds whose session ended.
    fn ended(&self) -> Vec<usize> {
        (0..self.ended.len()).filter(|number| self.ended[*number].is_some()).collect()
    }

    fn have_all(&self) -> bool {
        let has_all = |receiver: &Speaker| {
            let mut alive = (0_u8..).zip(&self.ended).filter(|(_, ended)| ended.is_none());
            alive.all(|(number, _)| receiver.routes.contains_key(&sentinel(number)))
        };
        self.receivers.iter().all(has_all)
    }
}

/// Feeds both routers, and returns the differences between what they send.
fn differences(feeds: &[Feed], program: &Path) -> Differences {
    let lab = RouterLab::up(&topology(feeds), program);
    lab.until("the router is ready", RouterLab::ready);
    let mut both = ["sluice", "bird"].map(|router| Sessions::open(&lab, router, feeds));
    for (number, feed) in (0_u8..).zip(feeds) {
        let mut last: Vec<Attr> = base(&[feed.asn.0], feed::address(number));
        if !feed.four_octet_as {
            let [_, _, high, low] = feed.asn.0.to_be_bytes();
            last[1].2 = vec![2, 1, high, low];
        }
        let last = message(MessageType::Update, &announcement(&last, &nlri(&[&sentinel(number)])));
        let messages: Vec<Vec<u8>> = feed.messages(number).chain([last]).collect();
        for some in messages.chunks(AT_ONCE) {
            for sessions in &mut both {
                sessions.feeds[usize::from(number)].send(&some.concat());
                // A router whose neighbors read nothing may read less.
                sessions.drain(Duration::from_millis(1));
            }
        }
    }
    let begin = Instant::now();
    let mut patience = PATIENCE;
    loop {
        let came: usize = both.iter_mut().map(|sessions| sessions.drain(QUIET)).sum();
        let in_time = begin.elapsed() < patience;
        if in_time && (came > 0 || !both.iter().all(Sessions::have_all)) {
            continue;
        }
        let mut found = Differences::new();
        for (place, (name, ..)) in RECEIVERS.iter().enumerate() {
            let [sluice, bird]: [&AdjRibOut; 2] = [&both[0], &both[1]].map(|s| &s.receivers[place].routes);
            compare(name, sluice, bird, &mut found);
        }
        if !found.contains_key(&Kind::Unknown) || !in_time {
            let counts: Vec<usize> =
                both.iter().flat_map(|s| &s.receivers).map(|receiver| receiver.routes.len()).collect();
            println!("{} feeds; prefixes sent by Sluice and by BIRD: {counts:?}", feeds.len());
            assert!(both.iter().all(Sessions::have_all), "never sent all");
            let [sluice, bird] = [&both[0], &both[1]];
            // Where a session cannot go on, it ends at both.
            assert_eq!(sluice.ended(), bird.ended(), "{:?} {:?}", sluice.ended, bird.ended);
            println!("sessions ended: {:?} {:?}", sluice.ended, bird.ended);
            return found;
        }
        // A slow router may have more to send.
        patience = patience.min(begin.elapsed() + Duration::from_secs(5));
    }
}

/// Checks that both routers send the same of a trace, but for differences with a reason.
fn check(name: &str, most_feeds: usize, most_updates: usize, program: &Path) {
    let Some(trace) = sluice_testkit::read(name) else { return };
    let feeds = feeds(&trace, most_feeds, most_updates);
    assert!(!feeds.is_empty(), "{name}");
    let found = differences(&feeds, program);
    for (kind, (count, example)) in &found {
        println!("{name}: {} routes differ: {}, such as {example}", count, kind.name());
    }
    assert!(!found.contains_key(&Kind::Unknown), "{name}: {found:?}");
}

#[test]
fn neighbors_receive_the_same_of_tables_and_traces() {
    let _share = share();
    if !possible() {
        return;
    }
    check("data/bgp/rib/rv2.rib.20140523.0600.first9072.mrt.xz", 4, 600, Path::new(SLUICE));
    check("data/bgp/updates/rrc01.updates.20241001.0055.gz", 4, 600, Path::new(SLUICE));
}

#[test]
fn every_kind_of_difference_is_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/same-octets.md")).unwrap();
    for kind in Kind::ALL {
        assert!(page.contains(&format!("| {} |", kind.name())), "{kind:?}");
    }
}
