//! Import: the policy's decisions on the routes of a peer (RFC 4271, section 9.1.1), between PeerIn and the resolver.
//!
//! The shard keeps the received attributes beside policy's result ([`super::sets`]), so a changed policy works on the received
//! attributes without a request to the peer. Routes of one attribute set share the answers to questions about the set, and, where
//! policy makes the same changes, the result: both are remembered for one batch or slice ([`Imports`]).

use crate::policy::{BoundPolicy, Memory, Trace};
use crate::shard::Accepted;
use crate::shard::entry::{AdjRibIn, PathSet, PeerIndex, SetId};
use crate::shard::policy_context::PolicyContext;
use crate::shard::resolver::{Interest, Resolver};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use hashbrown::HashMap;
use sluice_machine::Outbox;
use smallvec::SmallVec;

/// The results of a policy for a received set so far. Each result has a reference.
#[derive(Debug, Default)]
struct Row {
    memory: Memory,
    accepted: SmallVec<[(Trace, PathSet); 1]>,
    rejected: Option<PathSet>,
}

/// The results of one policy for the received sets of a batch or a slice.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    rows: Vec<Row>,
    /// Rows in use; further rows keep memory for reuse.
    used: usize,
    by_set: HashMap<SetId, usize, foldhash::fast::FixedState>,
    /// The latest set and its row: routes of a set come together.
    last: Option<(SetId, usize)>,
}

impl Imports {
    /// Returns the row of a set.
    fn row(&mut self, policy: &BoundPolicy, set: SetId) -> &mut Row {
        let place = match self.last {
            Some((last, place)) if last == set => place,
            _ => self.find(policy, set),
        };
        self.last = Some((set, place));
        &mut self.rows[place]
    }

    fn find(&mut self, policy: &BoundPolicy, set: SetId) -> usize {
        let next = self.used;
        let place = *self.by_set.entry(set).or_insert(next);
        if place == next {
            self.used += 1;
            if self.rows.len() < self.used {
                self.rows.push(Row::default());
            }
            self.rows[place].memory.reset(policy);
        }
        place
    }

    /// Forgets the results, and releases the references.
    pub fn clear<P: FamilyKey>(
        &mut self,
        adj_rib_in: &mut AdjRibIn<P>,
        resolver: &mut Resolver<P::Hop>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        for row in &mut self.rows[..self.used] {
            let accepted = row.accepted.drain(..).map(|(_, attributes)| attributes);
            for attributes in accepted.chain(row.rejected.take()) {
                adj_rib_in.release_path(resolver, attributes, out);
            }
        }
        self.used = 0;
        self.last = None;
        self.by_set.clear();
    }
}

/// The parts of a shard that import reads and changes.
pub(crate) struct ImportParts<'a, P: FamilyKey> {
    pub adj_rib_in: &'a mut AdjRibIn<P>,
    pub resolver: &'a mut Resolver<P::Hop>,
    pub context: &'a PolicyContext,
}

impl<P: FamilyKey> ImportParts<'_, P> {
    /// Returns what `policy` makes of a peer's route with the attributes `received`. `imports` owns the reference.
    pub(crate) fn import(
        &mut self,
        policy: &BoundPolicy,
        peer: PeerIndex,
        prefix: P,
        received: SetId,
        imports: &mut Imports,
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> PathSet {
        if policy.leaves_unchanged(self.adj_rib_in.sets.octets(&self.adj_rib_in.sets[received])) {
            return PathSet::as_received(received);
        }
        let row = imports.row(policy, received);
        if !policy.reads_prefix()
            && let Some(known) = row.rejected.or_else(|| row.accepted.first().map(|(_, known)| *known))
        {
            return known;
        }
        let next_hop = self.resolver.next_hop_of(self.adj_rib_in.sets[received].hop);
        let path = Accepted { peer, set: received };
        let mut route = self.context.route(self.adj_rib_in, self.resolver, prefix, path);
        if !policy.decide(&mut route, &mut row.memory).is_accepted {
            return *row.rejected.get_or_insert_with(|| self.adj_rib_in.sets.imported(received, None));
        }
        let trace = row.memory.trace();
        if let Some((_, known)) = row.accepted.iter().find(|(made, _)| *made == trace) {
            return *known;
        }
        policy.make(&mut route, &mut row.memory);
        if route.has_received_octets() && route.next_hop() == next_hop {
            let unchanged = self.adj_rib_in.sets.imported(received, Some(received));
            row.accepted.push((trace, unchanged));
            return unchanged;
        }
        let edited = route.edited();
        let accepted =
            self.adj_rib_in.intern_octets(self.resolver, &edited.octets, edited.next_hop, edited.view, out);
        let attributes = self.adj_rib_in.sets.imported(received, Some(accepted));
        self.adj_rib_in.release(self.resolver, accepted, out);
        row.accepted.push((trace, attributes));
        attributes
    }
}
