//! Routes of a trace in MRT: tables (TABLE_DUMP_V2) and received UPDATEs (BGP4MP).

use crate::explain::{Term, Walk, terms};
use crate::subject::Subject;
use sluice_base::{AnyPrefix, Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, RouterId};
use sluice_bgp::attributes::canonical;
use sluice_bgp::attributes::{ReceiveRules, Scan, Verdict};
use sluice_bgp::batch::{Batch, Batches};
use sluice_bgp::hash::HashSeed;
use sluice_bgp::policy::Policies;
use sluice_bgp::reader::Reader;
use sluice_bgp::table::Spread;
use sluice_bgp::wire::attribute::{Attributes, code};
use sluice_bgp::wire::{FamilyKey, Update};
use sluice_mrt::{Message, Record, records};
use sluice_policy::{Decision, Program};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The octets of a BGP message's header, and the type of an UPDATE (RFC 4271, section 4.1).
const HEADER: usize = 19;
const UPDATE: u8 = 2;
/// The most examples of differences.
const MOST_EXAMPLES: usize = 10;

/// A policy over the routes of a trace.
pub struct Tally {
    program: Arc<Program>,
    /// The terms.
    pub terms: Vec<Term>,
    /// By term: routes that met the conditions, and routes on which the term decided.
    pub hits: Vec<(u64, u64)>,
    /// Accepted routes.
    pub accepted: u64,
    /// Rejected routes.
    pub rejected: u64,
    /// Routes on which no term decided.
    pub undecided: u64,
}

/// The outcome of a policy for a route, to compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// True for accepted; `None` if no term decides.
    pub is_accepted: Option<bool>,
    /// The deciding term.
    pub by: Option<usize>,
    /// Properties of an accepted route, if asked for.
    pub properties: Vec<(&'static str, String)>,
}

impl Tally {
    /// Makes a tally of a policy without routes.
    pub fn new(policies: &Policies, program: &Arc<Program>) -> Self {
        let terms = terms(policies.source(), program);
        let hits = vec![(0, 0); terms.len()];
        Tally { program: program.clone(), terms, hits, accepted: 0, rejected: 0, undecided: 0 }
    }

    /// Runs the policy on a route and counts the outcome.
    pub fn add(&mut self, subject: &Subject, local_as: Asn, with_properties: bool) -> Outcome {
        let mut route = subject.running(local_as);
        let mut walk = Walk::default();
        let (terms, hits) = (&self.terms, &mut self.hits);
        let mut end_term = |walk: &Walk| {
            if let Some(term) = walk.met().filter(|_| !walk.has_returned()) {
                hits[term].0 += 1;
            }
        };
        let program = self.program.with_peer(&route);
        let verdict = program.run_observed(&mut route, |_, step| {
            if let sluice_policy::Step::Enter(_) = step {
                end_term(&walk);
            }
            walk.step(terms, step);
        });
        end_term(&walk);
        let is_accepted = match verdict.decision {
            Decision::Accept => Some(true),
            Decision::Reject(_) => Some(false),
            Decision::Default => None,
        };
        *match is_accepted {
            Some(true) => &mut self.accepted,
            Some(false) => &mut self.rejected,
            None => &mut self.undecided,
        } += 1;
        let by = verdict.term.map(usize::from);
        if let Some(term) = by {
            self.hits[term].1 += 1;
        }
        let wanted = with_properties && is_accepted != Some(false);
        let properties = if wanted { route.properties().into_iter().collect() } else { Vec::new() };
        Outcome { is_accepted, by, properties }
    }
}

/// A route on which two policies have different outcomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The outcome of the policy.
    pub policy: Outcome,
    /// The outcome of the other policy.
    pub other: Outcome,
}

/// A policy over a trace, and another policy to compare with.
pub struct Comparison {
    /// The policy.
    pub policy: Tally,
    /// The other policy.
    pub other: Option<Tally>,
    /// The routes of the trace.
    pub routes: u64,
    /// The records and routes that cannot be read.
    pub malformed: u64,
    /// The routes with different outcomes.
    pub differ: u64,
    /// The first of these routes.
    pub examples: Vec<Difference>,
}

impl Comparison {
    /// Runs policies over all routes of a trace, in a router of `local_as`. `complete` adds the neighbor's properties.
    pub fn over(
        trace: &[u8],
        policy: Tally,
        other: Option<Tally>,
        local_as: Asn,
        complete: impl Fn(&mut Subject),
    ) -> Self {
        let mut all = Comparison { policy, other, routes: 0, malformed: 0, differ: 0, examples: Vec::new() };
        let mut peers = Vec::new();
        let mut batches = [Batches::default()];
        for record in records(trace) {
            match record {
                Record::PeerIndex(index) => peers = index.peers,
                Record::Rib(rib) => {
                    for entry in &rib.entries {
                        let peer = peers.get(usize::from(entry.peer));
                        let (address, asn) =
                            peer.map_or((None, None), |peer| (Some(peer.address), Some(peer.asn)));
                        match of_table(rib.prefix, entry.attributes, local_as, asn.unwrap_or(Asn(0))) {
                            Some(mut subject) => {
                                (subject.neighbor, subject.neighbor_as) = (address, asn.map(|asn| asn.0));
                                all.add(subject, local_as, &complete);
                            }
                            None => all.malformed += 1,
                        }
                    }
                }
                Record::Message(message) if !message.is_local => {
                    let from = |mut subject: Subject| {
                        (subject.neighbor, subject.neighbor_as) = (Some(message.peer), Some(message.peer_as));
                        all.add(subject, local_as, &complete);
                    };
                    if !of_update(&message, local_as, &mut batches, from) {
                        all.malformed += 1;
                    }
                }
                _ => {}
            }
        }
        all
    }

    fn add(&mut self, mut subject: Subject, local_as: Asn, complete: &impl Fn(&mut Subject)) {
        complete(&mut subject);
        self.routes += 1;
        let compares = self.other.is_some();
        let policy = self.policy.add(&subject, local_as, compares);
        let Some(other) = &mut self.other else { return };
        let other = other.add(&subject, local_as, compares);
        if (policy.is_accepted, &policy.properties) != (other.is_accepted, &other.properties) {
            self.differ += 1;
            if self.examples.len() < MOST_EXAMPLES {
                self.examples.push(Difference { prefix: subject.prefix, policy, other });
            }
        }
    }
}

fn rules(local_as: Asn, peer_as: Asn, four_octet_as: bool) -> ReceiveRules {
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let rules = ReceiveRules::new(local_as, RouterId(1), peer_as, nowhere);
    // The trace may be a route server's, or a collector's.
    ReceiveRules { four_octet_as, enforce_first_as: false, ..rules }
}

/// Returns a route of a table; `None` if the attributes are malformed.
fn of_table(prefix: IpPrefix, attributes: &[u8], local_as: Asn, peer_as: Asn) -> Option<Subject> {
    let mut plain = Vec::with_capacity(attributes.len());
    let mut subject = Subject::new(prefix.into());
    for attribute in Attributes::new(attributes, 0) {
        let attribute = attribute.ok()?;
        match (attribute.code, attribute.value) {
            // Of MP_REACH_NLRI there is the next hop with its length; some writers have the beginning of the attribute too.
            (code::MP_REACH_NLRI, [0, _, _, length, hop @ ..] | [length, hop @ ..]) => {
                let hop = hop.get(..usize::from(*length).min(16))?;
                subject.next_hop = <[u8; 16]>::try_from(hop).ok().map(|octets| Ipv6Addr::from(octets).into());
            }
            (code::NEXT_HOP, value) => {
                subject.next_hop =
                    <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into());
            }
            _ => attribute.put(&mut plain),
        }
    }
    let update =
        Update { withdrawn: &[], attributes: &plain, attributes_offset: 0, nlri: &[], nlri_offset: 0 };
    let rules = rules(local_as, peer_as, true);
    let scan = Scan::new(&update, &rules);
    if scan.verdict(&update) != Verdict::Accept {
        return None;
    }
    subject.octets.clear();
    canonical::put(&scan, &rules, &mut Vec::new(), &mut subject.octets);
    Some(subject)
}

/// Hands the routes of an UPDATE to `take`. Returns false if the UPDATE is malformed.
fn of_update(
    message: &Message<'_>,
    local_as: Asn,
    batches: &mut [Batches; 1],
    mut take: impl FnMut(Subject),
) -> bool {
    let Some(body) = message.octets.get(HEADER..).filter(|_| message.octets[HEADER - 1] == UPDATE) else {
        return true;
    };
    let spread = Spread::new(HashSeed(0), 1);
    let mut reader = Reader::new(rules(local_as, Asn(message.peer_as), message.four_octet_as), spread);
    let read = reader.update(body, Default::default(), batches);
    let is_malformed = read.map_or(true, |remarks| remarks.malformed.is_some_and(|(_, withdraw)| withdraw));
    of_batch::<Ipv4Prefix>(batches[0].of(), &mut take);
    of_batch::<Ipv6Prefix>(batches[0].of(), &mut take);
    batches[0].clear();
    !is_malformed
}

fn of_batch<P: FamilyKey>(batch: &Batch<P>, take: &mut impl FnMut(Subject)) {
    for change in batch.changes().iter().filter(|change| !change.is_withdrawal()) {
        let set = batch.sets().get(change.set as usize);
        if let (Some(prefix), Some(set)) = (change.prefix.as_ip(), set) {
            let mut subject = Subject::new(prefix.into());
            subject.octets = batch.octets(set).to_vec();
            subject.next_hop = set.next_hop.address.ip();
            take(subject);
        }
    }
}
