//! Hits of a policy, for operators: the tables count in slices, and other work has its turn between two slices.

use super::Answer;
use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::{family_number, not_configured};
use sluice_bgp::family::{FamilyVisitor, Sharded};
use sluice_bgp::shard::{PeerIndex, PolicyHits, PolicyUse};
use sluice_bgp::table::Table;
use sluice_xrl::XrlError;
use std::sync::Arc;

/// Entries, paths and update groups of a table in a slice, after which other work has its turn: a few milliseconds.
const SLICE: usize = 4096;

/// Returns the uses of a policy in a family.
pub(crate) struct PolicyUses<'a> {
    pub process: &'a BgpProcess,
    pub policy: &'a str,
}

impl<'a> FamilyVisitor for PolicyUses<'a> {
    type Output = Answer<'a, Vec<pb::PolicyUse>>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::pin(self.process.policy_uses::<P>(self.policy))
    }
}

impl BgpProcess {
    /// Returns the uses of a policy with routes in a family, with the hits of each term.
    async fn policy_uses<P: Sharded>(&self, policy: &str) -> Result<Vec<pb::PolicyUse>, XrlError> {
        let policy: Arc<str> = policy.into();
        let tables = self.core().map_or(0, |core| core.post.tables.len());
        let mut hits = PolicyHits::new();
        for number in 0..tables {
            let mut from = Some(0);
            while let Some(place) = from {
                let (policy, mut counted) = (Arc::clone(&policy), std::mem::take(&mut hits));
                let slice = move |table: &Table| {
                    let next = table.shard::<P>().count_hits(&policy, place, SLICE, &mut counted);
                    (counted, next)
                };
                (hits, from) = self.ask(number, slice).await?.ok_or_else(not_configured)?;
            }
        }
        let family = family_number(P::INDEX);
        let with_routes = hits.into_iter().filter(|(_, counts)| counts.routes > 0);
        let of = with_routes.map(|(place, counts)| {
            let terms = counts.terms.into_iter().map(|(term, routes)| pb::TermHits { term, routes });
            pb::PolicyUse { family, routes: counts.routes, terms: terms.collect(), ..self.place(place) }
        });
        Ok(of.collect())
    }

    /// Describes a use of a policy.
    fn place(&self, place: PolicyUse) -> pb::PolicyUse {
        let (direction, peers, origin) = match place {
            PolicyUse::Import(peer) => ("import", vec![peer], String::new()),
            PolicyUse::Source(name) => ("import", Vec::new(), name),
            PolicyUse::Export(peers) => ("export", peers, String::new()),
            PolicyUse::FurtherPaths(peers) => ("add-path", peers, String::new()),
        };
        let group = self.common_group(&peers);
        let name = |peer: PeerIndex| self.read(|control| control.neighbor_address(peer)).flatten();
        let neighbors = peers.into_iter().filter_map(name).map(|address| address.to_string()).collect();
        pb::PolicyUse { direction: direction.into(), neighbors, origin, group, ..pb::PolicyUse::default() }
    }

    /// Returns the common group of neighbors in the configuration; empty without a common group.
    fn common_group(&self, peers: &[PeerIndex]) -> String {
        let group = |peer: &PeerIndex| {
            let group = |control: &sluice_bgp::speaker::Control| {
                let address = control.neighbor_address(*peer)?;
                control.neighbor_config(address)?.group.clone()
            };
            self.read(group).flatten().unwrap_or_default()
        };
        let mut groups = peers.iter().map(group);
        let first = groups.next().unwrap_or_default();
        if groups.all(|other| other == first) { first } else { String::new() }
    }
}
