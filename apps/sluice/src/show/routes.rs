//! `sluice show routes` and `sluice show summary`: the RIB's and the kernel's tables.

use crate::connection::session::Session;
use crate::output::{self, Failure, Output, Table};
use crate::show::degraded;
use crate::show::differences::{self, Differences, Shown};
use serde_json::{Value, json};
use sluice_base::{Address, AnyPrefix, FamilyId, IpPrefix, PrefixError, Xid, XidPrefix};
use sluice_cli::Values;
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::text::Printer;
use sluice_xrl::{XrlEndpoint, XrlError};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Options of `show routes`.
pub struct RoutesArgs {
    place: Option<String>,
    longer: bool,
    kernel: bool,
    origin: Option<String>,
    v4: bool,
    v6: bool,
    xid: bool,
    table: u32,
    limit: Option<u64>,
}

impl RoutesArgs {
    /// From a command line.
    pub fn from_values(values: &Values) -> Result<Self, Failure> {
        let table = u32::try_from(values.number("table").unwrap_or(254))
            .map_err(|_| Failure::usage("a table's number is at most 4294967295"))?;
        Ok(RoutesArgs {
            place: values.text("place").map(String::from),
            longer: values.has("longer"),
            kernel: values.has("kernel"),
            origin: values.text("origin").map(String::from),
            v4: values.has("v4"),
            v6: values.has("v6"),
            xid: values.has("xid"),
            table,
            limit: values.number("limit"),
        })
    }
}

/// The meaning of the argument.
enum What {
    All,
    Exact(AnyPrefix),
    Within(AnyPrefix),
    Addr(Address),
}

/// Reads an address: an IP address or an XID.
fn address(text: &str) -> Option<Address> {
    let ip = text.parse::<IpAddr>().ok().map(Address::Ip);
    ip.or_else(|| text.parse::<Xid>().ok().map(Address::from))
}

/// Reads a prefix of IP addresses or of XIDs.
fn prefix(text: &str) -> Result<AnyPrefix, PrefixError> {
    let xids = text.parse::<XidPrefix>().map(AnyPrefix::of);
    xids.or_else(|_| text.parse::<IpPrefix>().map(AnyPrefix::from))
}

impl RoutesArgs {
    fn what(&self) -> Result<What, Failure> {
        let Some(text) = &self.place else { return Ok(What::All) };
        if let Some(addr) = address(text).filter(|_| !self.longer || text.parse::<IpAddr>().is_ok()) {
            return Ok(What::Addr(addr));
        }
        match prefix(text) {
            Ok(prefix) if self.longer => Ok(What::Within(prefix)),
            Ok(prefix) => Ok(What::Exact(prefix)),
            Err(e) => Err(Failure::failed(format!("`{text}` is no address, prefix or XID: {e}"))),
        }
    }

    fn families(&self, what: &What) -> Vec<FamilyId> {
        let flags = [(FamilyId::IPV4, self.v4), (FamilyId::IPV6, self.v6), (FamilyId::XID, self.xid)];
        let is_any_named = flags.iter().any(|(_, is_named)| *is_named);
        match what {
            What::Exact(p) | What::Within(p) => vec![p.family()],
            What::Addr(a) => vec![a.family()],
            What::All => {
                let shown = flags.into_iter().filter(|(_, is_named)| *is_named || !is_any_named);
                shown.map(|(family, _)| family).collect()
            }
        }
    }
}

/// Routes in a page: with pages the first line appears at once, however large the table is.
const PAGE: u32 = 2000;

/// Shows routes.
pub async fn show(session: &Session, args: RoutesArgs, out: &mut Output) -> Result<(), Failure> {
    let what = args.what()?;
    match args.kernel {
        true => kernel(session, &args, &what, out).await,
        false => rib(session, &args, &what, out).await,
    }
}

/// Returns next hops as text.
pub fn hops(forwarding: Option<&common::Forwarding>, names: &Names) -> String {
    let Some(f) = forwarding else { return "unresolved".into() };
    match f.kind() {
        common::ForwardingKind::Discard => "discard".into(),
        common::ForwardingKind::Reject => "reject".into(),
        common::ForwardingKind::Local => "local".into(),
        common::ForwardingKind::NextHops => {
            let hop = |h: &common::NextHop| {
                let via = h.gateway.as_ref().map(|g| format!("via {}", output::addr(Some(g))));
                let on = (h.interface != 0).then(|| format!("on {}", names.of(h.interface)));
                let weight = (h.weight > 1).then(|| format!("weight {}", h.weight));
                let backup = h.backup.then(|| "as backup".to_string());
                [via, on, weight, backup].into_iter().flatten().collect::<Vec<_>>().join(" ")
            };
            f.next_hops.iter().map(hop).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Returns next hops as JSON.
pub fn hops_json(forwarding: Option<&common::Forwarding>, names: &Names) -> Value {
    let Some(f) = forwarding else { return Value::Null };
    match f.kind() {
        common::ForwardingKind::Discard => json!("discard"),
        common::ForwardingKind::Reject => json!("reject"),
        common::ForwardingKind::Local => json!("local"),
        common::ForwardingKind::NextHops => f
            .next_hops
            .iter()
            .map(|h| {
                json!({
                    "gateway": h.gateway.as_ref().map(|g| output::addr(Some(g))),
                    "interface": (h.interface != 0).then(|| names.of(h.interface)),
                    "weight": h.weight.max(1),
                    "backup": h.backup,
                })
            })
            .collect(),
    }
}

/// The longest wait for the FEA's names of interfaces.
const NAMES_DEADLINE: Duration = Duration::from_millis(100);

/// Interface names by index.
pub struct Names(Vec<(u32, String)>);

impl Names {
    /// Asks the FEA of this machine.
    pub async fn ask(router: &XrlEndpoint) -> Self {
        Self::ask_within(router, NAMES_DEADLINE).await
    }

    /// Asks an FEA, and waits for the answer for a time.
    pub async fn ask_within(router: &XrlEndpoint, deadline: Duration) -> Self {
        let client = fea::InterfacesClient::new(router, "fea").with_deadline(deadline);
        // Without the FEA, or while it waits for the kernel, numbers are shown instead of names: nobody waits for names.
        let reply = client.get_interfaces(fea::GetInterfacesRequest {}).await.unwrap_or_default();
        Names(reply.interfaces.into_iter().map(|i| (i.index, i.name)).collect())
    }

    /// An interface's name, or its number.
    pub fn of(&self, index: u32) -> String {
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
    let rejected = match r.rejected_by_policy.as_str() {
        "" => String::new(),
        reason => format!("  rejected: {reason}"),
    };
    format!(
        "{mark} {:<24} {:<10} {:>3}/{:<8} {to}{refused}{rejected}",
        output::net(r.net.as_ref()),
        r.origin,
        r.distance,
        r.metric
    )
}

fn rib_json(r: &rib::Route, names: &Names) -> Value {
    json!({
        "prefix": output::net(r.net.as_ref()), "origin": r.origin, "distance": r.distance, "metric": r.metric,
        "kind": (!r.kind.is_empty()).then(|| r.kind.clone()), "tag": r.tag, "tags": r.tags, "selected": r.selected, "stale": r.stale, "resolved": r.resolved,
        "next_hops": hops_json(r.forwarding.as_ref(), names),
        "forwarding": hops_json(r.resolution.as_ref(), names),
        "provenance": r.provenance,
        "rejected": (!r.rejected.is_empty()).then(|| r.rejected.clone()),
        "rejected_by_policy": (!r.rejected_by_policy.is_empty()).then(|| r.rejected_by_policy.clone()),
    })
}

/// The routes of other programs by which the kernel forwards instead of by the router's, by table and prefix.
struct Overriding(BTreeMap<(u32, String), fea::OverridingRoute>);

impl Overriding {
    /// Asks the FEA, as [`Names::ask_within`] does.
    async fn ask_within(router: &XrlEndpoint, deadline: Duration) -> Self {
        let client = fea::FibClient::new(router, "fea").with_deadline(deadline);
        let reply = client.get_overriding(fea::GetOverridingRequest::default()).await.unwrap_or_default();
        let key = |route: &fea::OverridingRoute| (route.table, output::net(route.net.as_ref()));
        Overriding(reply.routes.into_iter().map(|route| (key(&route), route)).collect())
    }

    /// Returns the route that overrides a route of a table.
    fn of(&self, table: u32, route: &rib::Route) -> Option<&fea::OverridingRoute> {
        let found = || self.0.get(&(table, output::net(route.net.as_ref())));
        if route.selected && !self.0.is_empty() { found() } else { None }
    }
}

/// A line with the route that overrides this one.
fn own_line(r: &rib::Route, names: &Names, by: Option<&fea::OverridingRoute>) -> String {
    let line = rib_line(r, names);
    match by {
        None => line,
        Some(by) => format!("{line}  overridden: proto {} metric {}", by.protocol, by.metric),
    }
}

fn own_json(r: &rib::Route, names: &Names, by: Option<&fea::OverridingRoute>) -> Value {
    let mut value = rib_json(r, names);
    value["overridden_by"] =
        by.map_or(Value::Null, |by| json!({ "protocol": by.protocol, "metric": by.metric }));
    value
}

/// A line with the differences of other elements.
fn line_of(shown: &Shown, names: &Names) -> String {
    let line = rib_line(&shown.route, names);
    match shown.cell() {
        cell if cell.is_empty() => line,
        cell => format!("{line}  [{cell}]"),
    }
}

fn json_of(shown: &Shown, names: &Names) -> Value {
    let mut value = rib_json(&shown.route, names);
    value["differences"] = shown.json();
    value
}

/// The way to the routes: those of this machine, or of an element, and of those that have others.
struct Source {
    client: rib::RibClient,
    router: XrlEndpoint,
    /// The longest wait for names of interfaces.
    wait: Duration,
    table: u32,
    /// Of this machine.
    overriding: Overriding,
    differences: Option<Differences>,
}

impl Source {
    async fn find(session: &Session, table: u32, out: &mut Output) -> Result<Self, Failure> {
        let (router, timeout) = (session.router().await?, session.flags.timeout);
        // A named element is asked alone.
        let whole = match session.flags.element {
            None => differences::begin(&router, timeout, out).await,
            Some(_) => None,
        };
        let (router, wait, differences) = match whole {
            Some((router, differences)) => (router, timeout, Some(differences)),
            None => (router, NAMES_DEADLINE, None),
        };
        let client = rib::RibClient::new(&router, "rib").with_deadline(timeout);
        let overriding = match differences {
            None => Overriding::ask_within(&router, NAMES_DEADLINE).await,
            Some(_) => Overriding(BTreeMap::new()),
        };
        Ok(Source { client, router, wait, table, overriding, differences })
    }

    async fn names(&self) -> Names {
        Names::ask_within(&self.router, self.wait).await
    }

    fn show(&self, shown: &Shown, names: &Names, out: &mut Output) {
        match &self.differences {
            None => {
                let by = self.overriding.of(self.table, &shown.route);
                out.element(|| own_line(&shown.route, names, by), || own_json(&shown.route, names, by));
            }
            Some(differences) => {
                let names = differences.names(shown, names);
                out.element(|| line_of(shown, names), || json_of(shown, names));
            }
        }
    }

    fn end(self, nothing: &str, out: &mut Output) {
        let Some(differences) = self.differences else { return out.end_list(nothing) };
        out.end_list_with(nothing, &differences.document());
        if !out.is_json() {
            differences.lines().iter().for_each(|line| out.line(line));
        }
    }
}

/// Shows the routes of a family. Returns how many more may be shown.
async fn family_routes(
    source: &mut Source,
    names: &Names,
    request: &rib::GetRoutesRequest,
    mut left: u64,
    out: &mut Output,
) -> Result<u64, Failure> {
    let mut after = None;
    while left > 0 {
        let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE);
        let request = rib::GetRoutesRequest { after: after.clone(), limit, ..request.clone() };
        let reply = source.client.get_routes(request.clone()).await?;
        left = left.saturating_sub(reply.routes.len() as u64);
        after = reply.routes.last().and_then(|r| r.net.clone());
        let page = match &mut source.differences {
            None => reply.routes.into_iter().map(Shown::of_source).collect(),
            Some(differences) => differences.page(reply.routes, names, &request).await,
        };
        page.iter().for_each(|shown| source.show(shown, names, out));
        if !reply.more || after.is_none() || !out.page_done() {
            break;
        }
    }
    while left > 0 && out.page_done() {
        let rest = match &mut source.differences {
            None => None,
            Some(differences) => differences.rest(request).await,
        };
        let Some(rest) = rest else { break };
        rest.iter().for_each(|shown| source.show(shown, names, out));
    }
    Ok(left)
}

async fn rib(session: &Session, args: &RoutesArgs, what: &What, out: &mut Output) -> Result<(), Failure> {
    let mut source = Source::find(session, args.table, out).await?;
    let column = if source.differences.is_some() { "  [differences]" } else { "" };
    out.begin_list(
        "routes",
        &format!("  prefix                   origin     dist/metric  forwarding{column}\n"),
    );
    if let What::Addr(addr) = what {
        let request = rib::LookupRouteRequest { table: args.table, addr: Some((*addr).into()) };
        // Both are asked before either has answered: each may be busy with a table.
        let found = source.client.lookup_route(request.clone());
        let names = &source.names().await;
        let route = found.await?.route;
        let found = match &mut source.differences {
            None => route.into_iter().map(Shown::of_source).collect(),
            Some(differences) => differences.address(route, names, &request).await,
        };
        found.iter().for_each(|shown| source.show(shown, names, out));
        source.end(&format!("no route to {addr}"), out);
        return Ok(());
    }
    let names = &source.names().await;
    let mut left = args.limit.unwrap_or(u64::MAX);
    for family in args.families(what) {
        let (exact, within) = match what {
            What::Exact(p) => (Some((*p).into()), None),
            What::Within(p) => (None, Some((*p).into())),
            _ => (None, None),
        };
        let request = rib::GetRoutesRequest {
            table: args.table,
            family: family.0.into(),
            exact,
            within,
            origin: args.origin.clone().unwrap_or_default(),
            after: None,
            limit: PAGE,
        };
        if let Some(differences) = &mut source.differences {
            differences.restart();
        }
        left = family_routes(&mut source, names, &request, left, out).await?;
    }
    source.end("no routes", out);
    Ok(())
}

fn kernel_line(r: &fea::KernelRoute, names: &Names) -> String {
    let owner = if r.ours { "sluice".into() } else { format!("proto {}", r.protocol) };
    let source = r.source.as_ref().map(|source| format!(", source {}", output::addr(Some(source))));
    format!(
        "  {:<24} {owner:<10} {:>6}  {}{}",
        output::net(r.net.as_ref()),
        r.metric,
        hops(r.forwarding.as_ref(), names),
        source.unwrap_or_default()
    )
}

fn kernel_json(r: &fea::KernelRoute, names: &Names) -> Value {
    json!({
        "prefix": output::net(r.net.as_ref()), "protocol": r.protocol, "ours": r.ours, "metric": r.metric,
        "forwarding": hops_json(r.forwarding.as_ref(), names),
        "source": r.source.as_ref().map(|source| output::addr(Some(source))),
    })
}

async fn kernel(session: &Session, args: &RoutesArgs, what: &What, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let client = fea::FibClient::new(&router, "fea").with_deadline(session.flags.timeout * 6);
    let names = Names::ask(&router).await;
    out.begin_list("routes", "  prefix                   owner      metric  forwarding\n");
    if let What::Addr(addr) = what {
        let request = fea::LookupKernelRouteRequest { addr: Some((*addr).into()) };
        let found = match addr {
            Address::Ip(_) => client.lookup_kernel_route(request).await?.route,
            // The kernel has IP routes only.
            Address::Identifier(_) => None,
        };
        if let Some(r) = found {
            out.element(|| kernel_line(&r, &names), || kernel_json(&r, &names));
        }
        out.end_list(&format!("no route to {addr}"));
        return Ok(());
    }
    for family in args.families(what).into_iter().filter(|family| family.ip().is_some()) {
        let mut after = None;
        loop {
            let request = fea::GetKernelRoutesRequest {
                table: args.table,
                family: family.0.into(),
                ours_only: args.origin.is_some(),
                exact: if let What::Exact(p) = what { Some((*p).into()) } else { None },
                limit: args.limit.map_or(0, |l| u32::try_from(l).unwrap_or(u32::MAX)),
                after: after.clone(),
            };
            let reply = client.get_kernel_routes(request).await?;
            for r in &reply.routes {
                out.element(|| kernel_line(r, &names), || kernel_json(r, &names));
            }
            after = reply.routes.last().and_then(|r| r.net.clone());
            if !reply.more || args.limit.is_some() || after.is_none() || !out.page_done() {
                break;
            }
        }
    }
    out.end_list("no routes");
    Ok(())
}

/// Shows counts.
pub async fn summary(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let rib_client = rib::RibClient::new(&router, "rib").with_deadline(session.flags.timeout);
    let fea_client = fea::FibClient::new(&router, "fea").with_deadline(session.flags.timeout);
    let tables = rib_client.get_summary(rib::GetSummaryRequest {}).await?.tables;
    let engine = fea_client.get_summary(fea::GetSummaryRequest {}).await?;
    // Components can be read without a manager too.
    let manager = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let processes = manager.get_processes(pb::GetProcessesRequest {}).await.unwrap_or_default().processes;
    let degraded = degraded::degraded(&processes);
    let installed = |table: u32, family: i32| {
        engine.tables.iter().find(|t| t.table == table && t.family == family).cloned().unwrap_or_default()
    };
    // A router without routes of XIDs is none of XIA.
    let tables: Vec<_> =
        tables.into_iter().filter(|t| t.family() != common::Family::Xid || t.prefixes > 0).collect();
    let family = |n: i32| match common::Family::try_from(n) {
        Ok(common::Family::Xid) => "xid",
        Ok(common::Family::Ipv6) => "ipv6",
        _ => "ipv4",
    };
    if out.is_json() {
        let printer = Printer::new(DESCRIPTORS)?;
        let all: Vec<_> = tables
            .iter()
            .map(|t| {
                let fib = installed(t.table, t.family);
                let mut shown = printer.plain(t)?;
                shown["engine"] =
                    json!({ "wanted": fib.wanted, "installed": fib.installed, "refused": fib.refused });
                Ok(shown)
            })
            .collect::<Result<_, XrlError>>()?;
        out.json(&json!({
            "tables": all, "engine": engine.engine, "routes_refused": engine.routes_refused,
            "routes_repaired": engine.routes_repaired, "nexthop_objects": engine.nexthop_objects, "idle": engine.idle,
            "degraded": degraded::degraded_json(&degraded),
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
    out.table(&table, "no tables");
    if !degraded.is_empty() {
        out.line("degraded:");
    }
    degraded::print_degraded(&degraded, out);
    Ok(())
}
