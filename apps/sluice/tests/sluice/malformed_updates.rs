//! Malformed UPDATEs on the wire (RFC 7606): every case of the shared vectors, attributes newer than the vectors, long messages,
//! broken framing, and random mutations, sent by a scripted speaker. Other neighbors keep their sessions and their routes.

use crate::SLUICE;
use sluice_base::rng::Rng;
use sluice_bgpsim::wire::attribute::code;
use sluice_bgpsim::wire::{Capability, MessageType};
use sluice_router_lab::speaker::{
    Attr, Change, End, Route, Speaker, announcement, base, message, nlri, usual, value,
};
use sluice_router_lab::{RouterLab, possible, share};
use std::net::Ipv4Addr;
use std::path::Path;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The observers outside and inside of the AS 65001, each with a route of its own.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const STEADY: [&str; 2] = ["203.0.113.0/24", "203.0.112.0/24"];

/// Each session of the attackers has an address of its own, so that no session waits for the one before: 10.0.16.0/20 are
/// external, 10.0.32.0/20 internal, which are offered no
/// long messages.
const TOPOLOGY: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { bgp {
    local-as 65001; router-id 10.0.0.1; default-policy accept;
    group outside;
    group inside { extended-messages false; }
    listen-range 10.0.16.0/20 { group outside; peer-as 65002; limit 5000; }
    listen-range 10.0.32.0/20 { group inside; peer-as 65001; limit 5000; }
    neighbor 10.0.0.2 { peer-as 65003; passive; }
    neighbor 10.0.0.3 { peer-as 65001; passive; }
} }
'''
[nodes.speakers]
routes = ['local 10.0.16.0/20 dev lo', 'local 10.0.32.0/20 dev lo']
[[links]]
a = 'sluice:lan'
b = 'speakers:lan'
a_addresses = ['10.0.0.1/16']
b_addresses = ['10.0.0.2/16', '10.0.0.3/16']
";

/// A router, its observers, and the attackers' sessions.
struct Bench {
    lab: RouterLab,
    outside: Speaker,
    inside: Speaker,
    process: u64,
    /// The number of sessions of the attackers so far, and the number of the last mark.
    sessions: u32,
    marks: u32,
}

/// The side of the AS on which an attacker is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    External,
    Internal,
}

impl Side {
    /// The prefix whose changes show that a session is up.
    const fn mark(self) -> &'static str {
        if matches!(self, Side::External) { "100.64.0.0/24" } else { "100.64.1.0/24" }
    }
}

/// A session of an attacker.
struct Attacker {
    speaker: Speaker,
    side: Side,
    address: Ipv4Addr,
}

/// The fate of a route or of the session, as seen from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    /// The observer has a new version of the route.
    Route(Route),
    /// The observer's route was withdrawn, and the session goes on.
    Withdraw,
    /// The session ended with this NOTIFICATION.
    Reset(u8, u8),
}

impl Bench {
    fn up() -> Bench {
        Self::up_with(Path::new(SLUICE))
    }

    fn up_with(program: &Path) -> Bench {
        let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), program);
        let mut outside = Speaker::connect(&lab, "speakers", OUTSIDE, ROUTER, &usual(65003));
        let mut inside = Speaker::connect(&lab, "speakers", INSIDE, ROUTER, &usual(65001));
        outside.announce(&base(&[65003], OUTSIDE), &STEADY[..1]);
        inside.announce(&base(&[], INSIDE), &STEADY[1..]);
        inside.until("the route of outside", |routes| routes.contains_key(STEADY[0]));
        outside.until("the route of inside", |routes| routes.contains_key(STEADY[1]));
        let process = lab.pid("bgp").unwrap();
        Bench { lab, outside, inside, process, sessions: 0, marks: 0 }
    }

    /// Opens a session of an attacker, and waits until a route of the session passes through the router.
    fn attacker(&mut self, side: Side, more: &[Capability]) -> Attacker {
        self.sessions += 1;
        let n = self.sessions % 4000 + 1;
        let (first, asn) = match side {
            Side::External => (Ipv4Addr::new(10, 0, 16, 0), 65002),
            Side::Internal => (Ipv4Addr::new(10, 0, 32, 0), 65001),
        };
        let address = Ipv4Addr::from_bits(first.to_bits() + n);
        let capabilities = [usual(asn), more.to_vec()].concat();
        let speaker = Speaker::connect(&self.lab, "speakers", address, ROUTER, &capabilities);
        let mut attacker = Attacker { speaker, side, address };
        assert!(self.is_up(&mut attacker));
        attacker
    }

    /// Returns the observer that sees the routes of an attacker with the most attributes: the one on the other side of the AS.
    fn observer(&mut self, side: Side) -> &mut Speaker {
        if side == Side::External { &mut self.inside } else { &mut self.outside }
    }

    /// Returns true if routes of an attacker still reach the observer, false if the router ended the session.
    fn is_up(&mut self, attacker: &mut Attacker) -> bool {
        self.marks += 1;
        let mark = self.marks.to_be_bytes().to_vec();
        let mut attributes = attacker.base();
        attributes.push(Attr(0xc0, code::LARGE_COMMUNITY, [mark.clone(), vec![0; 8]].concat()));
        attacker.speaker.announce(&attributes, &[attacker.side.mark()]);
        loop {
            match self.observer(attacker.side).next_change(attacker.side.mark()).unwrap() {
                Change::Withdrawn => return false,
                Change::Announced(route) => {
                    if value(&route, code::LARGE_COMMUNITY).is_some_and(|all| all[..4] == mark) {
                        return true;
                    }
                }
            }
        }
    }

    /// Announces a route to `prefix`, then sends `octets`, which replace the route in some way; returns the outcome.
    fn outcome(&mut self, attacker: &mut Attacker, prefix: &str, octets: &[u8]) -> Outcome {
        attacker.speaker.announce(&attacker.base(), &[prefix]);
        let first = self.observer(attacker.side).next_change(prefix).unwrap();
        assert!(matches!(first, Change::Announced(_)), "{first:?}");
        attacker.speaker.send(octets);
        match self.observer(attacker.side).next_change(prefix).unwrap() {
            Change::Announced(route) => {
                assert!(self.is_up(attacker));
                Outcome::Route(route)
            }
            Change::Withdrawn if self.is_up(attacker) => Outcome::Withdraw,
            Change::Withdrawn => match attacker.speaker.end() {
                End::Notification(n) => Outcome::Reset(n.code, n.subcode),
                other => panic!("no NOTIFICATION came: {other:?}"),
            },
        }
    }

    /// Asserts that the attackers have changed nothing of the process and of the observers.
    fn assert_unharmed(&mut self) {
        for observer in [OUTSIDE, INSIDE] {
            let neighbor = self.lab.neighbor(&observer.to_string());
            assert_eq!(neighbor["state"], "Established", "{observer}");
            assert_eq!(sluice_load::wide(&neighbor["flaps"]), Some(0), "{observer}");
            assert_eq!(self.lab.received(&observer.to_string()).v4, 1);
        }
        for (observer, prefix) in [(&self.inside, STEADY[0]), (&self.outside, STEADY[1])] {
            assert!(observer.routes.contains_key(prefix) && !observer.withdrawals.contains_key(prefix));
        }
        assert_eq!(self.lab.pid("bgp"), Some(self.process));
        assert_eq!(self.lab.restarts(), 0);
    }
}

impl Attacker {
    /// The mandatory attributes of a route of the attacker.
    fn base(&self) -> Route {
        base(if self.side == Side::External { &[65002] } else { &[] }, self.address)
    }

    /// Asserts that the router counted the outcomes of the session; returns the attributes that it discarded. An attribute that an
    /// external neighbor may not send is left out without an error.
    fn assert_counted(&self, lab: &RouterLab, withdrawn: u64, discarded: u64) -> u64 {
        assert_eq!(self.counter(lab, "treated_as_withdraw"), withdrawn);
        let counted = self.counter(lab, "attribute_discards");
        assert!(counted <= discarded, "{counted} of {discarded}");
        counted
    }

    fn counter(&self, lab: &RouterLab, name: &str) -> u64 {
        sluice_load::wide(&lab.neighbor(&self.address.to_string())[name]).unwrap()
    }
}

/// A community that distinguishes the second version of a route from the first.
fn second() -> Attr {
    Attr(0xc0, code::COMMUNITIES, vec![0xfd, 0xea, 0, 2])
}

/// Reads `0a1b` as octets.
fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Returns the UPDATE for a case: the mandatory attributes and a community, one of them replaced by `attr`.
fn with(attacker: &Attacker, attr: Option<Attr>, prefix: &str) -> Vec<u8> {
    let mut attributes = attacker.base();
    attributes.push(second());
    if let Some(attr) = attr {
        attributes.retain(|other| other.1 != attr.1);
        attributes.push(attr);
    }
    message(MessageType::Update, &announcement(&attributes, &nlri(&[prefix])))
}

#[test]
fn each_case_of_rfc_7606_on_the_wire() {
    let _share = share();
    let Some(text) = sluice_testkit::read("data/vectors/bgp-rfc7606-cases.tsv") else { return };
    if !possible() {
        return;
    }
    let text = String::from_utf8(text).unwrap();
    let mut bench = Bench::up();
    for side in [Side::External, Side::Internal] {
        let mut attacker = bench.attacker(side, &[]);
        // Outcomes of the session so far, and cases and counted discards of all sessions.
        let (mut withdrawn, mut discarded, mut cases, mut counted) = (0, 0, 0, 0);
        for (n, line) in text.lines().skip(1).enumerate() {
            let column: Vec<&str> = line.split('\t').collect();
            let expected = column[if side == Side::External { 5 } else { 7 }];
            if expected == "-" {
                continue;
            }
            cases += 1;
            let attr = match column[4].parse::<Ipv4Addr>() {
                Ok(hop) => Attr(0x40, code::NEXT_HOP, hop.octets().to_vec()),
                Err(_) => {
                    let flags = u8::from_str_radix(&column[2][2..], 16).unwrap();
                    Attr(flags, column[1].parse().unwrap(), octets(column[3]))
                }
            };
            let kind = attr.1;
            // Both observers have the external routes: internal ones are to other prefixes.
            let prefix = format!("198.{}.{n}.0/24", if side == Side::External { 18 } else { 19 });
            let octets = with(&attacker, Some(attr), &prefix);
            let what = format!("{}, {side:?}", column[0]);
            if expected == "session-reset" {
                counted += attacker.assert_counted(&bench.lab, withdrawn, discarded);
            }
            match bench.outcome(&mut attacker, &prefix, &octets) {
                Outcome::Route(route) => {
                    assert_eq!(expected, "discard", "{what}: {route:?}");
                    // An attribute that the router does not know is passed on, whatever its value is (RFC 4271, section 5).
                    let is_unknown = matches!(kind, 254 | 39);
                    assert_eq!(value(&route, kind).is_some(), is_unknown, "{what}: {route:?}");
                    discarded += u64::from(!is_unknown);
                }
                Outcome::Withdraw => {
                    assert_eq!(expected, "withdraw", "{what}");
                    withdrawn += 1;
                }
                Outcome::Reset(code, subcode) => {
                    assert_eq!(
                        (expected, column[8]),
                        ("session-reset", &*format!("{code}/{subcode}")),
                        "{what}"
                    );
                    attacker = bench.attacker(side, &[]);
                    (withdrawn, discarded) = (0, 0);
                    continue;
                }
            }
        }
        counted += attacker.assert_counted(&bench.lab, withdrawn, discarded);
        assert!(cases >= 40 && counted > 0, "{side:?}: {cases} cases, {counted} discards");
    }
    bench.assert_unharmed();
}

/// Cases that the shared vectors lack: attribute, and the outcome from an external neighbor.
fn newer() -> Vec<(&'static str, Attr, Expected)> {
    use Expected::{Dropped, Kept, Reset, Withdraw};
    let large = |len: usize| Attr(0xc0, code::LARGE_COMMUNITY, vec![7; len]);
    let tunnels = |value: &[u8]| Attr(0xc0, code::TUNNEL_ENCAPSULATION, value.to_vec());
    vec![
        ("a large community", large(12), Kept),
        ("half a large community", large(18), Withdraw),
        ("large communities, not transitive", Attr(0x80, code::LARGE_COMMUNITY, vec![7; 12]), Withdraw),
        ("ONLY_TO_CUSTOMER", Attr(0xc0, code::ONLY_TO_CUSTOMER, vec![0, 0, 0, 9]), Kept),
        ("ONLY_TO_CUSTOMER, 3 octets", Attr(0xc0, code::ONLY_TO_CUSTOMER, vec![0, 0, 9]), Withdraw),
        ("AIGP, not enabled", Attr(0x80, code::AIGP, octets("01000b0000000000000064")), Dropped),
        ("AIGP, transitive", Attr(0xc0, code::AIGP, octets("01000b0000000000000064")), Dropped),
        ("an extended community", Attr(0xc0, code::EXTENDED_COMMUNITIES, octets("0002fdea00000001")), Kept),
        ("7 octets of an extended community", Attr(0xc0, code::EXTENDED_COMMUNITIES, vec![0; 7]), Withdraw),
        ("an IPv6 extended community", Attr(0xc0, code::IPV6_EXTENDED_COMMUNITIES, vec![1; 20]), Kept),
        ("a Prefix-SID", Attr(0xc0, code::PREFIX_SID, octets("01000700000000000009")), Kept),
        ("a Prefix-SID with a TLV that overruns", Attr(0xc0, code::PREFIX_SID, octets("010007")), Dropped),
        ("a tunnel", tunnels(&octets("0008000406020000")), Kept),
        ("a sub-TLV that overruns", tunnels(&octets("0008000406030000")), Withdraw),
        ("BGP-LS", Attr(0x80, code::BGP_LS, octets("04000001aa")), Dropped),
        ("ATOMIC_AGGREGATE", Attr(0x40, code::ATOMIC_AGGREGATE, vec![]), Kept),
        ("ATOMIC_AGGREGATE with a value", Attr(0x40, code::ATOMIC_AGGREGATE, vec![1]), Dropped),
        ("an unknown transitive attribute", Attr(0xc0, 230, vec![1, 2, 3]), Kept),
        ("an unknown attribute that is not transitive", Attr(0x80, 231, vec![1, 2, 3]), Dropped),
        ("an unknown well-known attribute", Attr(0x40, 232, vec![]), Reset(3, 2)),
        ("the router's own address as next hop", Attr(0x40, code::NEXT_HOP, vec![10, 0, 0, 1]), Withdraw),
        ("a path of another AS", Attr(0x40, code::AS_PATH, octets("02010000fdeb")), Withdraw),
        (
            "a path through the router's AS",
            Attr(0x40, code::AS_PATH, octets("02020000fdea0000fde9")),
            Withdraw,
        ),
        ("an empty path", Attr(0x40, code::AS_PATH, vec![]), Withdraw),
        ("MP_UNREACH_NLRI without a SAFI", Attr(0x80, code::MP_UNREACH_NLRI, vec![0, 2]), Reset(3, 1)),
    ]
}

/// The fate of a route with an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    /// The route passes with the attribute.
    Kept,
    /// The route passes without the attribute.
    Dropped,
    /// The route counts as withdrawn.
    Withdraw,
    /// The session ends with this NOTIFICATION.
    Reset(u8, u8),
}

impl Expected {
    fn of(outcome: Outcome, kind: u8) -> Self {
        match outcome {
            Outcome::Route(route) if value(&route, kind).is_some() => Expected::Kept,
            Outcome::Route(_) => Expected::Dropped,
            Outcome::Withdraw => Expected::Withdraw,
            Outcome::Reset(code, subcode) => Expected::Reset(code, subcode),
        }
    }
}

#[test]
fn attributes_newer_than_the_vectors_long_messages_and_broken_framing() {
    let _share = share();
    if !possible() {
        return;
    }
    let mut bench = Bench::up();
    let mut attacker = bench.attacker(Side::External, &[Capability::ExtendedMessage]);
    for (n, (what, attr, expected)) in newer().into_iter().enumerate() {
        let kind = attr.1;
        let prefix = format!("198.18.{n}.0/24");
        let octets = with(&attacker, Some(attr), &prefix);
        assert_eq!(Expected::of(bench.outcome(&mut attacker, &prefix, &octets), kind), expected, "{what}");
        if matches!(expected, Expected::Reset(..)) {
            attacker = bench.attacker(Side::External, &[Capability::ExtendedMessage]);
        }
    }
    // Mandatory attributes that are missing, and attributes that are repeated.
    let send = |attributes: &[Attr], prefix: &str| {
        message(MessageType::Update, &announcement(attributes, &nlri(&[prefix])))
    };
    for missing in 0..3 {
        let mut attributes = attacker.base();
        attributes.remove(missing);
        let octets = send(&attributes, "198.19.0.0/24");
        assert_eq!(bench.outcome(&mut attacker, "198.19.0.0/24", &octets), Outcome::Withdraw, "{missing}");
    }
    let twice = [attacker.base(), vec![second(), Attr(0xc0, code::COMMUNITIES, vec![0, 1, 0, 1])]].concat();
    let octets = send(&twice, "198.19.1.0/24");
    let Outcome::Route(route) = bench.outcome(&mut attacker, "198.19.1.0/24", &octets) else { panic!() };
    assert_eq!(value(&route, code::COMMUNITIES), Some(&second().2[..]), "the first counts");
    // Messages of more than 4,096 octets, as both sides offered (RFC 8654).
    let long = |len: usize| {
        let large = (0..len.div_ceil(12) as u32).flat_map(|n| [65002, n, 1].map(u32::to_be_bytes)).flatten();
        Attr(0xc0, code::LARGE_COMMUNITY, large.take(len).collect())
    };
    for (len, expected) in [(3600, Expected::Kept), (3605, Expected::Withdraw), (48_005, Expected::Withdraw)]
    {
        let octets = with(&attacker, Some(long(len)), "198.19.2.0/24");
        let outcome = bench.outcome(&mut attacker, "198.19.2.0/24", &octets);
        assert_eq!(Expected::of(outcome, code::LARGE_COMMUNITY), expected, "{len} octets");
    }
    // A long route does not fit in a message to the observer, which has not offered long ones: the observer loses the route.
    let octets = with(&attacker, Some(long(12_000)), "198.19.3.0/24");
    assert_eq!(bench.outcome(&mut attacker, "198.19.3.0/24", &octets), Outcome::Withdraw);
    assert_eq!(
        bench.lab.ask(&["show", "bgp", "routes", "198.19.3.0/24"])["routes"].as_array().map(Vec::len),
        Some(1)
    );
    let framing: [(&[u8], (u8, u8)); 6] = [
        (&[0; 19], (1, 1)),
        (&header(18, 2), (1, 2)),
        (&header(22, 2), (1, 2)),
        (&header(20, 4), (1, 2)),
        (&header(23, 9), (1, 3)),
        (&message(MessageType::Update, &[0, 9, 0, 0]), (3, 1)),
    ];
    for (octets, expected) in framing {
        let outcome = bench.outcome(&mut attacker, "198.19.4.0/24", octets);
        assert_eq!(outcome, Outcome::Reset(expected.0, expected.1), "{octets:?}");
        attacker = bench.attacker(Side::External, &[]);
    }
    let mut attacker = bench.attacker(Side::Internal, &[Capability::ExtendedMessage]);
    let octets = with(&attacker, Some(long(8400)), "198.19.5.0/24");
    assert_eq!(
        bench.outcome(&mut attacker, "198.19.5.0/24", &octets),
        Outcome::Reset(1, 2),
        "the router has not offered that"
    );
    bench.assert_unharmed();
}

/// Returns a header with this length and type.
fn header(len: u16, kind: u8) -> Vec<u8> {
    [&[0xff; 16][..], &len.to_be_bytes(), &[kind]].concat()
}

/// An UPDATE in which mutations begin: attributes of every kind, and the announced IPv4 prefixes.
struct Seed {
    attributes: Route,
    nlri: Vec<u8>,
}

/// Returns a seed with routes of IPv4, and a seed with routes and withdrawals of IPv6.
fn seeds(attacker: &Attacker) -> [Seed; 2] {
    let mut all = attacker.base();
    all.extend([
        Attr(0x80, code::MULTI_EXIT_DISC, vec![0, 0, 0, 5]),
        Attr(0x40, code::ATOMIC_AGGREGATE, vec![]),
        Attr(0xc0, code::AGGREGATOR, octets("0000fdea0a001001")),
        Attr(0xc0, code::COMMUNITIES, octets("fdea0001fdea0002")),
        Attr(0xc0, code::EXTENDED_COMMUNITIES, octets("0002fdea00000001")),
        Attr(0xc0, code::TUNNEL_ENCAPSULATION, octets("0008000406020000")),
        Attr(0xc0, code::LARGE_COMMUNITY, vec![9; 24]),
        Attr(0xc0, code::ONLY_TO_CUSTOMER, octets("0000fdea")),
        Attr(0xc0, code::PREFIX_SID, octets("01000700000000000009")),
        Attr(0xc0, 230, vec![1, 2, 3]),
    ]);
    let hop = "20010db8000000000000000000000009";
    let mut six = all.clone();
    six.remove(2);
    six.push(Attr(0x80, code::MP_REACH_NLRI, octets(&format!("00020110{hop}002020010db83020010db80001"))));
    six.push(Attr(0x80, code::MP_UNREACH_NLRI, octets("0002013020010db80002")));
    let nlri = nlri(&["198.18.0.0/15", "198.18.1.0/24", "198.18.2.128/25"]);
    [Seed { attributes: all, nlri }, Seed { attributes: six, nlri: Vec::new() }]
}

/// Returns an UPDATE's body that differs from a seed in one to four places. In seven of eight the attributes differ, and lengths fit,
/// so that the checks behind the framing are met.
fn mutant(seed: &Seed, rng: &mut Rng) -> Vec<u8> {
    let places = 1 + rng.below(4);
    if rng.below(8) == 0 {
        let mut body = announcement(&seed.attributes, &seed.nlri);
        for _ in 0..places {
            change_octets(&mut body, rng);
        }
        return body;
    }
    let mut attributes = seed.attributes.clone();
    for _ in 0..places {
        let at = rng.below(attributes.len() as u64) as usize;
        match rng.below(8) {
            0 => attributes[at].0 ^= 0x80 >> rng.below(4),
            1 => attributes.swap(0, at),
            2 if attributes.len() > 1 => drop(attributes.remove(at)),
            3 => attributes.push(attributes[at].clone()),
            4 => attributes[at].1 = rng.below(48) as u8,
            _ => change_octets(&mut attributes[at].2, rng),
        }
    }
    announcement(&attributes, &seed.nlri)
}

/// Changes octets at one place: other bits, another value, the order, one less or one more.
fn change_octets(octets: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(octets.len() as u64) as usize;
    match rng.below(8) {
        _ if octets.is_empty() => octets.push(rng.next_u64() as u8),
        0..=2 => octets[at] ^= 1 << rng.below(8),
        3 => octets[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
        4 => octets[at] = rng.next_u64() as u8,
        5 => {
            let end = octets.len().min(at + 1 + rng.below(8) as usize);
            octets[at..end].reverse();
        }
        6 => drop(octets.remove(at)),
        _ => octets.insert(at, rng.next_u64() as u8),
    }
}

#[test]
fn mutated_updates_harm_nobody_else() {
    let _share = share();
    if possible() {
        send_mutants(Path::new(SLUICE), 3000);
    }
}

#[test]
fn many_mutated_updates_harm_nobody_else() {
    let program = sluice_testkit::long!("mutated updates");
    let _share = share();
    if possible() {
        send_mutants(&program, 100_000);
    }
}

/// Sends mutated UPDATEs, half of them from each side.
fn send_mutants(program: &Path, count: u32) {
    let mut bench = Bench::up_with(program);
    let mut rng = Rng::from_seed(7606);
    let (mut resets, mut withdrawn, mut discarded) = (0, 0, 0);
    for side in [Side::External, Side::Internal] {
        let mut attacker = bench.attacker(side, &[Capability::ExtendedMessage]);
        let mut seeds = seeds(&attacker);
        for n in 0..count / 2 {
            let body = mutant(&seeds[rng.below(2) as usize], &mut rng);
            attacker.speaker.update(&body);
            if bench.is_up(&mut attacker) {
                // The counters begin anew with the next session, which makes them worth a look now and then only.
                if n % 25 == 24 {
                    withdrawn += attacker.counter(&bench.lab, "treated_as_withdraw");
                    discarded += attacker.counter(&bench.lab, "attribute_discards");
                }
                continue;
            }
            let end = attacker.speaker.end();
            assert!(
                matches!(&end, End::Notification(n) if n.code == 3),
                "{side:?} {n}: {end:?} after {body:02x?}"
            );
            resets += 1;
            attacker = bench.attacker(side, &[Capability::ExtendedMessage]);
            seeds = self::seeds(&attacker);
        }
    }
    assert!(resets > 0 && withdrawn > 0 && discarded > 0, "{resets} {withdrawn} {discarded}");
    bench.assert_unharmed();
    let log = bench.lab.whole_log();
    assert!(!log.contains("panicked"), "{log}");
}
