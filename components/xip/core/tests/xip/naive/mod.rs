//! Routing in its simplest words: maps, no cache, no hashes. Names everything that a decision looked at, and the anchors of Linux XIA.

use sluice_base::{Prefix, Xid, XidPrefix, XidType};
use sluice_xip::answer::{Action, Answer, NeighborId};
use sluice_xip::ports::{Port, Ports};
use sluice_xip::principals::u4id;
use sluice_xip::route::Route;
use sluice_xip::row::{Edge, Row};
use std::collections::{BTreeMap, BTreeSet};

/// A look of a decision at the routing state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Look {
    Kind(XidType),
    Entry(Xid),
    Longest(Xid, Option<u8>),
    Filter(Xid),
    Neighbor(NeighborId),
    Tunnel(XidType),
}

/// An attachment by Linux XIA's rules (section 7 of the facts on XIA): one negative anchor for each principal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KernelAnchor {
    /// The missing entries of a principal.
    Missing(XidType),
    /// Unknown principals, all of them.
    Unknown,
    /// The entry of the final target, and the XID of the edge.
    Present { target: XidPrefix, edge: Xid },
    /// The context of a principal.
    Context(XidType),
}

/// A treatment with names in place of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Treated {
    Dig,
    Deliver,
    Unsupported,
    Drop,
    Leave(Way),
    Copies(BTreeSet<Way>, bool),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    Neighbor(NeighborId),
    Tunnel(Xid),
}

/// A decision, and everything that it rests on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    pub chosen: Option<(u8, Treated)>,
    pub looks: BTreeSet<Look>,
    pub kernel: Vec<KernelAnchor>,
}

/// An operation on the routing state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Route(XidPrefix, Option<Route>),
    Register(XidType),
    Unregister(XidType),
    Neighbor(NeighborId, bool),
}

#[derive(Clone, Default)]
pub struct Naive {
    pub kinds: BTreeSet<XidType>,
    pub routes: BTreeMap<XidPrefix, Route>,
    pub down: BTreeSet<NeighborId>,
    pub consultations: usize,
}

enum Said {
    Next,
    Local,
    IllFormed,
    Leave(Way),
    Redirect(Xid),
    Copies(BTreeSet<Xid>, bool),
    Error,
}

pub fn contains(filter: [u8; 20], link: [u8; 20]) -> bool {
    filter.iter().zip(link).all(|(filter, link)| filter & link == link)
}

impl Naive {
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Route(prefix, Some(route)) => drop(self.routes.insert(prefix, route)),
            Op::Route(prefix, None) => drop(self.routes.remove(&prefix)),
            Op::Register(kind) | Op::Unregister(kind) => {
                self.routes.retain(|prefix, _| prefix.kind() != Some(kind));
                if matches!(op, Op::Register(_)) {
                    self.kinds.insert(kind)
                } else {
                    self.kinds.remove(&kind)
                };
            }
            Op::Neighbor(neighbor, true) => drop(self.down.remove(&neighbor)),
            Op::Neighbor(neighbor, false) => drop(self.down.insert(neighbor)),
        }
    }

    pub fn longest(&self, xid: Xid, below: u8) -> Option<XidPrefix> {
        let lengths = (0..below).rev().filter_map(|bits| XidPrefix::of_type(xid.kind, xid.id, bits));
        lengths.into_iter().find(|prefix| self.routes.contains_key(prefix))
    }

    fn tunnel(&self, kind: XidType) -> Option<XidPrefix> {
        let tunnel = |(prefix, route): (&XidPrefix, &Route)| {
            (prefix.kind() == Some(kind) && matches!(route, Route::Tunnel { .. })).then_some(*prefix)
        };
        self.routes.iter().find_map(tunnel)
    }

    fn consult(&self, xid: Xid, decision: &mut Decision) -> (Said, Option<XidPrefix>) {
        let looks = &mut decision.looks;
        looks.insert(Look::Kind(xid.kind));
        if !self.kinds.contains(&xid.kind) {
            return (Said::Next, None);
        }
        let mut key = Some(XidPrefix::host(xid));
        match xid.kind {
            XidType::LPM => {
                key = self.longest(xid, 161);
                looks.insert(Look::Longest(xid, key.map(XidPrefix::id_bits)));
            }
            XidType::UNI4ID => {
                let mut id = [0; 20];
                id[..4].copy_from_slice(&xid.id[16..]);
                id[4..6].copy_from_slice(&13781_u16.to_be_bytes());
                let is_right = xid.id[..4] == [0x45, 0, 0, 0] && xid.id[4..8] == [0, 1, 0, 0];
                let target = Said::Redirect(Xid { kind: XidType::U4ID, id });
                return (if is_right { target } else { Said::IllFormed }, None);
            }
            XidType::U4ID if !u4id::is_well_formed(&xid.id) => return (Said::IllFormed, None),
            XidType::ZF => {
                looks.insert(Look::Filter(xid));
                let (mut gateways, mut local) = (BTreeSet::new(), false);
                for (prefix, route) in &self.routes {
                    if prefix.kind() == Some(XidType::ZF) && contains(xid.id, prefix.addr().id) {
                        match route {
                            Route::Redirect(gateway) => drop(gateways.insert(*gateway)),
                            _ => local = true,
                        }
                    }
                }
                let is_matched = local || !gateways.is_empty();
                return (if is_matched { Said::Copies(gateways, local) } else { Said::Next }, None);
            }
            _ => drop(looks.insert(Look::Entry(xid))),
        }
        let said = match key.and_then(|key| self.routes.get(&key)) {
            Some(Route::Local | Route::Tunnel { .. }) => Said::Local,
            Some(Route::Redirect(target)) => Said::Redirect(*target),
            Some(Route::Neighbor(neighbor)) => Said::Leave(Way::Neighbor(*neighbor)),
            None if xid.kind == XidType::U4ID => {
                looks.insert(Look::Tunnel(xid.kind));
                self.tunnel(xid.kind).map_or(Said::Next, |_| Said::Leave(Way::Tunnel(xid)))
            }
            None => Said::Next,
        };
        (said, key)
    }

    fn resolve(&self, xid: Xid, decision: &mut Decision) -> (Xid, Said, Option<XidPrefix>) {
        let mut at = xid;
        for turn in 1.. {
            let (said, key) = self.consult(at, decision);
            match said {
                Said::Redirect(_) if turn == self.consultations => return (at, Said::Error, key),
                Said::Redirect(target) => at = target,
                said => return (at, said, key),
            }
        }
        unreachable!("the loop ends at the most consultations");
    }

    fn treat(&self, at: Xid, said: &Said, is_sink: bool, decision: &mut Decision) -> Option<Treated> {
        match said {
            Said::Local if at.kind == XidType::XDP && is_sink => Some(Treated::Deliver),
            Said::Local if at.kind == XidType::XDP || is_sink => Some(Treated::Unsupported),
            Said::Local => Some(Treated::Dig),
            Said::IllFormed => Some(Treated::Unsupported),
            Said::Error => Some(Treated::Drop),
            Said::Leave(way) => {
                if let Way::Neighbor(neighbor) = way {
                    decision.looks.insert(Look::Neighbor(*neighbor));
                    if self.down.contains(neighbor) {
                        return None;
                    }
                }
                Some(Treated::Leave(*way))
            }
            Said::Next | Said::Redirect(_) | Said::Copies(..) => None,
        }
    }

    fn edge(&self, edge: &Edge, decision: &mut Decision) -> Option<Treated> {
        let (at, said, key) = self.resolve(edge.xid, decision);
        let treated = match &said {
            Said::Copies(gateways, is_local) => {
                let (mut ways, mut local) = (BTreeSet::new(), *is_local && !edge.is_sink);
                for gateway in gateways {
                    let (at, said, _) = self.resolve(*gateway, decision);
                    match self.treat(at, &said, edge.is_sink, decision) {
                        Some(Treated::Leave(way)) => drop(ways.insert(way)),
                        Some(Treated::Dig | Treated::Deliver) => local = true,
                        _ => {}
                    }
                }
                match (ways.is_empty(), local) {
                    (false, local) => Some(Treated::Copies(ways, local)),
                    (true, true) => Some(if edge.is_sink { Treated::Deliver } else { Treated::Dig }),
                    (true, false) => is_local.then_some(Treated::Unsupported),
                }
            }
            said => self.treat(at, said, edge.is_sink, decision),
        };
        decision.kernel.push(match (&said, key) {
            _ if !self.kinds.contains(&at.kind) => KernelAnchor::Unknown,
            (Said::Next, _) => KernelAnchor::Missing(at.kind),
            (Said::Local | Said::Leave(Way::Neighbor(_)), Some(key)) => {
                KernelAnchor::Present { target: key, edge: edge.xid }
            }
            _ => KernelAnchor::Context(at.kind),
        });
        treated
    }

    pub fn decide(&self, row: &Row) -> Decision {
        let mut decision = Decision::default();
        for (place, edge) in (0_u8..).zip(&row.edges) {
            if let Some(treated) = self.edge(edge, &mut decision) {
                decision.chosen = Some((place, treated));
                break;
            }
        }
        decision
    }

    /// Returns true if a decision looked at the part of the routing state that an operation changes. Called before the operation.
    pub fn reaches(&self, op: Op, decision: &Decision) -> bool {
        let looked = |test: &dyn Fn(&Look) -> bool| decision.looks.iter().any(test);
        match op {
            Op::Register(kind) => looked(&|look| *look == Look::Kind(kind)),
            Op::Unregister(kind) => self.kinds.contains(&kind) && looked(&|look| *look == Look::Kind(kind)),
            Op::Neighbor(neighbor, is_usable) => {
                self.down.contains(&neighbor) == is_usable
                    && looked(&|look| *look == Look::Neighbor(neighbor))
            }
            Op::Route(prefix, route) => {
                let before = self.routes.get(&prefix).copied();
                let is_tunnel = |route: Option<Route>| matches!(route, Some(Route::Tunnel { .. }));
                let kind = prefix.kind();
                before != route
                    && looked(&|look| match *look {
                        Look::Longest(xid, matched) => {
                            prefix.contains(xid) && matched.is_none_or(|bits| bits <= prefix.id_bits())
                        }
                        Look::Filter(xid) => kind == Some(xid.kind) && contains(xid.id, prefix.addr().id),
                        Look::Entry(xid) => {
                            let is_alike = kind == Some(XidType::U4ID) && before.is_some() == route.is_some();
                            prefix == XidPrefix::host(xid) && !is_alike
                        }
                        Look::Tunnel(of) => kind == Some(of) && is_tunnel(before) != is_tunnel(route),
                        Look::Kind(_) | Look::Neighbor(_) => false,
                    })
            }
        }
    }

    /// Returns true if Linux XIA's rules flush a decision for an operation (section 7 of the facts on XIA). Called before the operation.
    pub fn kernel_flushes(&self, op: Op, decision: &Decision) -> bool {
        let hangs = |test: &dyn Fn(&KernelAnchor) -> bool| decision.kernel.iter().any(test);
        let missing = |kind: XidType| hangs(&|anchor| *anchor == KernelAnchor::Missing(kind));
        let on = |key: XidPrefix| {
            hangs(&|at| matches!(at, KernelAnchor::Present { target, .. } if *target == key))
        };
        // Decisions that follow a prefix, also by a redirect: as if each prefix had an anchor for them.
        let by_prefix = |prefix: XidPrefix| {
            decision.looks.iter().any(|look| {
                matches!(look, Look::Longest(xid, Some(bits)) if *bits == prefix.id_bits() && prefix.contains(*xid))
            })
        };
        match op {
            Op::Register(_) => hangs(&|anchor| *anchor == KernelAnchor::Unknown),
            Op::Unregister(kind) => hangs(&|anchor| match anchor {
                KernelAnchor::Missing(of) | KernelAnchor::Context(of) => *of == kind,
                KernelAnchor::Present { target, .. } => target.kind() == Some(kind),
                KernelAnchor::Unknown => false,
            }),
            Op::Neighbor(neighbor, _) => {
                let keys = self.routes.iter().filter(|(_, route)| **route == Route::Neighbor(neighbor));
                keys.into_iter().any(|(key, _)| on(*key))
            }
            Op::Route(prefix, route) => match self.routes.get(&prefix) {
                None if prefix.kind() == Some(XidType::LPM) => self
                    .longest(prefix.addr(), prefix.id_bits())
                    .map_or_else(|| missing(XidType::LPM), by_prefix),
                Some(_) if prefix.kind() == Some(XidType::LPM) => by_prefix(prefix),
                None => prefix.kind().is_some_and(|kind| route.is_some() && missing(kind)),
                Some(Route::Redirect(to)) => match self.resolve(*to, &mut Decision::default()) {
                    (_, Said::Local | Said::Leave(_), Some(key)) => hangs(&|anchor| {
                        matches!(anchor, KernelAnchor::Present { target, edge }
                            if *target == key && *edge == prefix.addr())
                    }),
                    _ => true, // the trial look-up failed: the whole table is cleared
                },
                Some(_) => on(prefix),
            },
        }
    }
}

/// Returns an answer of the router with names in place of numbers.
pub fn named(answer: &Answer, ports: &Ports) -> Option<(u8, Treated)> {
    let Answer::Chosen { edge, action } = answer else { return None };
    let treated = match action {
        Action::Dig => Treated::Dig,
        Action::Deliver => Treated::Deliver,
        Action::Unsupported => Treated::Unsupported,
        Action::Drop => Treated::Drop,
        Action::Forward(neighbor) => Treated::Leave(Way::Neighbor(*neighbor)),
        Action::Tunnel(tunnel) => Treated::Leave(Way::Tunnel(ports.far_end(*tunnel).unwrap())),
        Action::Replicate { ports: set, local } => {
            let way = |port: &Port| match port {
                Port::Neighbor(neighbor) => Way::Neighbor(*neighbor),
                Port::Tunnel(tunnel) => Way::Tunnel(ports.far_end(*tunnel).unwrap()),
            };
            Treated::Copies(ports.set(*set).unwrap().iter().map(way).collect(), *local)
        }
        Action::PerPacket => panic!("no principal of the catalog asks for each packet"),
    };
    Some((*edge, treated))
}
