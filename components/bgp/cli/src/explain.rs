//! `sluice explain`: the reasons for the route of a prefix, from the wire to the kernel, and the receivers of the route.
//!
//! Each component is asked for its part: BGP for paths and verdicts, the manager for the policies, the RIB and the FEA for
//! their routes. Policies are run again here, on the received attributes, for the values before and after each term.

mod cause;

use crate::idl::bgp::v1 as pb;
use crate::routes::{attributes, path_json, place, sender, share, way};
use serde_json::{Value, json};
use sluice_base::{AnyPrefix, Asn, IpPrefix};
use sluice_console::{Call, Failure, Output, addr};
use sluice_policy_test::explain::Explanation;
use sluice_policy_test::{Subject, Trial, report};
use sluice_validation::{AnyVrp, PathValidity, Validity, VrpTable};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::manager::v1 as manager;
use sluice_xrl::idl::rib::v1 as rib;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The number of the kernel's main table.
const MAIN_TABLE: u32 = 254;

/// The answers of the components.
struct Answers {
    prefix: AnyPrefix,
    bgp: pb::ExplainReply,
    neighbors: BTreeMap<String, pb::Neighbor>,
    /// The running configuration's policies; `None` if the manager does not answer.
    policies: Option<Trial>,
    rib: Vec<rib::Route>,
    kernel: Vec<fea::KernelRoute>,
}

/// Answers the question of a command line.
pub async fn run(client: &pb::BgpClient, call: &Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let prefix = asked_prefix(client, call.values.text("prefix").unwrap_or_default()).await?;
    let answers = ask(client, call, prefix).await?;
    if out.is_json() {
        out.json(&answers.json());
    } else {
        answers.text().lines().for_each(|line| out.line(line));
    }
    Ok(())
}

/// Returns the prefix named by a word: a prefix, or the longest match of BGP for an address.
async fn asked_prefix(client: &pb::BgpClient, text: &str) -> Result<AnyPrefix, Failure> {
    if text.parse::<IpAddr>().is_err() {
        return text.parse().map_err(|error| {
            Failure::usage(format!("`{text}` is neither a prefix, an address nor an XID: {error}"))
        });
    }
    let (host, longest) = place(text, false)?;
    let request =
        pb::GetRoutesRequest { net: Some(host.into()), r#match: longest.into(), ..Default::default() };
    let found = client.get_routes(request).await?.routes.pop().and_then(|route| route.net);
    // An address without a route has an explanation too.
    Ok(found.and_then(|net| AnyPrefix::try_from(&net).ok()).unwrap_or(host))
}

async fn ask(client: &pb::BgpClient, call: &Call<'_>, prefix: AnyPrefix) -> Result<Answers, Failure> {
    let word = |name| call.values.text(name).map(String::from).unwrap_or_default();
    let request = pb::ExplainRequest { net: Some(prefix.into()), from: word("from"), to: word("to") };
    let bgp = client.explain(request).await?;
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    let rib = rib::RibClient::new(&call.router, "rib").with_deadline(call.timeout);
    let fea = fea::FibClient::new(&call.router, "fea").with_deadline(call.timeout);
    let routes = rib.get_routes(rib::GetRoutesRequest { exact: Some(prefix.into()), ..Default::default() });
    // What does not answer has no part in the explanation; BGP has answered.
    Ok(Answers {
        prefix,
        bgp,
        neighbors: neighbors.into_iter().map(|n| (n.address.clone(), n)).collect(),
        policies: running(call).await.and_then(|configuration| Trial::read(&configuration).ok()),
        rib: routes.await.map(|reply| reply.routes).unwrap_or_default(),
        kernel: kernel_routes(&fea, prefix).await,
    })
}

/// Returns the kernel's routes of a prefix: the route of Sluice alone if the kernel forwards by that route. No kernel has routes of XIDs.
async fn kernel_routes(client: &fea::FibClient, prefix: AnyPrefix) -> Vec<fea::KernelRoute> {
    let Some(prefix) = prefix.ip() else { return Vec::new() };
    // A look-up answers at once. The routes of a prefix are found by reading the kernel's whole table.
    let lookup = fea::LookupKernelRouteRequest { addr: Some(prefix.addr().into()) };
    if let Ok(reply) = client.lookup_kernel_route(lookup).await
        && let Some(routes) = looked_up(reply.route, prefix)
    {
        return routes;
    }
    let family = common::Family::from(prefix.family()).into();
    let request = fea::GetKernelRoutesRequest { family, exact: Some(prefix.into()), ..Default::default() };
    client.get_kernel_routes(request).await.map(|reply| reply.routes).unwrap_or_default()
}

/// Returns the kernel's routes of a prefix after a look-up of the prefix's first address in all tables; `None` after an answer with a route
/// inside the prefix, of another program or of another table: the whole table has to be read.
fn looked_up(found: Option<fea::KernelRoute>, prefix: IpPrefix) -> Option<Vec<fea::KernelRoute>> {
    let Some(route) = found else { return Some(Vec::new()) };
    let net = IpPrefix::try_from(route.net.as_ref()?).ok()?;
    if route.table != MAIN_TABLE || net.len() > prefix.len() {
        return None;
    }
    if net.len() < prefix.len() {
        return Some(Vec::new());
    }
    route.ours.then(|| vec![route])
}

/// Returns the running configuration; `None` if the manager does not answer.
async fn running(call: &Call<'_>) -> Option<Value> {
    let client = manager::ConfigurationClient::new(&call.router, "manager").with_deadline(call.timeout);
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let which = Some(manager::Which { which: Some(manager::which::Which::Back(0)) });
        let form = manager::Form::Json.into();
        let reply = client.show(manager::ShowRequest { which, path: Vec::new(), form, offset }).await.ok()?;
        text.push_str(&reply.text);
        offset = reply.next_offset;
        if offset == 0 {
            return serde_json::from_str(&text).ok();
        }
    }
}

impl Answers {
    /// Returns the steps of a neighbor's policies on a path.
    fn steps(
        &self,
        neighbor: &str,
        is_import: bool,
        canonical: &[u8],
        path: &pb::Path,
    ) -> Vec<(String, Explanation)> {
        let (Some(trial), Some(known)) = (&self.policies, self.neighbors.get(neighbor)) else {
            return Vec::new();
        };
        let Ok(address) = neighbor.parse::<IpAddr>() else { return Vec::new() };
        let names = if is_import { &known.import } else { &known.export };
        let present = self.bgp.present.iter().filter_map(|net| IpPrefix::try_from(net).ok());
        let subject = Subject {
            present: present.collect(),
            octets: canonical.to_vec(),
            next_hop: path.next_hop.parse().ok(),
            // A dynamic neighbor is in no configuration.
            neighbor: Some(address),
            neighbor_as: Some(known.peer_as),
            group: Some(known.group.clone()).filter(|group| !group.is_empty()),
            origins: self.bgp.validated.then(|| VrpTable::new(self.covering())),
            aspa: PathValidity::NAMES.iter().position(|name| *name == path.aspa).map(|place| place as u32),
            ..Subject::new(self.prefix)
        };
        trial.chain(names, address, subject)
    }

    /// Iterates over the validated ROA payloads that cover the prefix.
    fn covering(&self) -> impl Iterator<Item = AnyVrp> + '_ {
        self.bgp.payloads.iter().filter_map(|payload| {
            let prefix = IpPrefix::try_from(payload.net.as_ref()?).ok()?;
            AnyVrp::new(prefix, u8::try_from(payload.max_length).ok()?, Asn(payload.asn))
        })
    }

    /// Returns the payloads that cover the prefix, in words.
    fn payloads(&self) -> String {
        let all: Vec<String> = self.covering().map(|payload| payload.to_string()).collect();
        match all.is_empty() {
            true => "no payload covers the prefix".into(),
            false => all.join(", "),
        }
    }

    /// Describes a neighbor of a listen range; empty for neighbors that are configured themselves, and for this router.
    fn kind(&self, neighbor: &str) -> String {
        let range = self.neighbors.get(neighbor).map(|known| &*known.range).filter(|range| !range.is_empty());
        range.map_or_else(String::new, |range| format!(" (dynamic, of the listen range {range})"))
    }

    /// Returns the steps of import policies on the received attributes of a path, with additions by rules of BGP.
    fn import_steps(&self, path: &pb::Path) -> Vec<(String, Explanation)> {
        let came = path.received.as_deref().unwrap_or(path);
        let octets = if path.entered.is_empty() { &came.canonical } else { &path.entered };
        self.steps(&path.neighbor, true, octets, came)
    }

    /// Returns the steps of the best path on its way to a neighbor.
    fn export_steps(&self, export: &pb::Export) -> Vec<(String, Explanation)> {
        let best = self.bgp.paths.iter().find(|path| path.best);
        best.map_or_else(Vec::new, |best| self.steps(&export.neighbor, false, &best.canonical, best))
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.prefix, self.cause());
        for path in &self.bgp.paths {
            let kind = self.kind(&path.neighbor);
            text.push_str(&format!("from {}{kind}: {}\n", sender(path), standing(path)));
            let came = path.received.as_deref().unwrap_or(path);
            text.push_str(&format!("  as it came: next hop {}\n", came.next_hop));
            attributes(came, "    ", &mut text);
            if self.bgp.validated || path.validation != Validity::Unknown.name() {
                text.push_str(&format!("  origin {}: {}\n", path.validation, self.payloads()));
            }
            if !path.aspa.is_empty() && path.aspa != PathValidity::Unknown.name() {
                text.push_str(&format!("  AS path {} by ASPAs\n", path.aspa));
            }
            self.put_steps(&self.import_steps(path), &path.neighbor, &mut text);
            if path.received.is_some() && path.rejected_by.is_empty() {
                text.push_str(&format!("  after import: next hop {}\n", path.next_hop));
                attributes(path, "    ", &mut text);
            }
            if path.rejected_by.is_empty() && !path.neighbor.is_empty() {
                let (cost, way) = (path.interior_cost, way(path));
                text.push_str(&format!(
                    "  next hop {} is {}{way}, interior cost {cost}\n",
                    path.next_hop, path.resolution
                ));
            }
        }
        self.put_aggregates(&mut text);
        for dropped in &self.bgp.dropped {
            text.push_str(&format!("from {}: dropped: {}\n", dropped.neighbor, dropped.cause));
        }
        for route in &self.rib {
            let selected = if route.selected { "selected" } else { "not selected" };
            let hops = hops(route.forwarding.as_ref());
            let (origin, distance, metric) = (&route.origin, route.distance, route.metric);
            text.push_str(&format!(
                "RIB: {origin} {selected}, distance {distance}, metric {metric}, {hops}\n"
            ));
        }
        for route in &self.kernel {
            let owner = if route.ours { "ours" } else { "of another program" };
            let source = route.source.as_ref().map(|source| format!(", source {}", addr(Some(source))));
            text.push_str(&format!(
                "kernel: {owner}, metric {}, {}{}\n",
                route.metric,
                hops(route.forwarding.as_ref()),
                source.unwrap_or_default()
            ));
        }
        for export in &self.bgp.exports {
            let verdict =
                if export.cause.is_empty() { "sent".into() } else { format!("not sent: {}", export.cause) };
            let kind = self.kind(&export.neighbor);
            text.push_str(&format!("to {}{kind}: {verdict}\n", export.neighbor));
            self.put_steps(&self.export_steps(export), &export.neighbor, &mut text);
            for path in export.path.iter().chain(&export.others) {
                let path_id = path.path_id.map_or_else(String::new, |id| format!(" as path {id}"));
                text.push_str(&format!("  as sent{path_id}: next hop {}\n", path.next_hop));
                attributes(path, "    ", &mut text);
            }
            for path in &export.not_sent {
                let (neighbor, path_id) = (path.neighbor.clone(), path.path_id);
                let from = sender(&pb::Path { neighbor, path_id, ..pb::Path::default() });
                text.push_str(&format!("  path from {from} not sent: {}\n", path.cause));
            }
        }
        text
    }

    /// Appends the contributors of the aggregate of this prefix, and the part of the prefix in aggregates of shorter ones.
    fn put_aggregates(&self, text: &mut String) {
        let (number, named) = (self.bgp.contributors, &self.bgp.contributing);
        if number > 0 {
            let more = if named.len() < number as usize { ", ..." } else { "" };
            text.push_str(&format!("aggregate of {number} contributors: {}{more}\n", named.join(", ")));
        }
        for aggregate in &self.bgp.aggregates {
            let standing = match (aggregate.contributes, aggregate.summary_only) {
                (false, _) => "does not contribute",
                (true, false) => "contributes",
                (true, true) => "contributes, and is not announced beside it (summary-only)",
            };
            text.push_str(&format!("aggregate {}: the route {standing}\n", aggregate.prefix));
        }
    }

    fn put_steps(&self, steps: &[(String, Explanation)], neighbor: &str, text: &mut String) {
        let default = neighbor.parse().ok().and_then(|address| {
            let trial = self.policies.as_ref()?;
            Some(trial.default_of(trial.neighbor(address).ok()?))
        });
        for (number, (name, explanation)) in steps.iter().enumerate() {
            let mut lines = String::new();
            // The default decides where the last policy does not.
            let default = default.filter(|_| number + 1 == steps.len());
            report::explain(name, explanation, default, &mut lines);
            lines.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }

    fn json(&self) -> Value {
        let steps = |steps: Vec<(String, Explanation)>| -> Vec<Value> {
            steps.iter().map(|(name, explanation)| report::explanation_json(name, explanation)).collect()
        };
        let paths = self.bgp.paths.iter().map(|path| {
            let mut value = path_json(path);
            value["policies"] = steps(self.import_steps(path)).into();
            value
        });
        let exports = self.bgp.exports.iter().map(|export| {
            json!({
                "neighbor": export.neighbor, "sent": export.cause.is_empty(), "cause": export.cause,
                "path": export.path.as_ref().map(path_json), "others": export.others.iter().map(path_json).collect::<Vec<_>>(),
                "not_sent": export.not_sent.iter().map(|path| json!({
                    "neighbor": path.neighbor, "path_id": path.path_id, "cause": path.cause,
                })).collect::<Vec<_>>(),
                "policies": steps(self.export_steps(export)),
            })
        });
        let dropped = |dropped: &pb::Dropped| json!({ "neighbor": dropped.neighbor, "cause": dropped.cause });
        let rib = self.rib.iter().map(|route| {
            json!({
                "origin": route.origin, "selected": route.selected, "distance": route.distance,
                "metric": route.metric, "rejected": route.rejected, "rejected_by_policy": route.rejected_by_policy,
                "forwarding": hops(route.forwarding.as_ref()),
            })
        });
        let kernel = self.kernel.iter().map(|route| {
            json!({
                "ours": route.ours, "metric": route.metric, "forwarding": hops(route.forwarding.as_ref()),
                "source": route.source.as_ref().map(|source| addr(Some(source))),
            })
        });
        json!({
            "prefix": self.prefix.to_string(), "cause": self.cause(), "paths": paths.collect::<Vec<_>>(),
            "dropped": self.bgp.dropped.iter().map(dropped).collect::<Vec<_>>(), "rib": rib.collect::<Vec<_>>(), "kernel": kernel.collect::<Vec<_>>(),
            "exports": exports.collect::<Vec<_>>(), "validated": self.bgp.validated,
            "aggregates": self.bgp.aggregates.iter().map(|aggregate| json!({
                "prefix": aggregate.prefix, "summary_only": aggregate.summary_only, "contributes": aggregate.contributes,
            })).collect::<Vec<_>>(),
            "contributors": self.bgp.contributors, "contributing": self.bgp.contributing,
            "payloads": self.covering().map(|payload| json!({
                "prefix": payload.prefix().to_string(), "max_length": payload.max_length(), "asn": payload.asn().0,
            })).collect::<Vec<_>>(),
        })
    }
}

/// Describes the standing of a path.
fn standing(path: &pb::Path) -> String {
    let share = share(path);
    let stale = if path.stale { format!("{share} (of a lost session)") } else { share };
    match (path.best, path.rejected_by.as_str()) {
        (true, _) => format!("best{stale}"),
        (false, "") if path.reason.is_empty() => format!("not the best{stale}"),
        (false, "") => format!("not the best: {}{stale}", path.reason),
        (false, by) => format!("rejected on import: {by}{stale}"),
    }
}

fn hops(forwarding: Option<&common::Forwarding>) -> String {
    let Some(forwarding) = forwarding else { return "unresolved".into() };
    match forwarding.kind() {
        common::ForwardingKind::Discard => "discard".into(),
        common::ForwardingKind::Reject => "reject".into(),
        common::ForwardingKind::Local => "to this host".into(),
        common::ForwardingKind::NextHops => {
            let is_weighted = forwarding.next_hops.iter().any(|hop| hop.weight > 1);
            let hop = |hop: &common::NextHop| {
                let way = match &hop.gateway {
                    Some(gateway) => format!("via {}", addr(Some(gateway))),
                    None => "on its interface".into(),
                };
                if is_weighted { format!("{way} weight {}", hop.weight.max(1)) } else { way }
            };
            forwarding.next_hops.iter().map(hop).collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_up_prints_the_route_of_a_prefix_or_that_there_is_none() {
        let route = |net: &str, table: u32, ours: bool| fea::KernelRoute {
            net: Some(net.parse::<IpPrefix>().expect("a prefix").into()),
            table,
            ours,
            ..Default::default()
        };
        let matches = |found: Option<fea::KernelRoute>| {
            looked_up(found, "10.0.0.0/16".parse().expect("a prefix")).map(|routes| routes.len())
        };
        assert_eq!(matches(Some(route("10.0.0.0/16", MAIN_TABLE, true))), Some(1));
        assert_eq!(matches(Some(route("10.0.0.0/8", MAIN_TABLE, true))), Some(0));
        assert_eq!(matches(None), Some(0));
        // The whole table decides.
        assert_eq!(matches(Some(route("10.0.0.0/24", MAIN_TABLE, true))), None);
        assert_eq!(matches(Some(route("10.0.0.0/16", MAIN_TABLE, false))), None);
        assert_eq!(matches(Some(route("10.0.0.0/8", 255, true))), None);
    }
}
