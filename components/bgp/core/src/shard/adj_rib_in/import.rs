//! Import: what policy makes of the routes of a peer (RFC 4271, section 9.1.1), between PeerIn and the resolver.
//!
//! The shard keeps what came beside what policy made of it ([`super::sets`]), so that a changed policy works on what came, and the
//! peer is asked for nothing. Routes of one attribute set share the answers to questions about the set, and, where policy makes the
//! same changes, the result: both are remembered for one batch or slice ([`Imports`]).

use crate::attributes::View;
use crate::policy::{BoundPolicy, Memory, Trace};
use crate::shard::entry::{PathSet, PeerIndex, SetId};
use crate::shard::resolver::Interest;
use crate::shard::{Accepted, Core};
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use alloc::vec::Vec;
use hashbrown::HashMap;
use sluice_machine::Outbox;
use smallvec::SmallVec;

/// What a policy made of one received set so far. Each result has a reference.
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
    /// Rows in use; the others are kept for their memory.
    used: usize,
    by_set: HashMap<SetId, usize, foldhash::fast::FixedState>,
    /// The latest set and its row: routes of one set come together.
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

    /// Forgets all results. `release` is called with each reference.
    pub fn clear(&mut self, mut release: impl FnMut(PathSet)) {
        for row in &mut self.rows[..self.used] {
            row.accepted
                .drain(..)
                .map(|(_, attributes)| attributes)
                .chain(row.rejected.take())
                .for_each(&mut release);
        }
        self.used = 0;
        self.last = None;
        self.by_set.clear();
    }
}

impl<P: FamilyKey> Core<P> {
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
        let mut route = self.context.route(&self.adj_rib_in, &self.resolver, prefix, path);
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
        let accepted = self.intern_octets(&edited.octets, edited.next_hop, edited.view, out);
        let attributes = self.adj_rib_in.sets.imported(received, Some(accepted));
        self.release(accepted, out);
        row.accepted.push((trace, attributes));
        attributes
    }

    /// Returns the set of changed attributes, with a reference for the caller.
    pub(crate) fn intern_octets(
        &mut self,
        octets: &[u8],
        next_hop: NextHop,
        view: View,
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> SetId {
        let hash = self.adj_rib_in.seed.attributes(octets, &next_hop);
        let resolver = &self.resolver;
        let is_hop = |hop| resolver.next_hop(hop) == Some(&next_hop);
        if let Some(id) = self.adj_rib_in.sets.find(hash, octets, is_hop) {
            return id;
        }
        let hop = self.resolver.acquire(next_hop, out);
        self.adj_rib_in.sets.insert(hash, octets, hop, view)
    }

    /// Releases the references of `imports`.
    pub(crate) fn end_imports(&mut self, imports: &mut Imports, out: &mut Outbox<Interest<P::Hop>>) {
        imports.clear(|attributes| self.release_path(attributes, out));
    }
}
