//! A route under test: the attributes as BGP holds them, and the neighbor's properties.

use sluice_base::{AnyPrefix, Asn, IpPrefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::family::FamilyIndex;
use sluice_bgp::policy::vocabulary::{self, VOCABULARY};
use sluice_bgp::policy::{Context, PolicyRoute, RouteType};
use sluice_bgp::wire::multiprotocol::NextHop;
use sluice_policy::community::{Kind, communities, text_of};
use sluice_policy::program::{Fact, NextHop as NextHopAction};
use sluice_policy::vocabulary::{Type, VariableId};
use sluice_policy::{Edit, Route};
use sluice_validation::VrpTable;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// A route under test, before any policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The prefix, of IP addresses or of XIDs.
    pub prefix: AnyPrefix,
    /// The canonical octets of the attributes.
    pub octets: Vec<u8>,
    /// The next hop.
    pub next_hop: Option<IpAddr>,
    /// The protocol that the route comes from.
    pub protocol: String,
    /// The kind of the route; `None` if unknown.
    pub route_type: Option<RouteType>,
    /// The neighbor's address.
    pub neighbor: Option<IpAddr>,
    /// The neighbor's AS.
    pub neighbor_as: Option<u32>,
    /// The neighbor's group.
    pub group: Option<String>,
    /// Prefixes to which the RIB has routes.
    pub present: BTreeSet<IpPrefix>,
    /// The number of the validation state, in place of the state by payloads.
    pub validation: Option<u32>,
    /// The number of the AS path's verification result; `None` without a result.
    pub aspa: Option<u32>,
    /// The payloads that validate the origin; `None` if there are no data.
    pub origins: Option<VrpTable>,
}

impl Subject {
    /// Makes a route of BGP without attributes other than those of a local route.
    pub fn new(prefix: AnyPrefix) -> Self {
        Subject {
            prefix,
            octets: canonical::local(Asn(0)).0,
            next_hop: None,
            protocol: "bgp".into(),
            route_type: None,
            neighbor: None,
            neighbor_as: None,
            group: None,
            present: BTreeSet::new(),
            validation: None,
            aspa: None,
            origins: None,
        }
    }

    /// Returns the route in the view of a policy, in a router of `local_as`.
    pub fn running(&self, local_as: Asn) -> Running<'_> {
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let guessed = match self.neighbor_as {
            Some(asn) if asn == local_as.0 => RouteType::Internal,
            _ => RouteType::External,
        };
        let context = Context {
            route_type: self.route_type.unwrap_or(guessed),
            protocol: &self.protocol,
            local_as,
            neighbor: self.neighbor.unwrap_or(unknown),
            origins: self.origins.as_ref(),
            path_check: None,
        };
        let view = canonical::view(&self.octets, local_as);
        let next_hop = NextHop::new(self.next_hop.unwrap_or(unknown));
        let route = PolicyRoute::new(self.prefix, &self.octets, &view, next_hop, context);
        Running { route, subject: self, next_hop: None }
    }
}

/// A route under test while policies run.
pub struct Running<'s> {
    route: PolicyRoute<'s>,
    subject: &'s Subject,
    /// The next hop of an action.
    next_hop: Option<NextHopAction>,
}

/// The properties that policies can change.
const CHANGEABLE: [&str; 8] =
    ["local-preference", "med", "origin", "next-hop", "weight", "tag", "rib-distance", "damping"];

impl Running<'_> {
    /// Returns the canonical octets of the attributes.
    pub fn into_octets(self) -> Vec<u8> {
        self.route.edited().octets
    }

    /// Returns the properties that policies can change, with their values as people write them.
    pub fn properties(&self) -> BTreeMap<&'static str, String> {
        let values = CHANGEABLE.into_iter().filter_map(|name| Some((name, self.property(name)?)));
        let lists = ["as-path", "community"]
            .into_iter()
            .filter_map(|name| Some((name, self.property(name)?)).filter(|(_, value)| !value.is_empty()));
        values.chain(lists).collect()
    }

    /// Returns a property as people write it; `None` if the route has none.
    pub fn property(&self, name: &str) -> Option<String> {
        match (name, self.next_hop) {
            ("as-path", _) => Some(path_of(self)),
            ("community", _) => Some(communities_of(self).join(" ")),
            ("next-hop", Some(action)) => Some(match action {
                NextHopAction::Own => "self".into(),
                NextHopAction::Peer => "peer".into(),
                NextHopAction::Unchanged => "unchanged".into(),
                NextHopAction::Blackhole => "blackhole".into(),
                NextHopAction::Address(address) => address.to_string(),
            }),
            ("damping", _) => self.route.damping().map(|damping| damping.to_string()),
            (name, _) => value_of(self, name),
        }
    }
}

impl Route for Running<'_> {
    fn prefix(&self) -> Option<AnyPrefix> {
        self.route.prefix()
    }

    fn number(&self, variable: VariableId) -> Option<u32> {
        match variable {
            vocabulary::NEIGHBOR_AS => self.subject.neighbor_as,
            vocabulary::FAMILY => {
                FamilyIndex::with_id(self.subject.prefix.family()).map(|family| usize::from(family) as u32)
            }
            vocabulary::VALIDATION if self.subject.validation.is_some() => self.subject.validation,
            vocabulary::ASPA if self.subject.aspa.is_some() => self.subject.aspa,
            variable => self.route.number(variable),
        }
    }

    fn number_is_in(&self, variable: VariableId, ranges: &[(u32, u32)]) -> bool {
        let is_in = |number: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
        match variable {
            vocabulary::NEIGHBOR_AS | vocabulary::FAMILY | vocabulary::VALIDATION | vocabulary::ASPA => {
                self.number(variable).is_some_and(is_in)
            }
            variable => self.route.number_is_in(variable, ranges),
        }
    }

    fn text(&self, variable: VariableId) -> Option<&str> {
        match variable {
            vocabulary::GROUP => self.subject.group.as_deref(),
            variable => self.route.text(variable),
        }
    }

    fn address(&self, variable: VariableId) -> Option<IpAddr> {
        match variable {
            vocabulary::NEIGHBOR => self.subject.neighbor,
            vocabulary::NEXT_HOP => self.route.address(variable).filter(|address| !address.is_unspecified()),
            variable => self.route.address(variable),
        }
    }

    fn as_path(&self) -> &[u8] {
        self.route.as_path()
    }

    fn communities(&self, kind: Kind) -> &[u8] {
        self.route.communities(kind)
    }

    fn holds(&self, fact: &Fact) -> bool {
        match fact {
            Fact::RoutePresent(prefix) => self.subject.present.contains(prefix),
        }
    }

    fn change(&mut self, edit: Edit<'_>) {
        if let Edit::NextHop(action) = edit {
            let is_taken = match action {
                NextHopAction::Address(address) => self.route.can_point_to(address),
                NextHopAction::Peer => {
                    self.subject.neighbor.is_none_or(|neighbor| self.route.can_point_to(neighbor))
                }
                NextHopAction::Own | NextHopAction::Unchanged | NextHopAction::Blackhole => true,
            };
            if is_taken {
                self.next_hop = Some(action);
            }
        }
        self.route.change(edit);
    }
}

/// Returns the value of a variable as people write it; `None` if the route has none.
pub fn value_of(route: &impl Route, name: &str) -> Option<String> {
    let place = VOCABULARY.iter().position(|variable| variable.name == name)?;
    let id = VariableId::try_from(place).ok()?;
    match VOCABULARY[place].values {
        Type::Number(_) => route.number(id).map(|number| number.to_string()),
        Type::Name(names) => {
            let number = usize::try_from(route.number(id)?).ok()?;
            names.get(number).map(ToString::to_string)
        }
        Type::Text => route.text(id).map(ToOwned::to_owned),
        Type::Address => route.address(id).map(|address| address.to_string()),
    }
}

/// Returns the communities of all kinds as people write them.
pub fn communities_of(route: &impl Route) -> Vec<String> {
    let of = |kind| communities(kind, route.communities(kind)).map(move |community| text_of(kind, community));
    Kind::ALL.into_iter().flat_map(of).collect()
}

/// Returns the AS path as people write it: sets in braces.
pub fn path_of(route: &impl Route) -> String {
    let mut words = Vec::new();
    let mut rest = route.as_path();
    while let [kind, count, after @ ..] = rest
        && let Some((members, behind)) = after.split_at_checked(usize::from(*count) * 4)
    {
        let members = members.as_chunks::<4>().0.iter().map(|asn| u32::from_be_bytes(*asn).to_string());
        let members: Vec<String> = members.collect();
        match kind {
            2 => words.extend(members),
            _ => words.push(format!("{{{}}}", members.join(" "))),
        }
        rest = behind;
    }
    words.join(" ")
}
