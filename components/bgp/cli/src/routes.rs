//! BGP's routes, a line for each path or with all attributes.

use crate::idl::bgp::v1 as pb;
use crate::pages::Pages;
use serde_json::{Value, json};
use sluice_base::{AnyPrefix, FamilyId, IpPrefix, Xid};
use sluice_cli::Values;
use sluice_console::{Failure, Output, net as prefix_text};
use sluice_xrl::idl::common::v1 as common;

/// The routes between this router and a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Received routes, before import policy.
    Received,
    /// Accepted routes, changed by import policy.
    Accepted,
    /// Received routes, rejected by import policy.
    Rejected,
    /// Announced routes.
    Advertised,
}

/// The requested part of BGP's routes, and the form of the output.
pub struct RoutesArgs {
    place: Option<String>,
    longer: bool,
    detail: bool,
    family: common::Family,
    limit: Option<u64>,
    request: pb::GetRoutesRequest,
}

impl RoutesArgs {
    /// Reads the arguments of a command line.
    pub fn from_values(values: &Values) -> Self {
        let text = |name| values.text(name).map(String::from).unwrap_or_default();
        let verdict = match (values.has("accepted"), values.has("rejected")) {
            (true, false) => pb::Verdict::Accepted,
            (false, true) => pb::Verdict::Rejected,
            _ => pb::Verdict::Any,
        };
        RoutesArgs {
            place: values.text("place").map(String::from),
            longer: values.has("longer"),
            detail: values.has("detail"),
            family: asked_family(values),
            limit: values.number("limit"),
            request: pb::GetRoutesRequest {
                received_from: text("received-from"),
                advertised_to: text("advertised-to"),
                communities: values.text("community").map(String::from).into_iter().collect(),
                as_path: text("as-path"),
                origin_as: values.number("origin-as").map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
                verdict: verdict.into(),
                ..pb::GetRoutesRequest::default()
            },
        }
    }

    /// Requests the routes between this router and a neighbor.
    pub fn of_neighbor(values: &Values, address: &str, part: Part) -> Self {
        let mut args = Self::from_values(values);
        let of = address.to_string();
        match part {
            Part::Advertised => args.request.advertised_to = of,
            _ => args.request.received_from = of,
        }
        args.request.as_received = matches!(part, Part::Received | Part::Rejected);
        args.request.verdict = match part {
            Part::Accepted => pb::Verdict::Accepted,
            Part::Rejected => pb::Verdict::Rejected,
            Part::Received | Part::Advertised => pb::Verdict::Any,
        }
        .into();
        if address.contains(':') && args.family == common::Family::Ipv4 {
            args.family = common::Family::Ipv6;
        }
        args
    }

    /// Returns the request for all the routes of a family.
    pub(crate) fn into_request(self, family: common::Family) -> pb::GetRoutesRequest {
        pb::GetRoutesRequest { family: family.into(), ..self.request }
    }

    /// Returns the family of the routes.
    pub fn family(&self) -> common::Family {
        self.family
    }
}

/// Returns the family that the flags of a command line ask for.
fn asked_family(values: &Values) -> common::Family {
    match (values.has("xid"), values.has("v6")) {
        (true, _) => common::Family::Xid,
        (false, true) => common::Family::Ipv6,
        (false, false) => common::Family::Ipv4,
    }
}

/// Returns the prefix that a word of a command line names, and the routes that are meant by it: those of a prefix, or the one by which an
/// address or an XID is forwarded.
pub fn place(text: &str, longer: bool) -> Result<(AnyPrefix, pb::Match), Failure> {
    let of_prefix = if longer { pb::Match::Longer } else { pb::Match::Exact };
    if let Ok(addr) = text.parse::<std::net::IpAddr>() {
        let width = if addr.is_ipv4() { 32 } else { 128 };
        let prefix = IpPrefix::new(addr, width).map(AnyPrefix::from);
        return prefix
            .map(|prefix| (prefix, pb::Match::Longest))
            .ok_or_else(|| Failure::failed("no address"));
    }
    match text.parse::<AnyPrefix>() {
        Ok(prefix) if text.parse::<Xid>().is_ok() => Ok((prefix, pb::Match::Longest)),
        Ok(prefix) => Ok((prefix, of_prefix)),
        Err(error) => {
            Err(Failure::failed(format!("`{text}` is neither an address, a prefix nor an XID: {error}")))
        }
    }
}

/// Returns the family of a prefix.
fn family_of(prefix: AnyPrefix) -> common::Family {
    match prefix.family() {
        FamilyId::IPV6 => common::Family::Ipv6,
        FamilyId::XID => common::Family::Xid,
        _ => common::Family::Ipv4,
    }
}

/// Returns the words for the route to a path's next hop.
pub fn way(path: &pb::Path) -> String {
    if path.resolved_by.is_empty() { String::new() } else { format!(" through {}", path.resolved_by) }
}

pub(crate) fn path_json(p: &pb::Path) -> Value {
    json!({
        "neighbor": p.neighbor, "best": p.best, "reason": p.reason, "stale": p.stale, "next_hop": p.next_hop,
        "resolution": p.resolution, "interior_cost": p.interior_cost, "resolved_by": p.resolved_by, "as_path": p.as_path, "origin": p.origin,
        "med": p.med, "local_pref": p.local_pref, "communities": p.communities,
        "large_communities": p.large_communities, "extended_communities": p.extended_communities,
        "atomic_aggregate": p.atomic_aggregate, "aggregator": p.aggregator, "weight": p.weight, "tags": p.tags,
        "rib_distance": p.rib_distance, "blackhole": p.blackhole, "rejected_by": p.rejected_by,
        "validation": p.validation, "aspa": p.aspa, "path_id": p.path_id, "multipath_weight": p.multipath_weight,
        "left_out": p.left_out, "removed": p.removed, "damping": p.damping,
        "received": p.received.as_ref().map(|came| json!({
            "next_hop": came.next_hop, "as_path": came.as_path, "origin": came.origin, "med": came.med,
            "local_pref": came.local_pref, "communities": came.communities,
            "large_communities": came.large_communities, "extended_communities": came.extended_communities,
        })),
    })
}

/// Returns the widths of address columns by family.
fn widths(family: common::Family) -> (usize, usize) {
    match family {
        common::Family::Xid => (45, 45),
        common::Family::Ipv6 => (32, 26),
        _ => (18, 15),
    }
}

fn heading(family: common::Family) -> String {
    let (net, hop) = widths(family);
    format!(
        "*: best, =: used beside the best, x: rejected by import policy, s: stale, !: next hop not reachable\n  {:<net$} {:<hop$} {:>5} {:>10} AS path and origin (i, e, ?)\n",
        "prefix", "next hop", "pref", "MED"
    )
}

/// The paths of a route, a line each; the prefix stands in the first.
fn lines(route: &pb::Route, family: common::Family) -> String {
    let (width, hop) = widths(family);
    let mut net = prefix_text(route.net.as_ref());
    let mut text = String::new();
    for p in &route.paths {
        let mark = match (p.stale, p.best, p.resolution.as_str()) {
            _ if !p.rejected_by.is_empty() => 'x',
            (true, ..) => 's',
            (_, true, _) => '*',
            _ if p.multipath_weight.is_some() => '=',
            (_, _, "unreachable") => '!',
            _ => ' ',
        };
        let number = |n: Option<u32>| n.map_or_else(|| "-".to_string(), |n| n.to_string());
        let origin = match p.origin.as_str() {
            "igp" => "i",
            "egp" => "e",
            _ => "?",
        };
        let as_path = if p.as_path.is_empty() { String::new() } else { format!("{} ", p.as_path) };
        text.push_str(&format!(
            "{mark} {net:<width$} {:<hop$} {:>5} {:>10} {as_path}{origin}\n",
            p.next_hop,
            number(p.local_pref),
            number(p.med),
        ));
        net.clear();
    }
    text
}

/// Returns the details of a route in several lines.
fn detail(route: &pb::Route) -> String {
    let mut text = format!("{}\n", prefix_text(route.net.as_ref()));
    for p in &route.paths {
        let from = sender(p);
        let standing = match (p.best, p.reason.is_empty()) {
            (true, _) => "best".to_string(),
            (false, true) => "not the best".to_string(),
            (false, false) if p.rejected_by.is_empty() => format!("not the best: {}", p.reason),
            (false, false) => format!("rejected on import: {}", p.rejected_by),
        };
        let stale = if p.stale { ", stale" } else { "" };
        let share = share(p);
        text.push_str(&format!("  from {from} ({standing}{share}{stale})\n"));
        text.push_str(&format!(
            "    next hop {} ({}{}, interior cost {})\n",
            p.next_hop,
            p.resolution,
            way(p),
            p.interior_cost
        ));
        attributes(p, "    ", &mut text);
        if let Some(came) = &p.received {
            text.push_str(&format!("    as received, next hop {}\n", came.next_hop));
            attributes(came, "      ", &mut text);
        }
        if !p.aggregator.is_empty() {
            let atomic = if p.atomic_aggregate { ", atomic" } else { "" };
            text.push_str(&format!("    aggregated by AS {}{atomic}\n", p.aggregator));
        }
        for other in &p.others {
            let octets: String = other.value.iter().map(|octet| format!("{octet:02x}")).collect();
            let name = if other.name.is_empty() { "unknown attribute" } else { &other.name };
            text.push_str(&format!(
                "    {name} (attribute {}, flags {:#04x}): {octets}\n",
                other.code, other.flags
            ));
        }
    }
    text
}

/// Describes the part of a path in forwarding, to follow its standing in the decision.
pub fn share(p: &pb::Path) -> String {
    match (p.multipath_weight, p.left_out.as_str()) {
        (Some(weight), _) => format!("; used with weight {weight}"),
        (None, "") => String::new(),
        (None, why) => format!("; not used beside the best: {why}"),
    }
}

/// Returns the sender of a path: the neighbor, with the path identifier if the neighbor may send several paths.
pub fn sender(p: &pb::Path) -> String {
    match (p.neighbor.as_str(), p.path_id) {
        ("", _) => "this router".into(),
        (neighbor, None) => neighbor.into(),
        (neighbor, Some(id)) => format!("{neighbor} path {id}"),
    }
}

/// Appends the attributes that paths have by name.
pub fn attributes(p: &pb::Path, indent: &str, text: &mut String) {
    let as_path = if p.as_path.is_empty() { "empty" } else { &p.as_path };
    text.push_str(&format!("{indent}AS path {as_path}, origin {}", p.origin));
    let weight = Some(p.weight).filter(|weight| *weight > 0);
    let numbers = [
        ("weight", weight),
        ("local preference", p.local_pref),
        ("MED", p.med),
        ("distance at the RIB", p.rib_distance),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            text.push_str(&format!(", {name} {number}"));
        }
    }
    if !p.damping.is_empty() {
        text.push_str(&format!(", damping {}", p.damping));
    }
    text.push_str(if p.blackhole { ", packets are dropped\n" } else { "\n" });
    let tags: Vec<String> = p.tags.iter().map(ToString::to_string).collect();
    let lists = [
        ("communities", &p.communities),
        ("large communities", &p.large_communities),
        ("extended communities", &p.extended_communities),
        ("tags", &tags),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        text.push_str(&format!("{indent}{name} {}\n", list.join(" ")));
    }
    if !p.removed.is_empty() {
        let removed = p.removed.join(", ");
        text.push_str(&format!("{indent}without {removed}: too large for a message (RFC 8654)\n"));
    }
}

/// Prints routes in the order of their prefixes, page by page.
pub async fn routes(client: &pb::BgpClient, args: RoutesArgs, out: &mut Output) -> Result<(), Failure> {
    let (net, kind) = match &args.place {
        None => (None, pb::Match::Exact),
        Some(text) => {
            let (net, kind) = place(text, args.longer)?;
            (Some(net), kind)
        }
    };
    let family = net.map_or(args.family, family_of);
    // One route that is asked for by name is shown in full.
    let in_full = args.detail || (net.is_some() && kind != pb::Match::Longer);
    let request = pb::GetRoutesRequest {
        family: family.into(),
        net: net.map(Into::into),
        r#match: kind.into(),
        ..args.request
    };
    let mut pages = Pages::new(client, request);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut is_first = true;
    while left > 0 {
        let Some(page) = pages.next(left).await? else { break };
        if is_first {
            let heading = if in_full || page.is_empty() { String::new() } else { heading(family) };
            out.begin_list("routes", &heading);
            is_first = false;
        }
        for route in &page {
            let value = || {
                let paths: Vec<_> = route.paths.iter().map(path_json).collect();
                json!({ "prefix": prefix_text(route.net.as_ref()), "paths": paths })
            };
            let text = || if in_full { detail(route) } else { lines(route, family) };
            out.element(|| text().trim_end().to_string(), value);
        }
        left = left.saturating_sub(page.len() as u64);
        if !out.page_done() {
            break;
        }
    }
    if is_first {
        out.begin_list("routes", "");
    }
    out.end_list("no routes");
    Ok(())
}
