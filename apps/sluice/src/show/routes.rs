//! `sluice show routes` and `sluice show summary`: the RIB's and the kernel's tables.

use crate::connect::DEADLINE;
use crate::output::{self, Failure, Table};
use clap::Args;
use serde_json::{Value, json};
use sluice_base::{Family, IpPrefix};
use sluice_xrl::Router;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::rib::v1 as rib;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

#[derive(Args)]
pub struct RoutesArgs {
    /// A prefix (its routes only) or an address (the route that it is forwarded by).
    what: Option<String>,
    /// All prefixes inside the given one.
    #[arg(long)]
    longer: bool,
    /// The kernel's table as it is, instead of the RIB's.
    #[arg(long)]
    kernel: bool,
    /// Only routes of this origin (bgp, static, connected, ...).
    #[arg(long)]
    origin: Option<String>,
    /// Only IPv4.
    #[arg(long, short = '4', conflicts_with = "v6")]
    v4: bool,
    /// Only IPv6.
    #[arg(long, short = '6')]
    v6: bool,
    /// The routing table's number.
    #[arg(long, default_value_t = 254)]
    table: u32,
    /// At most this many prefixes.
    #[arg(long)]
    limit: Option<u64>,
}

/// What the argument names.
enum What {
    All,
    Exact(IpPrefix),
    Within(IpPrefix),
    Addr(IpAddr),
}

impl RoutesArgs {
    fn what(&self) -> Result<What, Failure> {
        let Some(text) = &self.what else { return Ok(What::All) };
        if let Ok(addr) = text.parse() {
            return Ok(What::Addr(addr));
        }
        match text.parse() {
            Ok(prefix) if self.longer => Ok(What::Within(prefix)),
            Ok(prefix) => Ok(What::Exact(prefix)),
            Err(e) => Err(Failure::failed(format!("`{text}` is neither an address nor a prefix: {e}"))),
        }
    }

    fn families(&self, what: &What) -> Vec<Family> {
        match what {
            What::Exact(p) | What::Within(p) => vec![p.family()],
            What::Addr(a) => vec![Family::of(a)],
            What::All => Family::ALL
                .into_iter()
                .filter(|f| !(self.v4 && *f == Family::Ipv6 || self.v6 && *f == Family::Ipv4))
                .collect(),
        }
    }
}

/// Routes come in pages of this many, so that the first line is there at once however large the table is.
const PAGE: u32 = 2000;

/// Shows routes.
pub async fn show(router: &Router, args: RoutesArgs, as_json: bool) -> Result<(), Failure> {
    let what = args.what()?;
    match args.kernel {
        true => kernel(router, &args, &what, as_json).await,
        false => rib(router, &args, &what, as_json).await,
    }
}

fn hops(forwarding: Option<&common::Forwarding>, names: &Names) -> String {
    let Some(f) = forwarding else { return "unresolved".into() };
    match f.kind() {
        common::ForwardingKind::Discard => "discard".into(),
        common::ForwardingKind::Reject => "reject".into(),
        common::ForwardingKind::NextHops => {
            let hop = |h: &common::NextHop| {
                let via = h.gateway.as_ref().map(|g| format!("via {}", output::addr(Some(g))));
                let on = (h.interface != 0).then(|| format!("on {}", names.of(h.interface)));
                let weight = (h.weight > 1).then(|| format!("weight {}", h.weight));
                [via, on, weight].into_iter().flatten().collect::<Vec<_>>().join(" ")
            };
            f.next_hops.iter().map(hop).collect::<Vec<_>>().join(", ")
        }
    }
}

fn hops_json(forwarding: Option<&common::Forwarding>, names: &Names) -> Value {
    let Some(f) = forwarding else { return Value::Null };
    match f.kind() {
        common::ForwardingKind::Discard => json!("discard"),
        common::ForwardingKind::Reject => json!("reject"),
        common::ForwardingKind::NextHops => f
            .next_hops
            .iter()
            .map(|h| {
                json!({
                    "gateway": h.gateway.as_ref().map(|g| output::addr(Some(g))),
                    "interface": (h.interface != 0).then(|| names.of(h.interface)),
                    "weight": h.weight.max(1),
                })
            })
            .collect(),
    }
}

/// How long the FEA may take to say what interfaces are called.
const NAMES_DEADLINE: Duration = Duration::from_millis(100);

/// Interface names by index.
struct Names(Vec<(u32, String)>);

impl Names {
    async fn ask(router: &Router) -> Self {
        let client = fea::InterfacesClient::new(router, "fea").with_deadline(NAMES_DEADLINE);
        // Without the FEA, or while it waits for the kernel, numbers are shown instead of names: nobody waits for names.
        let reply = client.get_interfaces(fea::GetInterfacesRequest {}).await.unwrap_or_default();
        Names(reply.interfaces.into_iter().map(|i| (i.index, i.name)).collect())
    }

    fn of(&self, index: u32) -> String {
        self.0.iter().find(|(i, _)| *i == index).map_or_else(|| format!("#{index}"), |(_, name)| name.clone())
    }
}

fn rib_line(r: &rib::Route, names: &Names) -> String {
    let mark = match (r.selected, r.stale) {
        (true, false) => "*",
        (true, true) => "s",
        (false, _) => " ",
    };
    let to = if r.resolved {
        hops(r.resolution.as_ref(), names)
    } else {
        format!("unresolved ({})", hops(r.forwarding.as_ref(), names))
    };
    let refused = if r.rejected.is_empty() { String::new() } else { format!("  refused: {}", r.rejected) };
    format!(
        "{mark} {:<24} {:<10} {:>3}/{:<8} {to}{refused}",
        output::net(r.net.as_ref()),
        r.origin,
        r.distance,
        r.metric
    )
}

fn rib_json(r: &rib::Route, names: &Names) -> Value {
    json!({
        "prefix": output::net(r.net.as_ref()), "origin": r.origin, "distance": r.distance, "metric": r.metric,
        "tag": r.tag, "selected": r.selected, "stale": r.stale, "resolved": r.resolved,
        "next_hops": hops_json(r.forwarding.as_ref(), names),
        "forwarding": hops_json(r.resolution.as_ref(), names),
        "provenance": r.provenance,
        "rejected": (!r.rejected.is_empty()).then(|| r.rejected.clone()),
    })
}

/// Writes routes one by one: lines, or the elements of one JSON array.
struct Writer {
    out: io::BufWriter<io::Stdout>,
    as_json: bool,
    written: u64,
}

impl Writer {
    fn new(as_json: bool, heading: &str) -> Self {
        let mut writer = Writer { out: io::BufWriter::new(io::stdout()), as_json, written: 0 };
        writer.write(if as_json { "{\"routes\": [" } else { heading });
        writer
    }

    fn write(&mut self, text: &str) {
        // A reader that went away (as `head` does) ends the output; there is nobody to tell.
        let _ = self.out.write_all(text.as_bytes());
    }

    fn route(&mut self, line: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
        let text = match (self.as_json, self.written) {
            (true, 0) => format!("\n{}", value()),
            (true, _) => format!(",\n{}", value()),
            (false, _) => format!("{}\n", line()),
        };
        self.write(&text);
        self.written += 1;
    }

    /// Whether anybody still reads.
    fn page_done(&mut self) -> bool {
        self.out.flush().is_ok()
    }

    fn finish(mut self, nothing: &str) {
        if self.as_json {
            self.write("\n]}\n");
        } else if self.written == 0 {
            self.write(&format!("{nothing}\n"));
        }
        let _ = self.out.flush();
    }
}

async fn rib(router: &Router, args: &RoutesArgs, what: &What, as_json: bool) -> Result<(), Failure> {
    let client = rib::RibClient::new(router, "rib").with_deadline(DEADLINE);
    let mut writer = Writer::new(as_json, "  prefix                   origin     dist/metric  forwarding\n");
    if let What::Addr(addr) = what {
        let request = rib::LookupRouteRequest { table: args.table, addr: Some((*addr).into()) };
        // Both are asked before either has answered: each may be busy with a table.
        let found = client.lookup_route(request);
        let names = Names::ask(router).await;
        if let Some(r) = found.await?.route {
            writer.route(|| rib_line(&r, &names), || rib_json(&r, &names));
        }
        writer.finish(&format!("no route to {addr}"));
        return Ok(());
    }
    let names = Names::ask(router).await;
    let mut left = args.limit.unwrap_or(u64::MAX);
    for family in args.families(what) {
        let mut after = None;
        while left > 0 {
            let (exact, within) = match what {
                What::Exact(p) => (Some((*p).into()), None),
                What::Within(p) => (None, Some((*p).into())),
                _ => (None, None),
            };
            let request = rib::GetRoutesRequest {
                table: args.table,
                family: common::Family::from(family).into(),
                exact,
                within,
                origin: args.origin.clone().unwrap_or_default(),
                after: after.clone(),
                limit: u32::try_from(left).unwrap_or(u32::MAX).min(PAGE),
            };
            let reply = client.get_routes(request).await?;
            for r in &reply.routes {
                writer.route(|| rib_line(r, &names), || rib_json(r, &names));
            }
            left = left.saturating_sub(reply.routes.len() as u64);
            after = reply.routes.last().and_then(|r| r.net.clone());
            if !reply.more || after.is_none() || !writer.page_done() {
                break;
            }
        }
    }
    writer.finish("no routes");
    Ok(())
}

fn kernel_line(r: &fea::KernelRoute, names: &Names) -> String {
    let owner = if r.ours { "sluice".into() } else { format!("proto {}", r.protocol) };
    format!(
        "  {:<24} {owner:<10} {:>6}  {}",
        output::net(r.net.as_ref()),
        r.metric,
        hops(r.forwarding.as_ref(), names)
    )
}

fn kernel_json(r: &fea::KernelRoute, names: &Names) -> Value {
    json!({
        "prefix": output::net(r.net.as_ref()), "protocol": r.protocol, "ours": r.ours, "metric": r.metric,
        "forwarding": hops_json(r.forwarding.as_ref(), names),
    })
}

async fn kernel(router: &Router, args: &RoutesArgs, what: &What, as_json: bool) -> Result<(), Failure> {
    let client = fea::FibClient::new(router, "fea").with_deadline(DEADLINE * 6);
    let names = Names::ask(router).await;
    let mut writer = Writer::new(as_json, "  prefix                   owner      metric  forwarding\n");
    if let What::Addr(addr) = what {
        let request = fea::LookupKernelRouteRequest { addr: Some((*addr).into()) };
        if let Some(r) = client.lookup_kernel_route(request).await?.route {
            writer.route(|| kernel_line(&r, &names), || kernel_json(&r, &names));
        }
        writer.finish(&format!("no route to {addr}"));
        return Ok(());
    }
    for family in args.families(what) {
        let mut after = None;
        loop {
            let request = fea::GetKernelRoutesRequest {
                table: args.table,
                family: common::Family::from(family).into(),
                ours_only: args.origin.is_some(),
                exact: if let What::Exact(p) = what { Some((*p).into()) } else { None },
                limit: args.limit.map_or(0, |l| u32::try_from(l).unwrap_or(u32::MAX)),
                after: after.clone(),
            };
            let reply = client.get_kernel_routes(request).await?;
            for r in &reply.routes {
                writer.route(|| kernel_line(r, &names), || kernel_json(r, &names));
            }
            after = reply.routes.last().and_then(|r| r.net.clone());
            if !reply.more || args.limit.is_some() || after.is_none() || !writer.page_done() {
                break;
            }
        }
    }
    writer.finish("no routes");
    Ok(())
}

/// Shows counts.
pub async fn summary(router: &Router, as_json: bool) -> Result<(), Failure> {
    let rib_client = rib::RibClient::new(router, "rib").with_deadline(DEADLINE);
    let fea_client = fea::FibClient::new(router, "fea").with_deadline(DEADLINE);
    let tables = rib_client.get_summary(rib::GetSummaryRequest {}).await?.tables;
    let engine = fea_client.get_summary(fea::GetSummaryRequest {}).await?;
    let installed = |table: u32, family: i32| {
        engine.tables.iter().find(|t| t.table == table && t.family == family).cloned().unwrap_or_default()
    };
    let family = |n: i32| if n == 6 { "ipv6" } else { "ipv4" };
    if as_json {
        let all: Vec<_> = tables
            .iter()
            .map(|t| {
                let fib = installed(t.table, t.family);
                let origins: Vec<_> = t
                    .origins
                    .iter()
                    .map(|o| json!({ "origin": o.origin, "distance": o.distance, "routes": o.routes, "stale": o.stale }))
                    .collect();
                json!({
                    "table": t.table, "family": family(t.family), "prefixes": t.prefixes, "selected": t.selected,
                    "groups": t.groups, "interests": t.interests, "origins": origins,
                    "engine": { "wanted": fib.wanted, "installed": fib.installed, "refused": fib.refused },
                })
            })
            .collect();
        output::json(&json!({
            "tables": all, "engine": engine.engine, "routes_refused": engine.routes_refused,
            "routes_repaired": engine.routes_repaired, "nexthop_objects": engine.nexthop_objects, "idle": engine.idle,
        }));
        return Ok(());
    }
    let mut table = Table::new(&[
        "table",
        "family",
        "prefixes",
        "selected",
        "engine wants",
        "engine has",
        "refused",
        "origins (stale)",
    ]);
    for t in &tables {
        let fib = installed(t.table, t.family);
        let origins: Vec<String> = t
            .origins
            .iter()
            .map(|o| {
                if o.stale > 0 {
                    format!("{} {} ({})", o.origin, o.routes, o.stale)
                } else {
                    format!("{} {}", o.origin, o.routes)
                }
            })
            .collect();
        table.row(vec![
            t.table.to_string(),
            family(t.family).into(),
            t.prefixes.to_string(),
            t.selected.to_string(),
            fib.wanted.to_string(),
            fib.installed.to_string(),
            fib.refused.to_string(),
            origins.join(", "),
        ]);
    }
    table.print("no tables");
    Ok(())
}
