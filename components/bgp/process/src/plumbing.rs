//! The parts of tables, for operators: update groups, next hops, what waits.

use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::service::{family_number, resolution};
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::table::{NextHops, Sharded, Table};
use sluice_xrl::XrlError;

impl BgpProcess {
    /// Returns the parts of a family's tables.
    pub(crate) async fn plumbing<P: Sharded>(&self) -> Result<pb::TablePlumbing, XrlError> {
        let look = |table: &mut Table| {
            let mut next_hops = NextHops::default();
            table.add_next_hops::<P>(&mut next_hops);
            let shard = P::shard(table);
            (shard.groups(), next_hops, shard.violations(), shard.refilter_progress())
        };
        let mut plumbing = pb::TablePlumbing { family: family_number(P::INDEX), ..Default::default() };
        let mut all = NextHops::default();
        for (groups, next_hops, violations, refilter) in self.ask_all(look).await? {
            let name = |peer: &PeerIndex| {
                self.read(|control| control.neighbor_address(*peer)).flatten().map(|a| a.to_string())
            };
            plumbing.groups.extend(groups.into_iter().map(|g| pb::UpdateGroup {
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
            }));
            all.add(next_hops.0);
            plumbing.refiltered_entries += refilter.visited;
            // A neighbor's routes are spread over the tables.
            plumbing.refiltering = plumbing.refiltering.max(refilter.peers as u32);
            plumbing.violations.extend(violations.iter().map(|v| format!("{v:?}")));
        }
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
