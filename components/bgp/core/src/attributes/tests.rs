//! RFC 7606 case by case, canonical forms, and 2-octet neighbors.

use super::*;
use crate::batch::{Batches, Change, DropCause};
use crate::family::FamilyIndex;
use crate::hash::HashSeed;
use crate::reader::Reader;
use crate::relationship::Relationship;
use crate::table::Spread;
use crate::wire::attribute::{Flags, code, put_header};
use crate::wire::{Notification, notification};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use sluice_base::{Ipv4Prefix, Ipv6Prefix, Provenance};

const OWN_ID: RouterId = RouterId(0x0a00_0001);

fn rules(internal: bool, four_octet_as: bool) -> ReceiveRules {
    let peer_as = if internal { Asn(65001) } else { Asn(65002) };
    let rules = ReceiveRules::new(Asn(65001), OWN_ID, peer_as, "10.0.0.1".parse().unwrap());
    ReceiveRules { four_octet_as, ..rules }
}

/// Codes and values of the attributes behind AS_PATH, and the allowed reach of the route.
type Kept = (Vec<(u8, Vec<u8>)>, Reach);

/// Returns the stored attributes of a route with `extra` from a neighbor of this relationship; `None` if the route is a leak.
fn related(relationship: Relationship, extra: &[Attr<'_>]) -> Option<Kept> {
    let rules = ReceiveRules { relationship: Some(relationship), ..rules(false, true) };
    let mut attributes = base(false);
    attributes.extend(extra.iter().map(|Attr(flags, code, value)| Attr(*flags, *code, value)));
    let (result, batches) = read(&update(&attributes), rules);
    assert!(result.is_ok());
    let set = batches.of::<Ipv4Prefix>().sets().first()?;
    let added =
        canonical::attributes(batches.of::<Ipv4Prefix>().octets(set)).filter(|a| a.code > code::AS_PATH);
    Some((added.map(|a| (a.code, a.value.to_vec())).collect(), set.view.reach))
}

/// The set is unchanged: the rules of BGP change the routes of a neighbor on import ([`crate::policy::Ingress`]).
#[test]
fn nothing_is_stored_that_did_not_come() {
    let mark = |asn: &'static [u8; 4]| Attr(0xc0, code::ONLY_TO_CUSTOMER, asn);
    let (peers, anothers) = (&[0, 0, 0xfd, 0xea], &[0, 0, 0, 7]);
    let draining = || Attr(0xc0, code::COMMUNITIES, &[0xff, 0xff, 0, 0]);
    let communities = (code::COMMUNITIES, vec![0xff, 0xff, 0, 0]);
    for relationship in [Relationship::Customer, Relationship::Peer, Relationship::Provider] {
        let found = related(relationship, &[draining()]);
        assert_eq!(found, Some((vec![communities.clone()], Reach::Everybody)), "{relationship:?}");
    }
    let kept = |asn: &[u8; 4]| Some((vec![(code::ONLY_TO_CUSTOMER, asn.to_vec())], Reach::Customers));
    assert_eq!(related(Relationship::Peer, &[mark(peers)]), kept(peers));
    assert_eq!(related(Relationship::Provider, &[mark(anothers)]), kept(anothers));
    // Leaks.
    assert_eq!(related(Relationship::Customer, &[mark(peers)]), None);
    assert_eq!(related(Relationship::Peer, &[mark(anothers)]), None);
    assert_eq!(related(Relationship::RouteServerClient, &[mark(peers)]), None);
    // A community may bound the reach more; a mark never less.
    let no_export = || Attr(0xc0, code::COMMUNITIES, &[0xff, 0xff, 0xff, 1]);
    let found = related(Relationship::Provider, &[no_export(), mark(anothers)]).map(|(_, reach)| reach);
    assert_eq!(found, Some(Reach::OwnAs));
}

struct Attr<'a>(u8, u8, &'a [u8]);

/// An UPDATE body of `attributes` that announces 192.0.2.0/24.
fn update(attributes: &[Attr<'_>]) -> Vec<u8> {
    let mut field = vec![];
    for Attr(flags, code, value) in attributes {
        put_header(&mut field, *flags, *code, value.len());
        field.extend_from_slice(value);
    }
    let mut body = vec![0, 0];
    body.extend_from_slice(&(field.len() as u16).to_be_bytes());
    body.extend_from_slice(&field);
    body.extend_from_slice(&[24, 192, 0, 2]);
    body
}

/// The mandatory attributes of a route of AS 65002, or of a route of this AS.
fn base(internal: bool) -> Vec<Attr<'static>> {
    let path: &[u8] = if internal { &[] } else { &[2, 1, 0, 0, 0xfd, 0xea] };
    vec![
        Attr(0x40, code::ORIGIN, &[0]),
        Attr(0x40, code::AS_PATH, path),
        Attr(0x40, code::NEXT_HOP, &[10, 0, 0, 2]),
    ]
}

fn read(body: &[u8], rules: ReceiveRules) -> (Result<crate::reader::Remarks, Notification>, Batches) {
    let mut batches = Batches::default();
    let mut reader = Reader::new(rules, Spread::new(HashSeed(1), 1));
    (reader.update(body, Provenance::new(1, 1), core::slice::from_mut(&mut batches)), batches)
}

/// Returns the treatment of the route and of the attribute `watched`.
fn outcome(attributes: &[Attr<'_>], rules: ReceiveRules, watched: u8) -> (String, bool) {
    let (result, batches) = read(&update(attributes), rules);
    match result {
        Err(n) => (format!("session-reset {}/{}", n.code, n.subcode), false),
        Ok(_) => match batches.of::<Ipv4Prefix>().changes() {
            [change] if change.is_withdrawal() => ("withdraw".into(), false),
            [change] => {
                let set = &batches.of::<Ipv4Prefix>().sets()[change.set as usize];
                let there = canonical::find(batches.of::<Ipv4Prefix>().octets(set), watched).is_some();
                ("route".into(), there)
            }
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn rfc_7606_cases() {
    let Some(text) = sluice_testkit::read("data/vectors/bgp-rfc7606-cases.tsv") else { return };
    let text = String::from_utf8(text).unwrap();
    let mut cases = 0;
    for line in text.lines().skip(1) {
        let column: Vec<&str> = line.split('\t').collect();
        let (name, hex, next_hop) = (column[0], column[3], column[4]);
        let value: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        for (internal, expected) in [(false, column[5]), (true, column[7])] {
            if expected == "-" {
                continue;
            }
            let mut attributes = base(internal);
            let mut kind = 0;
            if next_hop.is_empty() {
                kind = column[1].parse().unwrap();
                let flags = u8::from_str_radix(&column[2][2..], 16).unwrap();
                attributes.retain(|a| a.1 != kind);
                attributes.push(Attr(flags, kind, &value));
            }
            let octets;
            if let Ok(hop) = next_hop.parse::<core::net::Ipv4Addr>() {
                octets = hop.octets();
                attributes[2] = Attr(0x40, code::NEXT_HOP, &octets);
            }
            let (got, there) = outcome(&attributes, rules(internal, true), kind);
            let expected = match expected {
                "discard" => "route".into(),
                "session-reset" => format!("session-reset {}", column[8]),
                other => String::from(other),
            };
            assert_eq!(got, expected, "{name}, internal: {internal}");
            // An attribute that nobody knows is passed on whatever is in it (RFC 4271, section 5).
            let unknown = matches!(kind, 254 | 39);
            assert_eq!(there, unknown, "{name}, internal: {internal}");
        }
        cases += 1;
    }
    assert_eq!(cases, 44);
}

#[test]
fn more_malformed_updates() {
    let external = rules(false, true);
    let check = |attributes: &[Attr<'_>], expected: &str| {
        assert_eq!(outcome(attributes, external, 0).0, expected);
    };
    let with = |extra: Attr<'static>| {
        let mut attributes = base(false);
        attributes.push(extra);
        attributes
    };
    check(&base(false), "route");
    for missing in 0..3 {
        let mut attributes = base(false);
        attributes.remove(missing);
        check(&attributes, "withdraw");
    }
    check(&with(Attr(0x40, code::ORIGIN, &[2])), "route");
    check(&with(Attr(0x40, 77, &[])), "session-reset 3/2");
    // A TLV that runs over the end: a Prefix-SID is left out, with tunnels the route goes (RFC 8669 and RFC 9012).
    let with_sid = |value: &'static [u8]| {
        outcome(&with(Attr(0xc0, code::PREFIX_SID, value)), external, code::PREFIX_SID)
    };
    assert_eq!(with_sid(&[1, 0, 7, 0, 0, 0, 0, 0, 0, 9]), ("route".into(), true));
    assert_eq!(with_sid(&[1, 0, 7]), ("route".into(), false));
    let tunnels = |value: &'static [u8]| with(Attr(0xc0, code::TUNNEL_ENCAPSULATION, value));
    check(&tunnels(&[0, 8, 0, 4, 6, 2, 0, 0]), "route");
    check(&tunnels(&[0, 8, 0, 9]), "withdraw");
    check(&tunnels(&[0, 8, 0, 4, 6, 3, 0, 0]), "withdraw");
    // The path must begin with the peer's AS; one with this AS in it loops.
    let mut attributes = base(false);
    attributes[1] = Attr(0x40, code::AS_PATH, &[2, 1, 0, 0, 0xfd, 0xeb]);
    check(&attributes, "withdraw");
    attributes[1] = Attr(0x40, code::AS_PATH, &[2, 2, 0, 0, 0xfd, 0xea, 0, 0, 0xfd, 0xe9]);
    check(&attributes, "withdraw");
    attributes = base(false);
    attributes[2] = Attr(0x40, code::NEXT_HOP, &[10, 0, 0, 1]);
    check(&attributes, "withdraw");
    // Routes of a family without its own field are withdrawn too if the flags are wrong (RFC 7606, section 3 c).
    let withdrawn = |attributes: &[Attr<'_>]| {
        let mut body = update(attributes);
        body.truncate(body.len() - 4);
        let (result, batches) = read(&body, external);
        result.map(|_| batches.of::<Ipv6Prefix>().changes().to_vec())
    };
    let change = |set| Change { prefix: "2001:db8::/32".parse::<Ipv6Prefix>().unwrap(), set };
    let withdrawal = change(Change::<Ipv6Prefix>::WITHDRAWN);
    let dropped = change(Change::<Ipv6Prefix>::dropped(DropCause::Malformed));
    let mut reach = vec![0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0];
    reach.extend_from_slice(&[32, 0x20, 1, 0xd, 0xb8]);
    let (origin, path) =
        (Attr(0x40, code::ORIGIN, &[0]), Attr(0x40, code::AS_PATH, &[2, 1, 0, 0, 0xfd, 0xea]));
    let announced = [Attr(0xc0, code::MP_REACH_NLRI, &reach), origin, path];
    assert_eq!(withdrawn(&announced), Ok(vec![dropped]));
    let unreach = [0, 2, 1, 32, 0x20, 1, 0xd, 0xb8];
    assert_eq!(withdrawn(&[Attr(0xc0, code::MP_UNREACH_NLRI, &unreach)]), Ok(vec![withdrawal]));
    let with_origin = [Attr(0xc0, code::MP_UNREACH_NLRI, &unreach), Attr(0x40, code::ORIGIN, &[0])];
    assert_eq!(withdrawn(&with_origin).map_err(|n| n.subcode), Err(1), "routes may have been overlooked");
    let unreach = [0, 2, 1];
    let twice = [Attr(0x80, code::MP_UNREACH_NLRI, &unreach), Attr(0x80, code::MP_UNREACH_NLRI, &unreach)];
    check(&twice, "session-reset 3/1");
}

#[test]
fn what_does_not_fit_is_a_withdrawal_and_bad_prefixes_a_reset() {
    let mut body = update(&base(false));
    // The last attribute claims one octet more than there is before the NLRI.
    let at = body.len() - 4 - 5;
    assert_eq!(body[at], 4);
    body[at] = 5;
    let (result, batches) = read(&body, rules(false, true));
    assert!(result.unwrap().malformed.unwrap().1);
    assert_eq!(batches.of::<Ipv4Prefix>().changes()[0].drop_cause(), Some(DropCause::Malformed));

    let mut body = update(&base(false));
    let at = body.len() - 4;
    body[at] = 33;
    let (result, batches) = read(&body, rules(false, true));
    let expected = Notification { code: 3, subcode: notification::update::NETWORK, data: vec![33] };
    assert_eq!(result, Err(expected));
    assert!(batches.is_empty() && batches.of::<Ipv4Prefix>().sets().is_empty());

    // RFC 7606, section 5.2: an error that calls for a withdrawal, and nothing to withdraw.
    let mut body = update(&[Attr(0x40, code::ORIGIN, &[7])]);
    body.truncate(body.len() - 4);
    assert_eq!(read(&body, rules(false, true)).0.unwrap_err().subcode, 1);
    // Too long a section.
    assert_eq!(read(&[0, 9, 0, 0], rules(false, true)).0.unwrap_err().subcode, 1);
}

#[test]
fn large_communities_are_kept_once() {
    let community = |n: u8| [0, 0, 0xfd, 0xea, 0, 0, 0, 0, 0, 0, 0, n];
    let check = |received: &[u8], expected: &[u8]| {
        let of = |all: &[u8]| all.iter().flat_map(|n| community(*n)).collect::<Vec<u8>>();
        let (received, expected) = (of(received), of(expected));
        let mut attributes = base(false);
        attributes.push(Attr(0xc0, code::LARGE_COMMUNITY, &received));
        let (result, batches) = read(&update(&attributes), rules(false, true));
        assert_eq!(result.unwrap().malformed, None, "RFC 8092, section 6: duplicates are no error");
        let octets = batches.of::<Ipv4Prefix>().octets(&batches.of::<Ipv4Prefix>().sets()[0]);
        assert_eq!(canonical::find(octets, code::LARGE_COMMUNITY), Some(&expected[..]));
    };
    check(&[3], &[3]);
    check(&[3, 1, 2], &[3, 1, 2]);
    check(&[3, 1, 3, 2, 1, 1], &[3, 1, 2]);
    let many: Vec<u8> = (0..100).collect();
    check(&[&many[..], &many[..]].concat(), &many);
}

#[test]
fn a_route_that_was_reflected_back_is_ignored() {
    let check = |internal: bool, extra: &[Attr<'static>], expected: &str, loops: u64| {
        let mut attributes = base(internal);
        attributes.extend(extra.iter().map(|Attr(flags, code, value)| Attr(*flags, *code, value)));
        let mut batches = Batches::default();
        let mut reader = Reader::new(rules(internal, true), Spread::new(HashSeed(1), 1));
        let remarks = reader
            .update(&update(&attributes), Provenance::NONE, core::slice::from_mut(&mut batches))
            .unwrap();
        let change = batches.of::<Ipv4Prefix>().changes()[0];
        let got = if change.is_withdrawal() { "withdraw" } else { "route" };
        assert_eq!(change.drop_cause(), (got == "withdraw").then_some(DropCause::Reflected));
        assert_eq!((got, reader.counters.loops), (expected, loops));
        assert!(!internal || remarks.malformed.is_none(), "nobody is to blame");
        batches
    };
    const OWN: &[u8] = &[10, 0, 0, 1];
    let originator = |id: &'static [u8]| Attr(0x80, code::ORIGINATOR_ID, id);
    let clusters = |list: &'static [u8]| Attr(0x80, code::CLUSTER_LIST, list);
    check(true, &[originator(OWN)], "withdraw", 1);
    check(true, &[originator(&[10, 0, 0, 7]), clusters(&[10, 0, 0, 9, 10, 0, 0, 1])], "withdraw", 1);
    // Identifiers begin every four octets.
    check(true, &[clusters(&[0, 0, 10, 0, 0, 1, 0, 0])], "route", 0);
    let batches =
        check(true, &[originator(&[10, 0, 0, 7]), clusters(&[10, 0, 0, 9, 10, 0, 0, 8])], "route", 0);
    let view = batches.of::<Ipv4Prefix>().sets()[0].view;
    assert_eq!((view.compared_id(RouterId(3)), view.cluster_list_length), (RouterId(0x0a00_0007), 2));
    // From outside both mean nothing (RFC 7606, sections 7.9 and 7.10).
    let batches = check(false, &[originator(OWN), clusters(OWN)], "route", 0);
    let view = batches.of::<Ipv4Prefix>().sets()[0].view;
    assert_eq!((view.compared_id(RouterId(3)), view.cluster_list_length), (RouterId(3), 0));
}

#[test]
fn the_set_is_canonical() {
    let mut attributes = base(true);
    attributes.insert(0, Attr(0xd0, 200, &[1, 2, 3]));
    attributes.insert(0, Attr(0x80, 201, &[9]));
    attributes.push(Attr(0x80, code::MULTI_EXIT_DISC, &[0, 0, 0, 7]));
    attributes.insert(0, Attr(0x40, code::LOCAL_PREF, &[0, 0, 1, 0]));
    let body = update(&attributes);
    let (result, batches) = read(&body, rules(true, true));
    assert_eq!(result.unwrap().malformed, None);
    let set = &batches.of::<Ipv4Prefix>().sets()[0];
    let codes: Vec<(u8, u8)> =
        canonical::attributes(batches.of::<Ipv4Prefix>().octets(set)).map(|a| (a.code, a.flags.0)).collect();
    // The unknown transitive one is Partial now, the unknown non-transitive one and NEXT_HOP are gone.
    assert_eq!(codes, [(1, 0x40), (2, 0x40), (4, 0x80), (5, 0x40), (200, Flags::PARTIAL | 0xc0)]);
    assert_eq!(set.next_hop.address.ip(), Some("10.0.0.2".parse().unwrap()));
    let expected = View {
        local_pref: 256,
        med: Some(7),
        neighbor_as: Asn(65001),
        path_length: 0,
        origin: Origin::Igp,
        reach: Reach::Everybody,
        originator_id: None,
        cluster_list_length: 0,
        weight: 0,
    };
    assert_eq!(set.view, expected);
}

#[test]
fn an_old_neighbor_s_path_and_aggregator_are_made_whole() {
    let check = |aggregator: &[u8], as4: Option<&[u8]>, path: &[u8], expected: &[u8]| {
        let mut attributes = base(false);
        attributes[1] = Attr(0x40, code::AS_PATH, &[2, 2, 0xfd, 0xea, 0x5b, 0xa0]);
        attributes.push(Attr(0xc0, code::AGGREGATOR, aggregator));
        attributes.push(Attr(0xc0, code::AS4_PATH, &[2, 1, 0, 1, 0x11, 0x70]));
        if let Some(as4) = as4 {
            attributes.push(Attr(0xc0, code::AS4_AGGREGATOR, as4));
        }
        let (result, batches) = read(&update(&attributes), rules(false, false));
        assert_eq!(result.unwrap().malformed, None);
        let octets = batches.of::<Ipv4Prefix>().octets(&batches.of::<Ipv4Prefix>().sets()[0]);
        assert_eq!(canonical::find(octets, code::AS_PATH).unwrap(), path);
        assert_eq!(canonical::find(octets, code::AGGREGATOR).unwrap(), expected);
        assert_eq!(canonical::find(octets, code::AS4_PATH), None);
        assert_eq!(batches.of::<Ipv4Prefix>().sets()[0].view.path_length, 2);
    };
    let merged = [2, 1, 0, 0, 0xfd, 0xea, 2, 1, 0, 1, 0x11, 0x70];
    let widened = [2, 2, 0, 0, 0xfd, 0xea, 0, 0, 0x5b, 0xa0];
    let as4 = [0, 1, 0x11, 0x70, 10, 0, 0, 9];
    check(&[0x5b, 0xa0, 10, 0, 0, 9], Some(&as4), &merged, &as4);
    check(&[0, 7, 10, 0, 0, 9], None, &merged, &[0, 0, 0, 7, 10, 0, 0, 9]);
    // The last aggregator was an old speaker: what the new one before it said no longer holds.
    check(&[0, 7, 10, 0, 0, 9], Some(&as4), &widened, &[0, 0, 0, 7, 10, 0, 0, 9]);
}

#[test]
fn an_as4_path_is_merged_without_its_confederations() {
    let mut attributes = base(false);
    attributes[1] = Attr(0x40, code::AS_PATH, &[2, 2, 0xfd, 0xea, 0x5b, 0xa0]);
    let confederation = [3, 1, 0, 0, 0xfc, 0];
    let as4_path = [&confederation[..], &[2, 1, 0, 1, 0x11, 0x70]].concat();
    attributes.push(Attr(0xc0, code::AS4_PATH, &as4_path));
    let (result, batches) = read(&update(&attributes), rules(false, false));
    let problem = AttributeError { code: code::AS4_PATH, problem: Problem::Confederation };
    assert_eq!(result.unwrap().malformed, Some((problem, false)));
    let octets = batches.of::<Ipv4Prefix>().octets(&batches.of::<Ipv4Prefix>().sets()[0]);
    let merged = [2, 1, 0, 0, 0xfd, 0xea, 2, 1, 0, 1, 0x11, 0x70];
    assert_eq!(canonical::find(octets, code::AS_PATH).unwrap(), merged);
}

#[test]
fn end_of_rib_markers() {
    let of = |body: &[u8]| read(body, rules(false, true)).0.unwrap().end_of_rib;
    assert_eq!(of(&[0, 0, 0, 0]), Some(FamilyIndex::IPV4));
    assert_eq!(of(&[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]), Some(FamilyIndex::IPV6));
    assert_eq!(of(&[0, 2, 8, 10, 0, 0]), None);
}
