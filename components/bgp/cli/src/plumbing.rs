//! `show bgp plumbing`: the stages that BGP's routes pass, in order, with the counters of each.

use crate::families::family;
use crate::idl::bgp::v1 as pb;
use serde_json::{Value, json};
use sluice_console::{Failure, Output, counted};

/// The stages of an address family, summed over BGP's tables.
struct Stages {
    family: &'static str,
    /// Neighbors that agreed on the family and whose sessions are established.
    neighbors: u64,
    /// Paths in Adj-RIB-In.
    received: u64,
    /// Paths that import policy rejects; Adj-RIB-In keeps them.
    rejected: u64,
    /// Entries that were visited after changes of import policies.
    refiltered: u64,
    /// Neighbors whose routes are decided on again at present.
    refiltering: u64,
    table: pb::Table,
    next_hops: NextHops,
    groups: Vec<pb::UpdateGroup>,
    violations: Vec<String>,
}

/// Next hops, by resolution.
#[derive(Default)]
struct NextHops {
    reachable: u64,
    unreachable: u64,
    /// The RIB has not answered yet.
    waiting: u64,
}

/// Shows the stages of all families.
///
/// # Errors
///
/// BGP does not answer.
pub async fn plumbing(client: &pb::BgpClient, out: &mut Output) -> Result<(), Failure> {
    let summary = client.get_summary(pb::GetSummaryRequest {}).await?;
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    let reply = client.get_plumbing(pb::GetPlumbingRequest {}).await?;
    let of = |table: &pb::TablePlumbing| Stages::of(table, &summary.tables, &neighbors);
    let all: Vec<Stages> = reply.tables.iter().map(of).collect();
    if out.is_json() {
        out.json(&json!({ "tables": all.iter().map(Stages::json).collect::<Vec<_>>() }));
        return Ok(());
    }
    for (number, stages) in all.iter().enumerate() {
        if number > 0 {
            out.line("");
        }
        stages.lines().iter().for_each(|line| out.line(line));
    }
    Ok(())
}

impl Stages {
    fn of(plumbing: &pb::TablePlumbing, tables: &[pb::Table], neighbors: &[pb::Neighbor]) -> Self {
        let established = neighbors.iter().filter(|neighbor| neighbor.uptime_ms > 0);
        let known: Vec<&pb::NeighborFamily> = established
            .flat_map(|neighbor| &neighbor.families)
            .filter(|known| known.family == plumbing.family && known.negotiated)
            .collect();
        let mut next_hops = NextHops::default();
        for hop in &plumbing.next_hops {
            match hop.resolution.as_str() {
                "reachable" => next_hops.reachable += 1,
                "unreachable" => next_hops.unreachable += 1,
                _ => next_hops.waiting += 1,
            }
        }
        Stages {
            family: family(plumbing.family),
            neighbors: known.len() as u64,
            received: known.iter().map(|known| known.prefixes_received).sum(),
            rejected: known.iter().map(|known| known.prefixes_rejected).sum(),
            refiltered: plumbing.refiltered_entries,
            refiltering: plumbing.refiltering.into(),
            table: tables.iter().find(|table| table.family == plumbing.family).copied().unwrap_or_default(),
            next_hops,
            groups: plumbing.groups.clone(),
            violations: plumbing.violations.clone(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let Stages { table, next_hops, .. } = self;
        let stage = |name: &str, text: String| format!("  {name:<16}{text}");
        let mut lines = vec![
            self.family.to_string(),
            stage("Adj-RIB-In", {
                let paths = counted(self.received, "path", "paths");
                let neighbors = counted(self.neighbors, "neighbor", "neighbors");
                format!("{paths} of {neighbors}; {} stale", table.stale)
            }),
            stage("import policy", {
                let rejected = counted(self.rejected, "path", "paths");
                let again = counted(self.refiltered, "prefix", "prefixes");
                let now = match self.refiltering {
                    0 => String::new(),
                    busy => format!(", at present for {}", counted(busy, "neighbor", "neighbors")),
                };
                format!("{rejected} rejected; {again} decided again after changes{now}")
            }),
            stage("next hops", {
                let NextHops { reachable, unreachable, waiting } = next_hops;
                format!("{reachable} reachable, {unreachable} unreachable, {waiting} waiting for the RIB")
            }),
            stage("decision", {
                let sets = counted(table.attribute_sets, "attribute set", "attribute sets");
                format!("{}, {sets}", counted(table.prefixes, "prefix", "prefixes"))
            }),
            stage("change queue", counted(table.queued, "change", "changes")),
            stage("-> RIB", counted(table.in_rib, "route", "routes")),
        ];
        for group in &self.groups {
            let kind = if group.internal { "internal" } else { "external" };
            let behind = counted(group.behind, "change", "changes");
            let blocks = counted(group.blocks, "block", "blocks");
            let check = if group.checked { ", checked" } else { "" };
            let members = group.members.join(" ");
            lines.push(stage("-> group", format!("{kind}, {behind} behind, {blocks}{check}: {members}")));
        }
        lines.extend(self.violations.iter().map(|text| stage("broken rule", text.clone())));
        lines
    }

    fn json(&self) -> Value {
        let Stages { table, next_hops, .. } = self;
        let groups = self.groups.iter().map(|group| {
            json!({
                "internal": group.internal, "behind": group.behind, "blocks": group.blocks,
                "checked": group.checked, "members": group.members,
            })
        });
        json!({
            "family": self.family, "neighbors": self.neighbors, "received": self.received, "stale": table.stale,
            "rejected": self.rejected, "refiltered": self.refiltered, "refiltering": self.refiltering,
            "next_hops": {
                "reachable": next_hops.reachable, "unreachable": next_hops.unreachable,
                "waiting": next_hops.waiting,
            },
            "prefixes": table.prefixes, "attribute_sets": table.attribute_sets, "queued": table.queued,
            "in_rib": table.in_rib, "groups": groups.collect::<Vec<_>>(), "violations": self.violations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_xrl::idl::common::v1 as common;

    #[test]
    fn stages_are_lines_in_the_order_of_routes() {
        let family = common::Family::Ipv4.into();
        let known = pb::NeighborFamily {
            family,
            negotiated: true,
            prefixes_received: 3,
            prefixes_rejected: 1,
            ..Default::default()
        };
        let up = pb::Neighbor { uptime_ms: 5, families: vec![known.clone()], ..Default::default() };
        let down = pb::Neighbor { families: vec![known], ..Default::default() };
        let hop = |resolution: &str| pb::NextHop { resolution: resolution.into(), ..Default::default() };
        let part =
            |behind| pb::UpdateGroup { members: vec!["10.0.0.2".into()], behind, ..Default::default() };
        let plumbing = pb::TablePlumbing {
            family,
            groups: vec![part(7)],
            next_hops: vec![hop("reachable"), hop("unreachable"), hop("waiting")],
            violations: vec![],
            refiltered_entries: 12,
            refiltering: 1,
        };
        let table = pb::Table {
            family,
            prefixes: 2,
            attribute_sets: 1,
            in_rib: 2,
            stale: 0,
            queued: 7,
            multipath: 0,
        };
        let stages = Stages::of(&plumbing, &[table], &[up, down]);
        let expected = "ipv4
  Adj-RIB-In      3 paths of 1 neighbor; 0 stale
  import policy   1 path rejected; 12 prefixes decided again after changes, at present for 1 neighbor
  next hops       1 reachable, 1 unreachable, 1 waiting for the RIB
  decision        2 prefixes, 1 attribute set
  change queue    7 changes
  -> RIB          2 routes
  -> group        external, 7 changes behind, 0 blocks: 10.0.0.2";
        assert_eq!(stages.lines().join("\n"), expected);
    }
}
