//! The slow path: the decision on a row, by the principals of its edges in order of priority.

use crate::anchor::{Anchor, Deps, Touch, Touched};
use crate::answer::{Action, Answer, NeighborId};
use crate::counters::{Counters, Reason};
use crate::ports::{Ports, WayOut};
use crate::principals::{Actions, Consult, Copies, Treatment};
use crate::registry::{RegisterError, Registered, Registry};
use crate::route::{ChangeError, Route};
use crate::row::Row;
use core::fmt::{self, Display};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use sluice_base::{Instant, Xid, XidPrefix, XidType};
use smallvec::SmallVec;

/// The bounds of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most principals that are consulted for an edge, or for a copy of a packet: one, and one for each redirect. At least 1.
    pub consultations: u8,
    /// The most gateways of a filter.
    pub copies: usize,
}

impl Default for Limits {
    /// Returns two consultations, as in Linux XIA, and 64 copies.
    fn default() -> Self {
        Limits { consultations: 2, copies: 64 }
    }
}

/// The reason why an edge cannot be decided. The packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteError {
    /// A redirect of `from` leads to `back`, which has been looked up for the same edge.
    RedirectLoop {
        /// The redirected XID.
        from: Xid,
        /// The target.
        back: Xid,
    },
    /// The XID is redirected after the most consultations.
    TooManyRedirects(Xid),
    /// The XID is redirected to an XID of its own type.
    SameTypeRedirect(Xid),
    /// The XID matches more gateways than the limit.
    TooManyCopies(Xid),
    /// The principal of the XID could not decide.
    Failure(Xid),
}

impl RouteError {
    const fn reason(self) -> Reason {
        match self {
            RouteError::RedirectLoop { .. } => Reason::RedirectLoop,
            RouteError::TooManyRedirects(_) => Reason::TooManyRedirects,
            RouteError::SameTypeRedirect(_) => Reason::SameTypeRedirect,
            RouteError::TooManyCopies(_) => Reason::TooManyCopies,
            RouteError::Failure(_) => Reason::Failure,
        }
    }
}

impl Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::RedirectLoop { from, back } => {
                write!(f, "redirects of {back} lead over {from} back to {back}")
            }
            RouteError::TooManyRedirects(xid) => write!(f, "{xid} is the end of too many redirects"),
            RouteError::SameTypeRedirect(xid) => write!(f, "{xid} is redirected to an XID of its own type"),
            RouteError::TooManyCopies(xid) => write!(f, "{xid} matches too many gateways"),
            RouteError::Failure(xid) => write!(f, "the principal of {xid} could not decide"),
        }
    }
}

impl core::error::Error for RouteError {}

/// The outcome of a decision on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The row is decided. An answer must be released when dropped ([`Router::release`]).
    Decided {
        /// The answer.
        answer: Answer,
        /// The reason, if a wrong configuration makes the answer a drop.
        error: Option<RouteError>,
        /// True if the answer may be kept until one of the decision's anchors is touched.
        is_cacheable: bool,
    },
    /// The answer about an XID has been asked for. The decision is made anew when one of its anchors is touched.
    Pending(Xid),
    /// A principal could not decide: the packet is dropped, and the next packet tries again.
    Failed(RouteError),
}

/// A decision in terms of principals, with far ends of tunnels as XIDs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A single treatment.
    Treat(Treatment),
    /// Copies, with a copy for this host if `local`.
    Copies {
        /// The ways out, in any order, possibly repeated.
        ways: SmallVec<[WayOut; 4]>,
        /// True if a further copy goes on at this host.
        local: bool,
    },
}

/// The result of a look-up without effects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The edge and the decision; `None` if no edge leads anywhere.
    pub chosen: Option<(u8, Verdict)>,
    /// The principal of the final answer.
    pub principal: Option<XidType>,
    /// The error behind a drop.
    pub error: Option<RouteError>,
    /// The XID whose answer must be asked for; the decision is not made.
    pub pending: Option<Xid>,
}

impl Found {
    const fn new(chosen: Option<(u8, Verdict)>, principal: Option<XidType>) -> Self {
        Found { chosen, principal, error: None, pending: None }
    }
}

/// The final answer about an XID, after redirects.
enum Resolved {
    Actions(Actions),
    Copies(Copies),
    NextEdge,
    Pending,
    Error(RouteError),
}

/// The routing state, and the decisions on it.
pub struct Router {
    registry: Registry,
    /// Unusable neighbors.
    unusable: HashSet<NeighborId, FixedState>,
    ports: Ports,
    counters: Counters,
    limits: Limits,
}

impl Router {
    /// Makes a router without principals; `seed` is secret.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Router {
            registry: Registry::default(),
            unusable: HashSet::with_hasher(FixedState::with_seed(seed)),
            ports: Ports::new(seed),
            counters: Counters::default(),
            limits,
        }
    }

    /// Sets the bounds of decisions. Decisions made before may differ from decisions made anew.
    pub(crate) const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the principals.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the principals, for questions to and answers from outside.
    pub const fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Returns the far ends and port sets of answers.
    pub const fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns the counts of decisions.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Registers a principal, or replaces the principal of its type, and returns the touched anchors.
    ///
    /// # Errors
    /// The type is 0, or the registry is full.
    pub fn register(&mut self, principal: Registered) -> Result<Touched, RegisterError> {
        self.registry.register(principal)
    }

    /// Removes the principal of a type with its table, and returns the touched anchors.
    pub fn unregister(&mut self, kind: XidType) -> Touched {
        self.counters.forget(kind);
        self.registry.unregister(kind)
    }

    /// Changes a route, and returns the touched anchors.
    ///
    /// # Errors
    /// The type is unknown, or its principal refuses the change.
    pub fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        self.registry.change(prefix, route)
    }

    /// Records that a neighbor can or cannot be used, and returns the touched anchors. Neighbors are usable at first.
    pub fn set_neighbor(&mut self, neighbor: NeighborId, is_usable: bool) -> Touched {
        let is_changed =
            if is_usable { self.unusable.remove(&neighbor) } else { self.unusable.insert(neighbor) };
        is_changed.then_some(Touch::Anchor(Anchor::Neighbor(neighbor))).into_iter().collect()
    }

    /// Gives up an answer of [`Router::decide`].
    pub fn release(&mut self, answer: &Answer) {
        self.ports.release(answer);
    }

    /// Decides on a row. Afterwards `deps` holds the anchors of this decision alone.
    pub fn decide(&mut self, now: Instant, row: &Row, deps: &mut Deps) -> Outcome {
        deps.clear();
        let found = self.lookup(row, deps);
        if let Some(xid) = found.pending {
            if let Some(principal) = self.registry.outside_mut(xid.kind) {
                principal.ask(now, xid);
            }
            self.counters.count(Reason::Pending, Some(xid.kind));
            return Outcome::Pending(xid);
        }
        if let Some(error @ RouteError::Failure(_)) = found.error {
            self.counters.count(error.reason(), found.principal);
            return Outcome::Failed(error);
        }
        let answer = match found.chosen {
            None => Answer::Unreachable,
            Some((edge, verdict)) => Answer::Chosen { edge, action: self.action(verdict) },
        };
        let reason = found.error.map_or_else(|| reason_of(&answer), RouteError::reason);
        self.counters.count(reason, found.principal);
        Outcome::Decided { answer, error: found.error, is_cacheable: !deps.is_temporary() }
    }

    fn action(&mut self, verdict: Verdict) -> Action {
        match verdict {
            Verdict::Treat(treatment) => match treatment {
                Treatment::Dig => Action::Dig,
                Treatment::Forward(neighbor) => Action::Forward(neighbor),
                Treatment::Tunnel(far_end) => Action::Tunnel(self.ports.acquire_tunnel(far_end)),
                Treatment::Deliver => Action::Deliver,
                Treatment::Unsupported => Action::Unsupported,
                Treatment::Drop => Action::Drop,
                Treatment::PerPacket => Action::PerPacket,
            },
            Verdict::Copies { mut ways, local } => {
                Action::Replicate { ports: self.ports.acquire_set(&mut ways), local }
            }
        }
    }

    /// Decides on a row without counting and asking. Adds the anchors of the decision to `deps`.
    pub fn lookup(&self, row: &Row, deps: &mut Deps) -> Found {
        for (place, edge) in (0_u8..).zip(&row.edges) {
            let (last, resolved) = self.resolve(edge.xid, deps);
            let principal = Some(last.kind);
            let verdict = match resolved {
                Resolved::NextEdge => continue,
                Resolved::Pending => {
                    return Found { pending: Some(last), ..Found::new(None, principal) };
                }
                Resolved::Error(error) => return drop_for(error, place, principal),
                Resolved::Actions(actions) => match self.treatment(actions, edge.is_sink, deps) {
                    None => continue,
                    Some(treatment) => Verdict::Treat(treatment),
                },
                Resolved::Copies(copies) if copies.gateways.len() > self.limits.copies => {
                    return drop_for(RouteError::TooManyCopies(last), place, principal);
                }
                Resolved::Copies(copies) => match self.copies(&copies, edge.is_sink, deps) {
                    Err(pending) => {
                        return Found { pending: Some(pending), ..Found::new(None, Some(pending.kind)) };
                    }
                    Ok(None) => continue,
                    Ok(Some(verdict)) => verdict,
                },
            };
            return Found::new(Some((place, verdict)), principal);
        }
        Found::new(None, None)
    }

    /// Consults principals about an XID and the XIDs to which it is redirected. Returns the last XID with the answer.
    fn resolve(&self, xid: Xid, deps: &mut Deps) -> (Xid, Resolved) {
        let mut seen: SmallVec<[Xid; 4]> = SmallVec::new();
        let mut xid = xid;
        loop {
            deps.push(Anchor::Principal(xid.kind));
            let target = match self.registry.consult(xid, deps) {
                None | Some(Consult::NextEdge) => return (xid, Resolved::NextEdge),
                Some(Consult::Forward(actions)) => return (xid, Resolved::Actions(actions)),
                Some(Consult::Replicate(copies)) => return (xid, Resolved::Copies(copies)),
                Some(Consult::Pending) => return (xid, Resolved::Pending),
                Some(Consult::Failure) => return (xid, Resolved::Error(RouteError::Failure(xid))),
                Some(Consult::Redirect(target)) => target,
            };
            seen.push(xid);
            let error = if target.kind == xid.kind {
                Some(RouteError::SameTypeRedirect(xid))
            } else if seen.contains(&target) {
                Some(RouteError::RedirectLoop { from: xid, back: target })
            } else if seen.len() >= usize::from(self.limits.consultations) {
                Some(RouteError::TooManyRedirects(xid))
            } else {
                None
            };
            if let Some(error) = error {
                return (xid, Resolved::Error(error));
            }
            xid = target;
        }
    }

    /// Returns the treatment for the place of an XID; `None` if it cannot be carried out now.
    fn treatment(&self, actions: Actions, is_sink: bool, deps: &mut Deps) -> Option<Treatment> {
        match if is_sink { actions.sink } else { actions.passthrough } {
            Treatment::Dig if is_sink => Some(Treatment::Unsupported),
            Treatment::Forward(neighbor) => {
                deps.push(Anchor::Neighbor(neighbor));
                (!self.unusable.contains(&neighbor)).then_some(Treatment::Forward(neighbor))
            }
            treatment => Some(treatment),
        }
    }

    /// Decides on the gateway of each copy. Copies whose gateway leads nowhere are left out; without any copy, the next edge is tried.
    ///
    /// # Errors
    /// The answer about this XID is pending.
    fn copies(&self, copies: &Copies, is_sink: bool, deps: &mut Deps) -> Result<Option<Verdict>, Xid> {
        let mut ways = SmallVec::new();
        let mut local = copies.local && !is_sink;
        for gateway in &copies.gateways {
            let (last, resolved) = self.resolve(*gateway, deps);
            match resolved {
                Resolved::Pending => return Err(last),
                Resolved::Actions(actions) => match self.treatment(actions, is_sink, deps) {
                    Some(Treatment::Forward(neighbor)) => ways.push(WayOut::Neighbor(neighbor)),
                    Some(Treatment::Tunnel(far_end)) => ways.push(WayOut::Tunnel(far_end)),
                    Some(Treatment::Dig | Treatment::Deliver) => local = true,
                    _ => {}
                },
                Resolved::NextEdge | Resolved::Copies(_) | Resolved::Error(_) => {}
            }
        }
        Ok(match (ways.is_empty(), local) {
            (false, _) => Some(Verdict::Copies { ways, local }),
            (true, true) if is_sink => Some(Verdict::Treat(Treatment::Deliver)),
            (true, true) => Some(Verdict::Treat(Treatment::Dig)),
            (true, false) if copies.local => Some(Verdict::Treat(Treatment::Unsupported)),
            (true, false) => None,
        })
    }

    /// Returns the XID to whose socket or principal a packet is handed: the last XID after redirects and gateways of the XID of the
    /// chosen edge. `None` if the XID is not routed to this host.
    pub fn receiver(&self, xid: Xid) -> Option<Xid> {
        let deps = &mut Deps::default();
        let is_here = |actions: Actions| matches!(actions.sink, Treatment::Deliver | Treatment::PerPacket);
        match self.resolve(xid, deps) {
            (last, Resolved::Actions(actions)) if is_here(actions) => Some(last),
            (_, Resolved::Copies(copies)) => {
                copies.gateways.iter().find_map(|gateway| match self.resolve(*gateway, deps) {
                    (last, Resolved::Actions(actions)) if is_here(actions) => Some(last),
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// Asks the principal of [`Router::receiver`] about one packet, for rows that are answered with [`Action::PerPacket`].
    pub fn treat(&self, xid: Xid, packet: &[u8]) -> Treatment {
        let receiver = self.receiver(xid);
        let principal = receiver.and_then(|xid| Some((xid, self.registry.get(xid.kind)?)));
        principal.map_or(Treatment::Drop, |(xid, principal)| principal.treat(xid, packet))
    }
}

/// Returns a decision that drops the packet. The drop may be kept: the error lasts as long as the entries that it comes from.
fn drop_for(error: RouteError, edge: u8, principal: Option<XidType>) -> Found {
    let drop = Some((edge, Verdict::Treat(Treatment::Drop)));
    Found { error: Some(error), ..Found::new(drop, principal) }
}

const fn reason_of(answer: &Answer) -> Reason {
    match answer {
        Answer::Unreachable => Reason::Unreachable,
        Answer::Chosen { action, .. } => match action {
            Action::Dig => Reason::Dig,
            Action::Forward(_) => Reason::Forward,
            Action::Tunnel(_) => Reason::Tunnel,
            Action::Replicate { .. } => Reason::Replicate,
            Action::Deliver => Reason::Deliver,
            Action::Unsupported => Reason::Unsupported,
            Action::Drop => Reason::Drop,
            Action::PerPacket => Reason::PerPacket,
        },
    }
}
