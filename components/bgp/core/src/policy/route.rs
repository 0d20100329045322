//! A route in the view of a policy: read and changed in the canonical octets of its attributes.

use super::aspa::{PathCheck, path_state};
use super::ingress::Ingress;
use super::route_type::RouteType;
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

/// The next hop of an announced route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum NextHopRule {
    /// As the session's rules say.
    #[default]
    Session,
    /// The router itself.
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
    /// The values for the decision.
    pub view: View,
    /// The next hop.
    pub next_hop: NextHop,
    /// The announced next hop.
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
    /// The address of the sending or receiving neighbor.
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
    /// The protocol of the route.
    pub protocol: &'a str,
    /// The router's AS.
    pub local_as: Asn,
    /// The address of the sending or receiving neighbor.
    pub neighbor: IpAddr,
    /// The payloads for the validation; `None` without data.
    pub origins: Option<&'a VrpTable>,
    /// The check of the sending neighbor's AS paths; `None` for routes with an unverified path.
    pub path_check: Option<PathCheck>,
}

/// The flags of an optional transitive attribute.
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

    /// Returns true if the attributes, apart from the next hop, are unchanged.
    pub(crate) fn has_received_octets(&self) -> bool {
        matches!(self.octets, Cow::Borrowed(_))
    }

    /// Returns the next hop after the changes.
    pub fn next_hop(&self) -> NextHop {
        self.next_hop
    }

    /// Returns the flap damping chosen by policy; `None` for the router's.
    pub fn damping(&self) -> Option<RouteDamping> {
        Private::of(&self.octets).damping
    }

    /// Returns the attributes after the changes.
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

    /// Sets the next hop. An address of a family other than the next hops' leaves the route unchanged.
    fn point_to(&mut self, address: IpAddr, rule: NextHopRule) {
        if self.can_point_to(address) {
            (self.next_hop, self.rule) = (NextHop::new(address), rule);
        }
    }

    /// Returns true for an address of the family of the route's next hops.
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

/// Returns the last AS of a path; `None` for an empty path, and at a final set.
fn origin_as(path: &[u8]) -> Option<Asn> {
    let last = Segments::canonical(path).flatten().last()?;
    last.asns().last().filter(|_| last.kind == AS_SEQUENCE)
}

/// Returns the first AS of a path; `None` for an empty path, and at an initial set.
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
mod tests;
