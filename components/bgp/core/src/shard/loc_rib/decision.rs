//! The decision process: the choice among the paths of a prefix (RFC 4271, section 9.1).

use super::multipath_rules::MultipathRules;
use crate::attributes::Origin;
use crate::shard::entry::{Lanes, Path, PathNumber, PathSet, PeerIn, PeerIndex, SetId, Sets};
use crate::shard::resolver::{Resolution, Resolver};
use crate::wire::FamilyKey;
use core::cmp::Reverse;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::Asn;
use smallvec::SmallVec;

/// Choices in the decision. Every router of an AS must make the same choices, or routes can loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DecisionRules {
    /// MULTI_EXIT_DISC counts among routes of different neighboring ASes too.
    pub always_compare_med: bool,
    /// A route without MULTI_EXIT_DISC has the highest one, and not the lowest (RFC 4271, section 9.1.2.2 c).
    pub missing_med_worst: bool,
    /// The best path stays the best among external paths that differ only in the BGP Identifier (RFC 5004).
    pub prefer_oldest: bool,
    /// The number of paths of a prefix that forward packets side by side. The best path stays unique.
    pub multipath: MultipathRules,
}

impl DecisionRules {
    const fn missing_med(self) -> u32 {
        if self.missing_med_worst { u32::MAX } else { 0 }
    }
}

/// The reason why a path is not the best one, in the order of the decision's steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Elimination {
    /// The path is the default route that only neighbors with `default-originate` are sent.
    DefaultOriginate,
    /// Import policy rejected the path (RFC 4271, section 9.1.1).
    Rejected,
    /// The RIB has not answered the question about the next hop yet.
    NextHopWaits,
    /// The next hop cannot be reached (section 9.1.2.1).
    NextHopUnreachable,
    /// The peer is on a connected subnet, and the route's next hop is not (section 6.3 b).
    NextHopNotConnected,
    /// The route would be the most specific route to its own next hop (section 9.1.2.1).
    NextHopThroughItself,
    /// The path is a long-lived stale one, and a competing path is not (RFC 9494, section 4.3).
    LongLivedStale,
    /// The router itself originates the prefix: a matter of local policy (section 9.1.1), and every router's default.
    Originated,
    /// A competing path has a higher weight.
    Weight,
    /// A competing path has a higher LOCAL_PREF.
    LocalPref,
    /// A competing path has a shorter AS path (section 9.1.2.2 a).
    PathLength,
    /// A competing path has a lower ORIGIN (b).
    Origin,
    /// A competing path from the same AS has a lower MULTI_EXIT_DISC (c).
    Med,
    /// A competing path came by EBGP (d).
    External,
    /// The next hop of a competing path is nearer (e).
    InteriorCost,
    /// A competing external path was the best one before (RFC 5004, section 3).
    Newer,
    /// The peer of a competing path, or the originator of a reflected one, has a lower BGP Identifier (f; RFC 4456, section 9).
    RouterId,
    /// A competing path has a shorter CLUSTER_LIST: the path was reflected fewer times (RFC 4456, section 9).
    ClusterList,
    /// The peer of a competing path has a lower address (g).
    PeerAddress,
}

impl fmt::Display for Elimination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Elimination::DefaultOriginate => "for neighbors with default-originate",
            Elimination::Rejected => "rejected by import policy",
            Elimination::NextHopWaits => "next hop not resolved yet",
            Elimination::NextHopUnreachable => "next hop unreachable",
            Elimination::NextHopNotConnected => "next hop not on the peer's link",
            Elimination::NextHopThroughItself => "next hop reached through the route itself",
            Elimination::LongLivedStale => "long-lived stale",
            Elimination::Originated => "originated here",
            Elimination::Weight => "lower weight",
            Elimination::LocalPref => "lower local preference",
            Elimination::PathLength => "longer AS path",
            Elimination::Origin => "higher origin",
            Elimination::Med => "higher MED",
            Elimination::External => "internal",
            Elimination::InteriorCost => "farther next hop",
            Elimination::Newer => "newer than the best path",
            Elimination::RouterId => "higher router identifier",
            Elimination::ClusterList => "longer cluster list",
            Elimination::PeerAddress => "higher peer address",
        })
    }
}

/// The tables that a decision reads besides the paths.
pub(crate) struct Tables<'a, P: FamilyKey> {
    /// The prefix of the paths.
    pub prefix: P,
    pub sets: &'a Sets,
    pub resolver: &'a Resolver<P::Hop>,
    pub peers: &'a [PeerIn],
    pub lanes: &'a Lanes,
    pub rules: DecisionRules,
}

/// A path that takes part in the decision.
pub(crate) struct Candidate {
    /// The path's place among the paths of the entry.
    pub index: usize,
    pub number: PathNumber,
    pub peer: PeerIndex,
    pub set: SetId,
    weight: u16,
    local_pref: u32,
    path_length: u16,
    origin: Origin,
    neighbor_as: Asn,
    med: u32,
    cost: u32,
    /// True if a path of the same neighboring AS has a lower MULTI_EXIT_DISC.
    is_beaten: bool,
}

impl<P: FamilyKey> Tables<'_, P> {
    /// Returns the set and the interior cost of a path that takes part in the decision, or the reason why the path does not.
    #[inline]
    fn eligible(&self, path: &Path) -> Result<(SetId, u32), Elimination> {
        let set = self.sets.accepted(path.attributes).ok_or(Elimination::Rejected)?;
        if path.number.is_own() {
            if path.number == PathNumber::first_of(PeerIndex::DEFAULT) {
                return Err(Elimination::DefaultOriginate);
            }
            return Ok((set, 0));
        }
        let info = || &self.peers[usize::from(self.lanes.peer(path.number).0)].info;
        let unusable = |why| if info().source.forwards() { Err(why) } else { Ok((set, 0)) };
        match self.resolver.resolution(self.sets[set].hop) {
            Resolution::Waiting => unusable(Elimination::NextHopWaits),
            Resolution::Unreachable => unusable(Elimination::NextHopUnreachable),
            Resolution::Reachable { connected: false, .. } if info().direct => {
                Err(Elimination::NextHopNotConnected)
            }
            Resolution::Reachable { .. }
                if self.resolver.leads_to_itself(self.sets[set].hop, self.prefix) =>
            {
                unusable(Elimination::NextHopThroughItself)
            }
            Resolution::Reachable { metric, .. } => Ok((set, metric.0)),
        }
    }

    /// Returns true if a path takes part in the decision.
    pub fn is_usable(&self, path: &Path) -> bool {
        self.eligible(path).is_ok()
    }

    /// Returns true if adding `new` cannot change the best path. Holds if `new` loses to `best` pairwise and the replaced path was
    /// eliminated before the MED step: otherwise paths eliminated by the replaced path's MED could win again. The best path itself is never
    /// such a `new`.
    #[inline(never)]
    pub fn best_unchanged(&self, best: &Path, new: &Path, replaced: Option<PathSet>) -> bool {
        let loses = |path: Path| {
            let mut why = None;
            let current = Some(self.lanes.peer(best.number));
            let won = self.decide_among(&[*best, path], current, |_, lost| why = Some(lost));
            why.filter(|_| won == Some(0))
        };
        let did_not_matter =
            |attributes| loses(Path { attributes, ..*new }).is_some_and(|why| why < Elimination::Med);
        loses(*new).is_some() && replaced.is_none_or(did_not_matter)
    }

    /// Returns the index of the best path; `None` without a usable path. `current` is the peer of the best path so far. Calls `lost` with
    /// the index and the reason of every eliminated path.
    #[inline]
    pub fn decide(
        &self,
        paths: &[Path],
        current: Option<PeerIndex>,
        mut lost: impl FnMut(usize, Elimination),
    ) -> Option<usize> {
        match paths {
            [path] => self.eligible(path).map_err(|why| lost(0, why)).ok().map(|_| 0),
            paths => self.decide_among(paths, current, lost),
        }
    }

    /// Returns the best path among the paths with none of the next hops `used`; `None` without such a path.
    pub fn backup(&self, paths: &[Path], used: &[u32]) -> Option<Path> {
        let is_used = |path: &Path| self.hop(path).is_some_and(|hop| used.contains(&hop));
        let forwards =
            |path: &Path| self.peers[usize::from(self.lanes.peer(path.number).0)].info.source.forwards();
        let is_other = |path: &&Path| !path.number.is_own() && forwards(path) && !is_used(path);
        let others: SmallVec<[Path; 12]> = paths.iter().filter(is_other).copied().collect();
        self.decide(&others, None, |_, _| {}).map(|index| others[index])
    }

    /// Returns the number of a path's next hop; `None` for a rejected path.
    fn hop(&self, path: &Path) -> Option<u32> {
        self.sets.accepted(path.attributes).map(|set| self.sets[set].hop)
    }

    #[inline(never)]
    fn decide_among(
        &self,
        paths: &[Path],
        current: Option<PeerIndex>,
        mut lost: impl FnMut(usize, Elimination),
    ) -> Option<usize> {
        let mut field = self.equals(paths, &mut lost);
        let info = |c: &Candidate| &self.peers[usize::from(c.peer.0)].info;
        let view = |c: &Candidate| &self.sets[c.set].view;
        let id = |c: &Candidate| view(c).compared_id(info(c).router_id);
        if self.rules.prefer_oldest {
            // Paths with the identifier of the best one may have come over a parallel session: the rules below decide between them.
            let is_current = |c: &&Candidate| Some(c.peer) == current && !info(c).internal;
            let stays = field.iter().find(is_current).map(id);
            keep(&mut field, Elimination::Newer, &mut lost, |c| stays.is_some_and(|stays| id(c) != stays));
        }
        keep(&mut field, Elimination::RouterId, &mut lost, id);
        keep(&mut field, Elimination::ClusterList, &mut lost, |c| view(c).cluster_list_length);
        // Sources of the router's own have no address of their own: the lowest number wins. Among paths of one neighbor the first place
        // wins: identifiers mean nothing (RFC 7911, section 2).
        let place = |c: &Candidate| (c.peer, self.lanes.place(c.number));
        keep(&mut field, Elimination::PeerAddress, &mut lost, |c| (info(c).address, place(c)));
        field.first().map(|c| c.index)
    }

    /// Returns the paths left by the steps up to the interior cost: equal but for the routers. Calls `lost` like
    /// [`Tables::decide`].
    #[inline(always)]
    pub(crate) fn equals(
        &self,
        paths: &[Path],
        lost: &mut impl FnMut(usize, Elimination),
    ) -> SmallVec<[Candidate; 12]> {
        let mut field: SmallVec<[Candidate; 12]> = SmallVec::new();
        for (index, path) in paths.iter().enumerate() {
            match self.eligible(path) {
                Err(why) => lost(index, why),
                Ok((set, cost)) => {
                    let view = &self.sets[set].view;
                    field.push(Candidate {
                        index,
                        number: path.number,
                        peer: self.lanes.peer(path.number),
                        set,
                        weight: view.weight,
                        local_pref: view.local_pref,
                        path_length: view.path_length,
                        origin: view.origin,
                        neighbor_as: view.neighbor_as,
                        med: view.med.unwrap_or(self.rules.missing_med()),
                        cost,
                        is_beaten: false,
                    });
                }
            }
        }
        let info = |c: &Candidate| &self.peers[usize::from(c.peer.0)].info;
        if self.sets.has_long_lived() {
            keep(&mut field, Elimination::LongLivedStale, lost, |c| self.sets.is_long_lived(c.set));
        }
        keep(&mut field, Elimination::Originated, lost, |c| !c.peer.is_own());
        keep(&mut field, Elimination::Weight, lost, |c| Reverse(c.weight));
        keep(&mut field, Elimination::LocalPref, lost, |c| Reverse(c.local_pref));
        keep(&mut field, Elimination::PathLength, lost, |c| c.path_length);
        keep(&mut field, Elimination::Origin, lost, |c| c.origin);
        keep_lowest_med(&mut field, self.rules.always_compare_med, lost);
        keep(&mut field, Elimination::External, lost, |c| info(c).internal);
        keep(&mut field, Elimination::InteriorCost, lost, |c| c.cost);
        field
    }
}

/// Keeps the candidates with the lowest key.
fn keep<K: Ord>(
    field: &mut SmallVec<[Candidate; 12]>,
    why: Elimination,
    lost: &mut impl FnMut(usize, Elimination),
    key: impl Fn(&Candidate) -> K,
) {
    if field.len() < 2 {
        return;
    }
    let Some(best) = field.iter().map(&key).min() else { return };
    field.retain(|c| {
        let stays = key(c) == best;
        if !stays {
            lost(c.index, why);
        }
        stays
    });
}

/// Eliminates candidates by MULTI_EXIT_DISC. The value is compared only among routes of a single neighboring AS, and so does not
/// order routes in general: the beaten candidates are eliminated at once (RFC 4271, section 9.1.2.2 c). With `compares_all` the
/// values of any routes are compared.
fn keep_lowest_med(
    field: &mut SmallVec<[Candidate; 12]>,
    compares_all: bool,
    lost: &mut impl FnMut(usize, Elimination),
) {
    if field.len() < 2 {
        return;
    }
    for m in 0..field.len() {
        let (neighbor_as, med) = (field[m].neighbor_as, field[m].med);
        field[m].is_beaten =
            field.iter().any(|n| (compares_all || n.neighbor_as == neighbor_as) && n.med < med);
    }
    field.retain(|c| {
        if c.is_beaten {
            lost(c.index, Elimination::Med);
        }
        !c.is_beaten
    });
}

#[cfg(test)]
mod tests;
