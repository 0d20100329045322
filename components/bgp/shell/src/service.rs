//! The interface that BGP serves: the core's views as messages.

use crate::idl::bgp::v1 as pb;
use crate::{BgpShell, Served};
use sluice_base::{Family, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::attributes::canonical;
use sluice_bgp::session::{MessageCounters, Timer};
use sluice_bgp::shard::{PathView, PeerIndex, Resolution, RouteView};
use sluice_bgp::table::Sharded;
use sluice_bgp::speaker::{Input, NeighborView, Speaker};
use sluice_bgp::wire::Capability;
use sluice_bgp::wire::as_path::{AS_SET, Segments};
use sluice_bgp::wire::attribute::code;
use sluice_shell::clock;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::{CallContext, XrlError, convert};
use std::net::IpAddr;

/// The largest page of routes.
const MAX_PAGE: usize = 10_000;

fn address(text: &str) -> Result<IpAddr, XrlError> {
    text.parse().map_err(|_| XrlError::BadArguments(format!("address: `{text}` is none")))
}

fn not_configured() -> XrlError {
    XrlError::application(2, "BGP is not configured")
}

fn unknown(neighbor: IpAddr) -> XrlError {
    XrlError::application(3, format!("there is no neighbor {neighbor}"))
}

fn ms(duration: sluice_base::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn resolution(resolution: Resolution) -> (String, u32) {
    match resolution {
        Resolution::Waiting => ("waiting".into(), 0),
        Resolution::Unreachable => ("unreachable".into(), 0),
        Resolution::Reachable { metric, .. } => ("reachable".into(), metric.0),
    }
}

fn messages(counters: MessageCounters) -> pb::Messages {
    pb::Messages {
        open: counters.open,
        update: counters.update,
        notification: counters.notification,
        keepalive: counters.keepalive,
        route_refresh: counters.route_refresh,
    }
}

fn capability(capability: &Capability) -> String {
    match capability {
        Capability::Multiprotocol { afi: 1, safi: 1 } => "ipv4-unicast".into(),
        Capability::Multiprotocol { afi: 2, safi: 1 } => "ipv6-unicast".into(),
        Capability::Multiprotocol { afi, safi } => format!("family {afi}/{safi}"),
        Capability::RouteRefresh => "route-refresh".into(),
        Capability::FourOctetAs(asn) => format!("4-octet-as {asn}"),
        Capability::Role(role) => format!("role {role}"),
        Capability::Other { code, .. } => format!("code {code}"),
    }
}

fn timer(timer: Timer) -> &'static str {
    match timer {
        Timer::ConnectRetry => "connect-retry",
        Timer::Hold => "hold",
        Timer::Keepalive => "keepalive",
        Timer::DelayOpen => "delay-open",
        Timer::IdleHold => "idle-hold",
    }
}

fn neighbor(view: NeighborView, now: Instant) -> pb::Neighbor {
    let negotiated = view.negotiated.map(|n| n.families).unwrap_or_default();
    let (last_error, last_error_ms) = match &view.last_down {
        Some((at, reason)) => (reason.to_string(), ms(now.saturating_since(*at))),
        None => (String::new(), 0),
    };
    let families = Family::ALL.map(|family| pb::NeighborFamily {
        family: common::Family::from(family).into(),
        negotiated: negotiated.has(family),
        prefixes_received: view.prefixes_received[family as usize].into(),
        prefixes_sent: view.prefixes_sent[family as usize].into(),
        end_of_rib: view.end_of_rib[family as usize],
    });
    let configured = view.config.families;
    pb::Neighbor {
        address: view.config.address.to_string(),
        peer_as: view.config.peer_as.0,
        internal: view.internal,
        description: view.config.description,
        enabled: view.config.enabled,
        state: view.state.to_string(),
        uptime_ms: view.established_at.map_or(0, |at| ms(now.saturating_since(at))),
        router_id: view.open.as_ref().map_or(String::new(), |o| o.router_id.to_string()),
        flaps: view.flaps,
        last_error,
        last_error_ms,
        hold_time: view.negotiated.map_or(0, |n| n.hold_time.into()),
        capabilities: view.open.iter().flat_map(|o| &o.capabilities).map(capability).collect(),
        timers: view
            .timers
            .iter()
            .map(|(t, at)| pb::Timer { name: timer(*t).into(), expires_in_ms: ms(at.saturating_since(now)) })
            .collect(),
        received: Some(messages(view.received)),
        sent: Some(messages(view.sent)),
        families: Family::ALL
            .into_iter()
            .zip(families)
            .filter(|(family, _)| configured.has(*family))
            .map(|(_, f)| f)
            .collect(),
        treated_as_withdraw: view.reader.treated_as_withdraw,
        attribute_discards: view.reader.attribute_discards,
        loops: view.reader.loops,
        leaks: view.reader.leaks,
    }
}

fn as_path(value: &[u8]) -> String {
    let mut words = Vec::new();
    for segment in Segments::canonical(value).flatten() {
        let numbers: Vec<String> = segment.asns().map(|asn| asn.to_string()).collect();
        words.push(if segment.kind == AS_SET {
            format!("{{{}}}", numbers.join(","))
        } else {
            numbers.join(" ")
        });
    }
    words.join(" ")
}

fn path(view: PathView, speaker: &Speaker) -> pb::Path {
    let (resolution, interior_cost) = resolution(view.resolution);
    let mut path = pb::Path {
        neighbor: speaker.neighbor_address(view.peer).map_or(String::new(), |a| a.to_string()),
        best: view.lost.is_none(),
        reason: view.lost.map_or(String::new(), |lost| lost.to_string()),
        stale: view.stale,
        next_hop: view.next_hop.address.to_string(),
        resolution,
        interior_cost,
        origin: view.view.origin.to_string(),
        med: view.view.med,
        local_pref: view.view.local_pref,
        ..pb::Path::default()
    };
    for attribute in canonical::attributes(&view.attributes) {
        let value = attribute.value;
        let half = |octets: &[u8]| octets.iter().fold(0u32, |n, octet| n << 8 | u32::from(*octet));
        match attribute.code {
            code::ORIGIN | code::MULTI_EXIT_DISC | code::LOCAL_PREF => {}
            code::AS_PATH => path.as_path = as_path(value),
            code::COMMUNITIES => {
                let text = |c: &[u8]| format!("{}:{}", half(&c[..2]), half(&c[2..]));
                path.communities = value.chunks_exact(4).map(text).collect();
            }
            code::LARGE_COMMUNITY => {
                let text = |c: &[u8]| format!("{}:{}:{}", half(&c[..4]), half(&c[4..8]), half(&c[8..]));
                path.large_communities = value.chunks_exact(12).map(text).collect();
            }
            code::EXTENDED_COMMUNITIES => {
                let text = |c: &[u8]| c.iter().map(|octet| format!("{octet:02x}")).collect();
                path.extended_communities = value.chunks_exact(8).map(text).collect();
            }
            code::ATOMIC_AGGREGATE => path.atomic_aggregate = true,
            code::AGGREGATOR if value.len() == 8 => {
                let by = std::net::Ipv4Addr::from(half(&value[4..]));
                path.aggregator = format!("{} {by}", half(&value[..4]));
            }
            code => path.others.push(pb::OtherAttribute {
                code: code.into(),
                flags: attribute.flags.0.into(),
                value: value.to_vec(),
            }),
        }
    }
    path
}

/// What of the routes somebody wants.
struct Wanted {
    received_from: Option<PeerIndex>,
    advertised_to: Option<PeerIndex>,
    limit: usize,
}

impl Wanted {
    fn route<P: Sharded>(&self, speaker: &Speaker, mut route: RouteView<P>) -> Option<pb::Route> {
        if let Some(peer) = self.received_from {
            route.paths.retain(|p| p.peer == peer);
        }
        let shards = speaker.shards();
        let told = self.advertised_to.is_none_or(|peer| shards.is_advertised(peer, route.prefix));
        (told && !route.paths.is_empty()).then(|| pb::Route {
            net: Some(convert::net(route.prefix)),
            paths: route.paths.into_iter().map(|p| path(p, speaker)).collect(),
        })
    }
}

fn page<P: Sharded>(
    speaker: &Speaker,
    request: &pb::GetRoutesRequest,
    wanted: &Wanted,
) -> Result<pb::GetRoutesReply, XrlError> {
    let shards = speaker.shards();
    let net: Option<P> = request.net.as_ref().map(|net| convert::prefix(Some(net))).transpose()?;
    let one = |route: Option<RouteView<P>>| pb::GetRoutesReply {
        routes: route.and_then(|r| wanted.route(speaker, r)).into_iter().collect(),
        next_page: 0,
    };
    let inside = match (net, request.r#match()) {
        (Some(prefix), pb::Match::Exact) => return Ok(one(shards.route(prefix))),
        (Some(prefix), pb::Match::Longest) => {
            // A hash table has no order: the covering prefixes are tried, longest first.
            let covering = (0..=prefix.len()).rev().find_map(|len| shards.route(prefix.truncate(len)));
            return Ok(one(covering));
        }
        (net, _) => net.unwrap_or(P::default_route()),
    };
    let (routes, next) = shards.routes(request.page, wanted.limit, |prefix| inside.covers(prefix));
    Ok(pb::GetRoutesReply {
        routes: routes.into_iter().filter_map(|r| wanted.route(speaker, r)).collect(),
        next_page: next.unwrap_or(0),
    })
}

fn plumbing<P: Sharded>(speaker: &Speaker) -> pb::TablePlumbing {
    let shards = speaker.shards();
    let name = |peer: &PeerIndex| speaker.neighbor_address(*peer).map(|a| a.to_string());
    let groups = shards.groups::<P>().into_iter().map(|g| pb::UpdateGroup {
        internal: g.key.internal,
        four_octet_as: g.key.four_octet_as,
        link_local: g.key.link_local,
        next_hop_self: g.key.next_hop_self,
        members: g.members.iter().filter_map(name).collect(),
        blocks: u32::try_from(g.blocks).unwrap_or(u32::MAX),
        behind: g.behind,
        checked: g.checked,
    });
    let next_hops = shards.next_hops::<P>().into_iter().map(|(hop, (known, paths))| {
        let (resolution, interior_cost) = resolution(known);
        pb::NextHop { address: hop.address.to_string(), resolution, interior_cost, paths: paths.into() }
    });
    pb::TablePlumbing {
        family: common::Family::from(P::FAMILY).into(),
        groups: groups.collect(),
        next_hops: next_hops.collect(),
        violations: shards.violations::<P>().iter().map(|v| format!("{v:?}")).collect(),
    }
}

impl BgpShell {
    /// An address that is a neighbour's.
    fn known(&self, text: &str) -> Result<IpAddr, XrlError> {
        let address = address(text)?;
        let known = self.with(|s| s.neighbor_config(address).is_some()).ok_or_else(not_configured)?;
        if known { Ok(address) } else { Err(unknown(address)) }
    }
}

impl pb::Bgp for Served {
    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let summary = self.with(|s| s.summary()).ok_or_else(not_configured)?;
        let table = |family: Family| {
            let view = summary.tables[family as usize];
            pb::Table {
                family: common::Family::from(family).into(),
                prefixes: view.prefixes as u64,
                attribute_sets: view.attribute_sets as u64,
                in_rib: view.in_rib.into(),
                stale: view.stale,
                queued: view.queued as u64,
            }
        };
        Ok(pb::GetSummaryReply {
            local_as: summary.local_as.0,
            router_id: summary.router_id.to_string(),
            neighbors: u32::try_from(summary.neighbors).unwrap_or(u32::MAX),
            established: u32::try_from(summary.established).unwrap_or(u32::MAX),
            tables: Family::ALL.into_iter().map(table).collect(),
        })
    }

    async fn get_neighbors(
        &self,
        _ctx: &CallContext,
        request: pb::GetNeighborsRequest,
    ) -> Result<pb::GetNeighborsReply, XrlError> {
        let addresses: Vec<IpAddr> = match request.address.as_str() {
            "" => self.with(|s| s.neighbors().collect()).ok_or_else(not_configured)?,
            text => vec![self.known(text)?],
        };
        let now = clock::now();
        let view = |a: IpAddr| self.with(|s| s.neighbor(a)).flatten().map(|view| neighbor(view, now));
        Ok(pb::GetNeighborsReply { neighbors: addresses.into_iter().filter_map(view).collect() })
    }

    async fn get_routes(
        &self,
        _ctx: &CallContext,
        request: pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let index = |text: &str| match text {
            "" => Ok(None),
            text => self.known(text).map(|a| self.with(|s| s.neighbor(a)).flatten().map(|view| view.index)),
        };
        let wanted = Wanted {
            received_from: index(&request.received_from)?,
            advertised_to: index(&request.advertised_to)?,
            limit: if request.limit == 0 { 1000 } else { (request.limit as usize).min(MAX_PAGE) },
        };
        let family = match &request.net {
            Some(net) => IpPrefix::try_from(net)?.family(),
            None => convert::family(request.family)?,
        };
        let page = |speaker: &mut Speaker| match family {
            Family::Ipv4 => page::<Ipv4Prefix>(speaker, &request, &wanted),
            Family::Ipv6 => page::<Ipv6Prefix>(speaker, &request, &wanted),
        };
        self.with(page).ok_or_else(not_configured)?
    }

    async fn get_plumbing(
        &self,
        _ctx: &CallContext,
        _request: pb::GetPlumbingRequest,
    ) -> Result<pb::GetPlumbingReply, XrlError> {
        let tables = |s: &mut Speaker| vec![plumbing::<Ipv4Prefix>(s), plumbing::<Ipv6Prefix>(s)];
        Ok(pb::GetPlumbingReply { tables: self.with(tables).ok_or_else(not_configured)? })
    }

    async fn reset_neighbor(
        &self,
        _ctx: &CallContext,
        request: pb::ResetNeighborRequest,
    ) -> Result<pb::ResetNeighborReply, XrlError> {
        let address = self.known(&request.address)?;
        self.input(Input::Reset(address, request.message));
        Ok(pb::ResetNeighborReply {})
    }

    async fn refresh_neighbor(
        &self,
        _ctx: &CallContext,
        request: pb::RefreshNeighborRequest,
    ) -> Result<pb::RefreshNeighborReply, XrlError> {
        let address = self.known(&request.address)?;
        self.input(Input::Refresh(address));
        Ok(pb::RefreshNeighborReply {})
    }

    async fn set_check(
        &self,
        _ctx: &CallContext,
        request: pb::SetCheckRequest,
    ) -> Result<pb::SetCheckReply, XrlError> {
        self.with(|s| s.check(request.on)).ok_or_else(not_configured)?;
        Ok(pb::SetCheckReply {})
    }
}
