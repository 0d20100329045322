//! Hits of a policy: the present routes that meet the conditions of each term. Evaluated for an operator's request, in slices,
//! and not while routes are processed.

use crate::policy::{BoundPolicy, PolicyRoute};
use crate::shard::adj_rib_out::ExportView;
use crate::shard::entry::{PeerIn, PeerIndex};
use crate::shard::{Accepted, Shard};
use crate::wire::FamilyKey;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// A use of a policy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PolicyUse {
    /// For the routes of a neighbor.
    Import(PeerIndex),
    /// For the routes of a source of the router's own, by name: `network`, or the origin of redistributed routes.
    Source(String),
    /// For routes to the members of an update group, by number.
    Export(Vec<PeerIndex>),
    /// For the choice of paths beside the best one for the members of an update group (ADD-PATH, RFC 7911), by number.
    FurtherPaths(Vec<PeerIndex>),
}

/// Counts of the routes that a policy is used for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UseHits {
    /// The present routes, as they come to the neighbor's policies.
    pub routes: u64,
    /// The number of routes that reach a term and meet the term's conditions, by the term's name; terms without hits are absent.
    pub terms: BTreeMap<String, u64>,
}

/// The hits of a policy, by use. A use without routes is present.
pub type PolicyHits = BTreeMap<PolicyUse, UseHits>;

impl UseHits {
    /// Adds other counts.
    pub fn add(&mut self, other: &UseHits) {
        self.routes += other.routes;
        for (term, routes) in &other.terms {
            *self.terms.entry(term.clone()).or_default() += routes;
        }
    }

    /// Runs policies on a route and counts the terms of `policy` that the route meets, each once.
    fn count(&mut self, bound: &BoundPolicy, policy: &str, mut route: PolicyRoute<'_>) {
        self.routes += 1;
        let mut met: SmallVec<[String; 4]> = SmallVec::new();
        bound.run_met(&mut route, |name| {
            if name.policy == policy && !met.contains(&name.term) {
                met.push(name.term.clone());
            }
        });
        met.into_iter().for_each(|term| *self.terms.entry(term).or_default() += 1);
    }
}

/// A policy that is used for imports, by the peer's number.
type BoundImports = BTreeMap<PeerIndex, (Arc<BoundPolicy>, UseHits)>;

/// The hits of a policy towards the neighbors of an update group.
type GroupHits = (Arc<ExportView>, Vec<PeerIndex>, UseHits);

/// Adds the hits of update groups, by the numbers of their neighbors.
fn add_by_group(hits: &mut PolicyHits, groups: Vec<GroupHits>, place: fn(Vec<PeerIndex>) -> PolicyUse) {
    for (_, mut members, counts) in groups {
        members.sort_unstable();
        hits.entry(place(members)).or_default().add(&counts);
    }
}

fn imports_of(peers: &[PeerIn], policy: &str) -> BoundImports {
    let known = peers.iter().enumerate().filter_map(|(number, peer)| {
        let bound = peer.import.as_ref().filter(|bound| bound.has_terms_of(policy))?;
        Some((PeerIndex(number as u16), (bound.clone(), UseHits::default())))
    });
    known.collect()
}

/// Returns true if the export policies of a view have terms of `policy`.
fn exports_by(view: &ExportView, policy: &str) -> bool {
    [PeerIndex::LOCAL, PeerIndex::DEFAULT]
        .into_iter()
        .any(|source| view.policy_for(source).is_some_and(|bound| bound.has_terms_of(policy)))
}

/// Returns the policy by which a view chooses paths, if it has terms of `policy`.
fn chooses_by<'a>(view: &'a ExportView, policy: &str) -> Option<&'a Arc<BoundPolicy>> {
    view.further.as_ref().filter(|bound| bound.has_terms_of(policy))
}

impl<P: FamilyKey> Shard<P> {
    /// Adds the hits of a policy over a slice of the routes to `hits`: from place `from` on, about `limit` entries, paths and
    /// groups. Returns the place to go on from; `None` at the end. Routes are counted in the state at the time of their slice.
    pub fn count_hits(&self, policy: &str, from: u32, limit: usize, hits: &mut PolicyHits) -> Option<u32> {
        let core = &self.core;
        let route = |id: u32, path: Accepted| {
            core.context.route(&core.adj_rib_in, &core.resolver, core.adj_rib_in.entries[id].prefix, path)
        };
        let mut imports = imports_of(&core.adj_rib_in.peers, policy);
        let by_group = |is_of: fn(&ExportView, &str) -> bool| -> Vec<GroupHits> {
            let groups = self.adj_rib_out.plumbing().filter(|(view, ..)| is_of(view, policy));
            groups.map(|(view, members, ..)| (view, members, UseHits::default())).collect()
        };
        let mut exports = by_group(exports_by);
        let mut choices = by_group(|view, policy| chooses_by(view, policy).is_some());
        let (end, mut id, mut done) = (core.adj_rib_in.entries.end(), from, 0);
        let is_used = !imports.is_empty() || !exports.is_empty() || !choices.is_empty();
        while is_used && id < end && done < limit {
            done += 1;
            for path in core.adj_rib_in.entries.paths(id) {
                done += 1;
                let peer = core.adj_rib_in.lanes.peer(path.number);
                if let Some((bound, counts)) = imports.get_mut(&peer) {
                    let received = core.adj_rib_in.sets.received(path.attributes);
                    counts.count(bound, policy, route(id, Accepted { peer, set: received }));
                }
            }
            for (view, members, counts) in &mut exports {
                done += 1;
                // What comes to export policy: a neighbor is not sent its own route, nor one that the rules of BGP keep from it.
                let is_for_policy = |path: &Accepted| {
                    view.may_export(&core.adj_rib_in, *path)
                        && !core.loc_rib.aggregates.is_suppressed(
                            &core.adj_rib_in,
                            &core.resolver,
                            &core.context,
                            id,
                            *path,
                        )
                        && members.iter().any(|member| *member != path.peer)
                };
                for path in core.paths_towards(view, id).into_iter().filter(is_for_policy) {
                    if let Some(bound) = view.policy_for(path.peer).filter(|bound| bound.has_terms_of(policy))
                    {
                        counts.count(bound, policy, route(id, path));
                    }
                }
            }
            for (view, members, counts) in &mut choices {
                done += 1;
                let Some(bound) = chooses_by(view, policy) else { continue };
                let is_of_other = |path: &Accepted| members.iter().any(|member| *member != path.peer);
                for path in core
                    .further_paths(id)
                    .filter_map(|number| core.adj_rib_in.path(id, number))
                    .filter(is_of_other)
                {
                    counts.count(bound, policy, route(id, path));
                }
            }
            id += 1;
        }
        for (peer, (_, counts)) in &imports {
            let place = match peer.is_own() {
                true => PolicyUse::Source(core.context.protocol(*peer).into()),
                false => PolicyUse::Import(*peer),
            };
            hits.entry(place).or_default().add(counts);
        }
        add_by_group(hits, exports, PolicyUse::Export);
        add_by_group(hits, choices, PolicyUse::FurtherPaths);
        (is_used && id < end).then_some(id)
    }
}
