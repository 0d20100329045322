//! The parts of tables, for operators: update groups, next hops, queues.

use super::Answer;
use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::{family_number, resolution};
use sluice_bgp::family::{FamilyVisitor, Sharded};
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::table::{NextHops, Table};
use sluice_xrl::XrlError;
use std::collections::BTreeMap;

/// Returns the parts of a family's tables.
pub(crate) struct Plumbing<'a>(pub &'a BgpProcess);

impl<'a> FamilyVisitor for Plumbing<'a> {
    type Output = Answer<'a, pb::TablePlumbing>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::pin(self.0.plumbing::<P>())
    }
}

impl BgpProcess {
    /// Returns the parts of a family's tables.
    async fn plumbing<P: Sharded>(&self) -> Result<pb::TablePlumbing, XrlError> {
        let look = |table: &Table| {
            let mut next_hops = NextHops::default();
            table.add_next_hops::<P>(&mut next_hops);
            let shard = table.shard::<P>();
            (shard.groups(), next_hops, shard.violations(), shard.refilter_progress())
        };
        let mut plumbing = pb::TablePlumbing { family: family_number(P::INDEX), ..Default::default() };
        let (mut all, mut all_groups) = (NextHops::default(), Groups::default());
        for (groups, next_hops, violations, refilter) in self.ask_all(look).await? {
            let name = |peer: &PeerIndex| {
                self.read(|control| control.neighbor_address(*peer)).flatten().map(|a| a.to_string())
            };
            for g in groups {
                let part = pb::UpdateGroup {
                    internal: g.view.internal,
                    four_octet_as: g.view.four_octet_as,
                    link_local: g.view.link_local,
                    next_hop_self: g.view.next_hop_self,
                    members: g.members.iter().filter_map(name).collect(),
                    blocks: u32::try_from(g.blocks).unwrap_or(u32::MAX),
                    behind: g.behind,
                    checked: g.checked,
                    route_reflector_clients: g.view.reflection.is_some_and(|rules| rules.to_clients),
                    transparent: g.view.transparent,
                };
                all_groups.add(part);
            }
            all.add(next_hops.0);
            plumbing.refiltered_entries += refilter.visited;
            // A neighbor's routes are spread over the tables.
            plumbing.refiltering = plumbing.refiltering.max(refilter.peers as u32);
            plumbing.violations.extend(violations.iter().map(|v| format!("{v:?}")));
        }
        plumbing.groups = all_groups.all;
        plumbing.next_hops = all
            .0
            .into_iter()
            .map(|(hop, (known, paths))| {
                let (resolution, interior_cost) = resolution(known);
                let address = hop.address.to_string();
                pb::NextHop { address, resolution, interior_cost, paths: paths.into() }
            })
            .collect();
        Ok(plumbing)
    }
}

/// The update groups of a family, in the tables' order. A group has a part in each table.
#[derive(Default)]
struct Groups {
    all: Vec<pb::UpdateGroup>,
    pub(crate) places: BTreeMap<([bool; 5], Vec<String>), usize>,
}

impl Groups {
    /// Adds a table's part of a group to earlier tables' parts.
    fn add(&mut self, part: pb::UpdateGroup) {
        let properties = [
            part.internal,
            part.four_octet_as,
            part.link_local,
            part.next_hop_self,
            part.route_reflector_clients || part.transparent,
        ];
        let place = *self.places.entry((properties, part.members.clone())).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(group) => {
                group.blocks = group.blocks.saturating_add(part.blocks);
                group.behind += part.behind;
                group.checked |= part.checked;
            }
            None => self.all.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_several_tables_is_one() {
        let part = |member: &str, internal, behind| pb::UpdateGroup {
            internal,
            members: vec![member.into()],
            blocks: 1,
            behind,
            ..pb::UpdateGroup::default()
        };
        let mut groups = Groups::default();
        for one in [part("10.0.0.2", false, 1), part("10.0.0.3", false, 2), part("10.0.0.2", false, 5)] {
            groups.add(one);
        }
        let counts: Vec<_> = groups.all.iter().map(|g| (g.members.join(" "), g.blocks, g.behind)).collect();
        assert_eq!(counts, [("10.0.0.2".into(), 2, 6), ("10.0.0.3".into(), 1, 2)]);
        groups.add(part("10.0.0.2", true, 0));
        assert_eq!(groups.all.len(), 3, "other routes for the same neighbor");
    }
}
