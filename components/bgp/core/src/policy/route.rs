//! A route in the view of a policy: read and changed in the canonical octets of its attributes.

use super::aspa::{PathCheck, path_state};
use super::ingress::Ingress;
use super::validation::state;
use super::vocabulary as variable;
use crate::attributes::private::{Private, RouteDamping};
use crate::attributes::{Origin, View, canonical};
use crate::family::FamilyIndex;
use crate::wire::as_path::{AS_SEQUENCE, Segments};
use crate::wire::attribute::{Flags, code};
use crate::wire::multiprotocol::NextHop;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Address, AnyPrefix, Asn, XidPrefix, XidType};
use sluice_policy::community::Kind;
use sluice_policy::program::{CommunitySets, Fact, NextHop as NextHopAction};
use sluice_policy::vocabulary::VariableId;
use sluice_policy::{Edit, Route, edit};
use sluice_validation::VrpTable;
use smallvec::SmallVec;

/// The source of a route, in the order of [`variable::ROUTE_TYPES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteType {
    /// A neighbor in another AS.
    External,
    /// A neighbor in this router's AS.
    Internal,
    /// This router.
    Local,
}

/// The next hop that a route is announced with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum NextHopRule {
    /// As the session's rules say.
    #[default]
    Session,
    /// This router.
    Own,
    /// The neighbor's address.
    Peer,
    /// The route's own.
    Unchanged,
    /// An address.
    Address(IpAddr),
}

/// The attributes of a route after changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edited {
    /// The canonical octets.
    pub octets: Vec<u8>,
    /// The values that the decision compares.
    pub view: View,
    /// The next hop.
    pub next_hop: NextHop,
    /// The next hop that the route is announced with.
    pub rule: NextHopRule,
    /// True if policy set MULTI_EXIT_DISC.
    pub sets_med: bool,
}

/// A route in the view of a bound policy. Variables of the neighbor have no value: the policy was bound.
#[derive(Debug)]
pub struct PolicyRoute<'a> {
    prefix: AnyPrefix,
    octets: Cow<'a, [u8]>,
    view: View,
    next_hop: NextHop,
    rule: NextHopRule,
    sets_med: bool,
    route_type: RouteType,
    protocol: &'a str,
    local_as: Asn,
    /// The address of the neighbor that sent the route or is to receive it.
    neighbor: IpAddr,
    origins: Option<&'a VrpTable>,
    /// The attributes before any change.
    received: &'a [u8],
    path_check: Option<PathCheck>,
}

/// The surroundings of a route.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The source of the route.
    pub route_type: RouteType,
    /// The protocol that the route comes from.
    pub protocol: &'a str,
    /// This router's AS.
    pub local_as: Asn,
    /// The address of the neighbor that sent the route or is to receive it.
    pub neighbor: IpAddr,
    /// The payloads that validate the route; `None` if there are no data.
    pub origins: Option<&'a VrpTable>,
    /// The check of the AS paths of the neighbor that sent the route; `None` for routes whose path is not verified.
    pub path_check: Option<PathCheck>,
}

/// The flags of an optional attribute that other routers pass on.
const OPTIONAL_TRANSITIVE: u8 = Flags::OPTIONAL | Flags::TRANSITIVE;

impl<'a> PolicyRoute<'a> {
    /// Makes the route of a prefix with these attributes.
    pub fn new(
        prefix: AnyPrefix,
        canonical: &'a [u8],
        view: &View,
        next_hop: NextHop,
        context: Context<'a>,
    ) -> Self {
        let Context { route_type, protocol, local_as, neighbor, origins, path_check } = context;
        let (octets, rule) = (Cow::Borrowed(canonical), NextHopRule::default());
        PolicyRoute {
            prefix,
            octets,
            view: *view,
            next_hop,
            rule,
            sets_med: false,
            route_type,
            protocol,
            local_as,
            neighbor,
            origins,
            received: canonical,
            path_check,
        }
    }

    /// Makes the changes of the rules of BGP.
    pub(super) fn enter(&mut self, ingress: &Ingress) {
        if let Some(octets) = ingress.changed(&self.octets) {
            self.set_octets(octets);
        }
    }

    /// Returns true if the attributes, apart from the next hop, are those before any change.
    pub fn has_received_octets(&self) -> bool {
        matches!(self.octets, Cow::Borrowed(_))
    }

    /// Returns the next hop after all changes.
    pub fn next_hop(&self) -> NextHop {
        self.next_hop
    }

    /// Returns the flap damping that policy chose; `None` for the router's.
    pub fn damping(&self) -> Option<RouteDamping> {
        Private::of(&self.octets).damping
    }

    /// Returns the attributes after all changes.
    pub fn edited(self) -> Edited {
        Edited {
            octets: self.octets.into_owned(),
            view: self.view,
            next_hop: self.next_hop,
            rule: self.rule,
            sets_med: self.sets_med,
        }
    }

    fn find(&self, code: u8) -> &[u8] {
        canonical::find(&self.octets, code).unwrap_or_default()
    }

    /// Replaces, adds or removes an attribute.
    fn put(&mut self, flags: u8, code: u8, value: Option<&[u8]>) {
        let mut octets = Vec::with_capacity(self.octets.len() + value.map_or(0, |value| value.len() + 4));
        canonical::put_with(&self.octets, flags, code, value, &mut octets);
        self.set_octets(octets);
    }

    fn set_octets(&mut self, octets: Vec<u8>) {
        self.octets = Cow::Owned(octets);
        self.view = canonical::view(&self.octets, self.local_as);
    }

    fn change_private(&mut self, change: impl FnOnce(&mut Private)) {
        let mut private = Private::of(&self.octets);
        change(&mut private);
        let mut octets = Vec::with_capacity(self.octets.len() + 16);
        canonical::put_with_private(&self.octets, &private, &mut octets);
        self.set_octets(octets);
    }

    fn set_number(&mut self, variable: VariableId, number: u32) {
        match variable {
            variable::LOCAL_PREFERENCE => {
                self.put(Flags::TRANSITIVE, code::LOCAL_PREF, Some(&number.to_be_bytes()));
            }
            variable::MED => {
                self.put(Flags::OPTIONAL, code::MULTI_EXIT_DISC, Some(&number.to_be_bytes()));
                self.sets_med = true;
            }
            // Numbers of names and of bounded variables fit: the program was verified.
            variable::ORIGIN => self.put(Flags::TRANSITIVE, code::ORIGIN, Some(&[number as u8])),
            variable::WEIGHT => self.change_private(|private| private.weight = number as u16),
            variable::TAG => {
                self.change_private(|private| private.tags = SmallVec::from_slice(&[number]));
            }
            variable::RIB_DISTANCE => {
                self.change_private(|private| private.rib_distance = Some(number as u8))
            }
            _ => {}
        }
    }

    fn change_communities(
        &mut self,
        sets: &CommunitySets,
        change: fn(Kind, &[u8], &CommunitySets) -> Option<Vec<u8>>,
    ) {
        for kind in Kind::ALL {
            if let Some(value) = change(kind, self.communities(kind), sets) {
                self.put(
                    OPTIONAL_TRANSITIVE,
                    code_of(kind),
                    Some(&value).filter(|v| !v.is_empty()).map(|v| &v[..]),
                );
            }
        }
    }

    /// Sets the next hop. An address of another family than the route's next hops leaves the route as it is.
    fn point_to(&mut self, address: IpAddr, rule: NextHopRule) {
        if self.can_point_to(address) {
            (self.next_hop, self.rule) = (NextHop::new(address), rule);
        }
    }

    /// Returns true if an address can be the next hop of the route: it is of the family of the route's next hops.
    pub fn can_point_to(&self, address: IpAddr) -> bool {
        let family = FamilyIndex::with_id(self.prefix.family());
        family.is_some_and(|family| family.row().hops == Address::from(address).family())
    }

    fn set_path(&mut self, path: &[u8]) {
        self.put(Flags::TRANSITIVE, code::AS_PATH, Some(path));
    }
}

/// Returns the code of the attribute with communities of a kind.
const fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::Standard => code::COMMUNITIES,
        Kind::Extended => code::EXTENDED_COMMUNITIES,
        Kind::Large => code::LARGE_COMMUNITY,
    }
}

/// Returns the last AS of a path; `None` for an empty path, and for one that ends with a set.
fn origin_as(path: &[u8]) -> Option<Asn> {
    let last = Segments::canonical(path).flatten().last()?;
    last.asns().last().filter(|_| last.kind == AS_SEQUENCE)
}

/// Returns the first AS of a path; `None` for an empty path, and for one that begins with a set.
fn neighbor_as(path: &[u8]) -> Option<Asn> {
    let first = Segments::canonical(path).flatten().next()?;
    first.asns().next().filter(|_| first.kind == AS_SEQUENCE)
}

impl Route for PolicyRoute<'_> {
    fn prefix(&self) -> Option<AnyPrefix> {
        Some(self.prefix)
    }

    fn number(&self, variable: VariableId) -> Option<u32> {
        match variable {
            variable::LOCAL_PREFERENCE => Some(self.view.local_pref),
            variable::MED => self.view.med,
            variable::ORIGIN => Some(match self.view.origin {
                Origin::Igp => 0,
                Origin::Egp => 1,
                Origin::Incomplete => 2,
            }),
            variable::WEIGHT => Some(self.view.weight.into()),
            variable::TAG => Private::of(&self.octets).tags.first().copied(),
            variable::RIB_DISTANCE => Private::of(&self.octets).rib_distance.map(u32::from),
            variable::AS_PATH_LENGTH => Some(self.view.path_length.into()),
            variable::ORIGIN_AS => origin_as(self.as_path()).map(|asn| asn.0),
            variable::PATH_NEIGHBOR_AS => neighbor_as(self.as_path()).map(|asn| asn.0),
            variable::ROUTE_TYPE => Some(self.route_type as u32),
            variable::METRIC => Private::of(&self.octets).metric,
            variable::PREFIX_LENGTH => Some(match self.prefix.to::<XidPrefix>() {
                Some(xids) => xids.id_bits().into(),
                None => self.prefix.len().into(),
            }),
            variable::PRINCIPAL => {
                let kind = self.prefix.to::<XidPrefix>()?.kind()?;
                Some(XidType::named().position(|(_, named)| named == kind)? as u32)
            }
            variable::VALIDATION => {
                let prefix = self.prefix.ip();
                Some(state(self.origins, prefix, &self.octets, self.route_type, self.local_as) as u32)
            }
            variable::ASPA => {
                Some(path_state(self.origins, self.prefix.ip(), self.received, self.path_check) as u32)
            }
            _ => None,
        }
    }

    fn number_is_in(&self, variable: VariableId, ranges: &[(u32, u32)]) -> bool {
        let is_in = |number: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
        match variable {
            variable::TAG => Private::of(&self.octets).tags.into_iter().any(is_in),
            variable => self.number(variable).is_some_and(is_in),
        }
    }

    fn text(&self, variable: VariableId) -> Option<&str> {
        (variable == variable::PROTOCOL).then_some(self.protocol)
    }

    fn address(&self, variable: VariableId) -> Option<IpAddr> {
        self.next_hop.address.ip().filter(|_| variable == variable::NEXT_HOP)
    }

    fn as_path(&self) -> &[u8] {
        self.find(code::AS_PATH)
    }

    fn communities(&self, kind: Kind) -> &[u8] {
        self.find(code_of(kind))
    }

    fn holds(&self, _: &Fact) -> bool {
        false
    }

    fn change(&mut self, edit: Edit<'_>) {
        match edit {
            Edit::Number(variable, number) => self.set_number(variable, number),
            Edit::AddCommunities(sets) => self.change_communities(sets, edit::added),
            Edit::DeleteCommunities(sets) => self.change_communities(sets, edit::deleted),
            Edit::ReplaceCommunities(sets) => {
                self.change_communities(sets, |kind, _, sets| edit::added(kind, &[], sets));
            }
            Edit::Prepend(asns) => self.set_path(&edit::prepended(self.as_path(), asns)),
            Edit::ReplaceAs(ranges, asn) => {
                let is_in = |old: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&old));
                self.set_path(&edit::mapped(self.as_path(), |old| Some(if is_in(old) { asn } else { old })));
            }
            Edit::RemovePrivateAs => {
                let kept = |asn: u32| Some(asn).filter(|asn| !edit::is_private(*asn));
                self.set_path(&edit::mapped(self.as_path(), kept));
            }
            Edit::NextHop(NextHopAction::Own) => self.rule = NextHopRule::Own,
            Edit::NextHop(NextHopAction::Unchanged) => self.rule = NextHopRule::Unchanged,
            Edit::NextHop(NextHopAction::Peer) => self.point_to(self.neighbor, NextHopRule::Peer),
            Edit::NextHop(NextHopAction::Address(address)) => {
                self.point_to(address, NextHopRule::Address(address));
            }
            Edit::NextHop(NextHopAction::Blackhole) => {
                self.change_private(|private| private.is_blackhole = true);
            }
            Edit::Damping(damping) => {
                let damping = damping.map_or(RouteDamping::Off, |damping| RouteDamping::By(damping.clone()));
                self.change_private(|private| private.damping = Some(damping));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::VOCABULARY;
    use super::*;
    use crate::attributes::canonical::local;
    use crate::attributes::private;
    use alloc::vec;
    use sluice_policy::PolicySet;
    use sluice_policy::source::Damping;

    /// Returns the context of a route of an external neighbor, whose AS path and origin are not verified.
    fn context(local_as: Asn, neighbor: IpAddr) -> Context<'static> {
        let route_type = RouteType::External;
        Context { route_type, protocol: "bgp", local_as, neighbor, origins: None, path_check: None }
    }

    fn run(terms: &str, canonical: &[u8]) -> Edited {
        let text = alloc::format!(
            r#"{{"community": [{{"name": "a", "member": ["1:1", "1:2:3"]}}, {{"name": "all", "member": ["*:*"]}}],
                "damping": [{{"name": "quick", "half-life": 2, "suppress": 3000}}],
                "policy-statement": [{{"name": "p", "term": [{{"name": "t", {terms}}}]}}]}}"#
        );
        let policies = serde_json::from_str(&text).expect("policies");
        let set = PolicySet::compile(&policies, VOCABULARY).expect("valid");
        let local_as = Asn(65000);
        let view = canonical::view(canonical, local_as);
        let neighbor = "192.0.2.1".parse().expect("an address");
        let prefix = "10.0.0.0/8".parse().expect("a prefix");
        let hop = NextHop::new(neighbor);
        let mut route = PolicyRoute::new(prefix, canonical, &view, hop, context(local_as, neighbor));
        set.get("p").expect("the policy").run(&mut route);
        let edited = route.edited();
        assert_eq!(edited.view, canonical::view(&edited.octets, local_as), "the view is of the octets");
        edited
    }

    #[test]
    fn changes_are_in_the_octets_in_the_order_of_codes() {
        let (octets, _) = local(Asn(65000));
        let edited = run(
            r#""then": {"med": "5", "local-preference": "+100", "origin": "egp", "community-add": "a",
                "as-path-prepend": "1 2", "weight": 7, "tag": 9}"#,
            &octets,
        );
        let codes: Vec<u8> = canonical::attributes(&edited.octets).map(|a| a.code).collect();
        let in_order =
            [code::ORIGIN, code::AS_PATH, code::MULTI_EXIT_DISC, code::LOCAL_PREF, code::COMMUNITIES];
        assert_eq!(codes[..5], in_order);
        assert_eq!(codes[5..], [code::LARGE_COMMUNITY]);
        let view = edited.view;
        assert_eq!(
            (view.local_pref, view.med, view.origin, view.path_length),
            (200, Some(5), Origin::Egp, 2)
        );
        assert_eq!((view.neighbor_as, view.weight), (Asn(1), 7));
        assert_eq!(Private::of(&edited.octets).tags[..], [9]);
        // And back to the octets that it began with, but for what cannot be unset.
        let without = run(r#""then": {"community-delete": "all"}"#, &edited.octets);
        assert_eq!(canonical::find(&without.octets, code::COMMUNITIES), None);
        assert_eq!(without.view.weight, 7);
    }

    #[test]
    fn routes_have_the_damping_that_policy_chooses() {
        let (octets, _) = local(Asn(65000));
        let quick = run(r#""then": {"damping": "quick", "tag": 9}"#, &octets);
        let private = Private::of(&quick.octets);
        let expected = Damping { name: "quick".into(), half_life: 2, suppress: 3000, ..Damping::default() };
        assert_eq!((private.damping, &private.tags[..]), (Some(RouteDamping::By(expected)), &[9][..]));
        let none = run(r#""then": {"damping": "none"}"#, &quick.octets);
        assert_eq!(Private::of(&none.octets).damping, Some(RouteDamping::Off));
        assert_eq!(private::split(&quick.octets).1, octets, "no neighbor is sent the property");
    }

    #[test]
    fn routes_of_xids_know_their_principal() {
        let (octets, view) = local(Asn(65000));
        let runs = |condition: &str, prefix: &str| {
            let source = alloc::format!(
                r#"{{"policy-statement": [{{"name": "p", "term": [{{"name": "t", "from": {{{condition}}}, "then": {{"reject": [null]}}}}]}}],
                     "prefix-list": [{{"name": "all", "prefix": ["0.0.0.0/0 orlonger"]}}]}}"#
            );
            let set = PolicySet::compile(&serde_json::from_str(&source).expect("policies"), VOCABULARY)
                .expect("valid");
            let neighbor = "192.0.2.1".parse().expect("an address");
            let context = context(Asn(65000), neighbor);
            let prefix = prefix.parse().expect("a prefix");
            let mut route = PolicyRoute::new(prefix, &octets, &view, NextHop::new(neighbor), context);
            set.get("p").expect("the policy").run(&mut route).decision != sluice_policy::Decision::Default
        };
        let (ad, lpm) =
            ("ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", "lpm-0a00000000000000000000000000000000000000/8");
        for (condition, expected) in [
            (r#""principal": ["ad", "hid"]"#, [true, false, false]),
            (r#""prefix-length": ["8"]"#, [false, true, true]),
            (r#""prefix-length": ["160"]"#, [true, false, false]),
            // No XID is in a prefix list.
            (r#""prefix-list": ["all"]"#, [false, false, true]),
        ] {
            let met = [ad, lpm, "10.0.0.0/8"].map(|prefix| runs(condition, prefix));
            assert_eq!(met, expected, "{condition}");
        }
    }

    #[test]
    fn a_next_hop_is_for_routes_of_its_family() {
        let (octets, _) = local(Asn(65000));
        let hop = |action: &str, prefix: &str| {
            let source = alloc::format!(
                r#"{{"policy-statement": [{{"name": "p", "term": [{{"name": "t", "then": {{"next-hop": {action}}}}}]}}]}}"#
            );
            let set = PolicySet::compile(&serde_json::from_str(&source).expect("policies"), VOCABULARY)
                .expect("valid");
            let neighbor = "192.0.2.1".parse().expect("an address");
            let view = canonical::view(&octets, Asn(65000));
            let received = NextHop::new("198.51.100.7".parse::<IpAddr>().expect("an address"));
            let context = context(Asn(65000), neighbor);
            let mut route =
                PolicyRoute::new(prefix.parse().expect("a prefix"), &octets, &view, received, context);
            set.get("p").expect("the policy").run(&mut route);
            let edited = route.edited();
            let is_changed = edited.next_hop != received;
            assert_eq!(is_changed, edited.rule != NextHopRule::Session, "wire and table agree");
            is_changed.then(|| alloc::format!("{}", edited.next_hop.address))
        };
        let xid = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
        for (action, ipv4, ipv6) in [
            (r#""203.0.113.1""#, Some("203.0.113.1"), None),
            (r#""2001:db8::1""#, None, Some("2001:db8::1")),
            (r#"["203.0.113.1", "2001:db8::1"]"#, Some("203.0.113.1"), Some("2001:db8::1")),
            // The neighbor's address.
            (r#""peer""#, Some("192.0.2.1"), None),
        ] {
            assert_eq!(hop(action, "10.0.0.0/8").as_deref(), ipv4, "{action}");
            assert_eq!(hop(action, "2001:db8:1::/48").as_deref(), ipv6, "{action}");
            assert_eq!(hop(action, xid), None, "{action}");
        }
    }

    #[test]
    fn routes_know_their_path() {
        let mut octets = vec![];
        let path = [2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea];
        canonical::put_with(&local(Asn(65000)).0, 0, code::AS_PATH, Some(&path), &mut octets);
        let check = |condition: &str, is_met: bool| {
            let terms = alloc::format!(r#""from": {{{condition}}}, "then": {{"med": 1}}"#);
            assert_eq!(run(&terms, &octets).view.med.is_some(), is_met, "{condition}");
        };
        check(r#""origin-as": ["65002"]"#, true);
        check(r#""path-neighbor-as": ["65001"]"#, true);
        check(r#""origin-as": ["65001"]"#, false);
        check(r#""as-path-length": ["2-3"]"#, true);
        check(r#""prefix-length": ["8"]"#, true);
        check(r#""protocol": ["bgp"]"#, true);
        check(r#""route-type": ["external"]"#, true);
        check(r#""route-type": ["local"]"#, false);
        check(r#""next-hop": ["192.0.2.0/24"]"#, true);
        check(r#""validation": ["valid"]"#, false);
        let terms = r#""then": {"as-path-remove-private": []}"#;
        assert_eq!(run(terms, &octets).view.path_length, 0);
    }
}
