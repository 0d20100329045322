//! The routes of a prefix that two routers send a neighbor, compared: each difference has a kind with a reason.

use sluice_bgpsim::wire::attribute::code;
use sluice_bgpsim::wire::is_routable;
use sluice_router_lab::speaker::{Attr, Route};
use std::collections::BTreeMap;

/// The routes that a router sent a neighbor, by prefix.
pub type AdjRibOut = BTreeMap<String, Route>;

/// A kind of difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Equal communities in a different order.
    CommunityOrder,
    /// A route with GRACEFUL_SHUTDOWN (RFC 8326) has the lowest LOCAL_PREF at Sluice alone.
    GracefulShutdown,
    /// AS 0 (RFC 7607): Sluice takes no route with AS 0 in AS_PATH, and no AGGREGATOR of AS 0.
    AsZero,
    /// A prefix of no host, of the host itself or of a group, which Sluice ignores.
    NotRoutable,
    /// No kind: a bug of one of the routers, or of this test.
    Unknown,
}

/// GRACEFUL_SHUTDOWN (RFC 8326, section 3).
const GRACEFUL_SHUTDOWN: [u8; 4] = [0xff, 0xff, 0, 0];

impl Kind {
    /// The kinds with a reason.
    pub const ALL: [Kind; 4] =
        [Kind::CommunityOrder, Kind::GracefulShutdown, Kind::AsZero, Kind::NotRoutable];

    /// Returns the name, as `docs/same-octets.md` has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::CommunityOrder => "order of communities",
            Kind::GracefulShutdown => "GRACEFUL_SHUTDOWN",
            Kind::AsZero => "AS 0",
            Kind::NotRoutable => "prefixes without routes",
            Kind::Unknown => "unknown",
        }
    }
}

/// The differences of all neighbors: the number of routes of each kind, and an example.
pub type Differences = BTreeMap<Kind, (usize, String)>;

/// Returns a route in the form in which it is compared: attributes in the order of their codes, flags without the length's width, of
/// MP_REACH_NLRI the global next hop alone.
fn comparable(route: &Route) -> Vec<Attr> {
    let mut all: Vec<Attr> = route
        .iter()
        .filter(|attr| attr.1 != code::MP_UNREACH_NLRI)
        .map(|Attr(flags, code, value)| match *code {
            code::MP_REACH_NLRI => Attr(0x80, *code, value.get(4..20).unwrap_or_default().to_vec()),
            _ => Attr(flags & 0xe0, *code, value.clone()),
        })
        .collect();
    all.sort_by_key(|attr| attr.1);
    all
}

/// Compares the routes that both routers sent a neighbor.
pub fn compare(neighbor: &str, sluice: &AdjRibOut, bird: &AdjRibOut, differences: &mut Differences) {
    let prefixes: std::collections::BTreeSet<&String> = sluice.keys().chain(bird.keys()).collect();
    for prefix in prefixes {
        let [ours, theirs] = [sluice, bird].map(|routes| routes.get(prefix).map(comparable));
        if ours == theirs {
            continue;
        }
        let kind = kind_of(prefix, ours.as_deref(), theirs.as_deref());
        let example = || format!("{neighbor} {prefix}\n  sluice {ours:02x?}\n  bird   {theirs:02x?}");
        differences.entry(kind).or_insert_with(|| (0, example())).0 += 1;
    }
}

fn kind_of(prefix: &str, ours: Option<&[Attr]>, theirs: Option<&[Attr]>) -> Kind {
    let Some(theirs) = theirs else { return Kind::Unknown };
    if value(theirs, code::AS_PATH).is_some_and(has_as_zero) {
        return Kind::AsZero;
    }
    let Some(ours) = ours else {
        return if prefix.parse().is_ok_and(is_routable) { Kind::Unknown } else { Kind::NotRoutable };
    };
    let sorted = |route: &[Attr]| route.iter().map(with_sorted_communities).collect::<Vec<_>>();
    if sorted(ours) == sorted(theirs) {
        return Kind::CommunityOrder;
    }
    if without_aggregator_of_as_zero(theirs) == ours {
        return Kind::AsZero;
    }
    let is_marked = |route: &[Attr]| {
        let communities = value(route, code::COMMUNITIES).unwrap_or_default();
        communities.chunks_exact(4).any(|community| community == GRACEFUL_SHUTDOWN)
    };
    let is_other_path = value(ours, code::AS_PATH) != value(theirs, code::AS_PATH);
    let without_preference = |route: &[Attr]| {
        sorted(route).into_iter().filter(|attr| attr.1 != code::LOCAL_PREF).collect::<Vec<_>>()
    };
    let is_lowered = value(ours, code::LOCAL_PREF) == Some(&[0; 4])
        && without_preference(ours) == without_preference(theirs);
    match (is_marked(ours), is_marked(theirs)) {
        (false, true) if is_other_path => Kind::GracefulShutdown,
        (true, true) if is_lowered => Kind::GracefulShutdown,
        _ => Kind::Unknown,
    }
}

/// Returns the value of an attribute.
fn value(route: &[Attr], code: u8) -> Option<&[u8]> {
    route.iter().find(|attr| attr.1 == code).map(|attr| &*attr.2)
}

/// Returns true if an AS_PATH has AS 0. Its AS numbers have two octets or four, whichever fits.
fn has_as_zero(path: &[u8]) -> bool {
    [2, 4].into_iter().any(|width| {
        let (mut rest, mut found) = (path, false);
        while let [1..=4, count, numbers @ ..] = rest {
            let Some((numbers, behind)) = numbers.split_at_checked(usize::from(*count) * width) else {
                return false;
            };
            found |= numbers.chunks(width).any(|number| number.iter().all(|octet| *octet == 0));
            rest = behind;
        }
        rest.is_empty() && found
    })
}

/// Returns a route without an AGGREGATOR of AS 0 (RFC 7607, section 2).
fn without_aggregator_of_as_zero(route: &[Attr]) -> Vec<Attr> {
    let is_of_zero = |attr: &Attr| {
        let number =
            attr.2.split_at_checked(attr.2.len().saturating_sub(4)).map_or(&[][..], |(number, _)| number);
        attr.1 == code::AGGREGATOR && number.iter().all(|octet| *octet == 0)
    };
    route.iter().filter(|attr| !is_of_zero(attr)).cloned().collect()
}

/// Returns an attribute with the communities of each kind in ascending order.
fn with_sorted_communities(Attr(flags, code, value): &Attr) -> Attr {
    let width = match *code {
        code::COMMUNITIES => 4,
        code::EXTENDED_COMMUNITIES => 8,
        code::LARGE_COMMUNITY => 12,
        _ => return Attr(*flags, *code, value.clone()),
    };
    let mut communities: Vec<&[u8]> = value.chunks(width).collect();
    communities.sort_unstable();
    Attr(*flags, *code, communities.concat())
}

#[test]
fn differences_have_kinds() {
    let route = |path: u8, communities: &[[u8; 4]], preference: Option<u32>| {
        let mut route = vec![Attr(0x40, code::AS_PATH, vec![2, 1, 0, 0, 0, path])];
        route.extend(preference.map(|value| Attr(0x40, code::LOCAL_PREF, value.to_be_bytes().to_vec())));
        route.push(Attr(0xc0, code::COMMUNITIES, communities.concat()));
        route
    };
    let kind = |ours: &Route, theirs: &Route| kind_of("192.0.2.0/24", Some(ours), Some(theirs));
    let (one, two) = ([0, 1, 0, 1], [0, 1, 0, 2]);
    let plain = route(1, &[one, two], None);
    assert_eq!(kind(&route(1, &[two, one], None), &plain), Kind::CommunityOrder);
    assert_eq!(kind(&route(1, &[two], None), &plain), Kind::Unknown);
    assert_eq!(kind(&route(2, &[one, two], None), &plain), Kind::Unknown);
    assert_eq!(kind_of("192.0.2.0/24", Some(&plain), None), Kind::Unknown);
    assert_eq!(kind_of("192.0.2.0/24", None, Some(&plain)), Kind::Unknown);
    assert_eq!(kind_of("0.0.0.0/32", None, Some(&plain)), Kind::NotRoutable);
    let zero = route(0, &[one, two], None);
    assert_eq!(kind_of("192.0.2.0/24", None, Some(&zero)), Kind::AsZero);
    assert_eq!(kind(&zero, &plain), Kind::Unknown);
    let aggregated = |number: u8| {
        let aggregator = Attr(0xc0, code::AGGREGATOR, vec![0, 0, 0, number, 192, 0, 2, 1]);
        plain.iter().cloned().chain([aggregator]).collect::<Route>()
    };
    assert_eq!(kind(&plain, &aggregated(0)), Kind::AsZero);
    assert_eq!(kind(&plain, &aggregated(1)), Kind::Unknown);
    let marked = |path, preference| route(path, &[one, GRACEFUL_SHUTDOWN], preference);
    assert_eq!(kind(&plain, &marked(2, None)), Kind::GracefulShutdown);
    assert_eq!(kind(&marked(2, None), &plain), Kind::Unknown);
    assert_eq!(kind(&marked(1, Some(0)), &marked(1, Some(100))), Kind::GracefulShutdown);
    assert_eq!(kind(&marked(1, Some(7)), &marked(1, Some(100))), Kind::Unknown);
}
