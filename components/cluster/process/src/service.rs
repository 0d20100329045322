//! The interface that an element serves: the core's state as messages.

use crate::Served;
use crate::idl::cluster::v1 as pb;
use sluice_bpf::layout::balance::REASON_NAMES;
use sluice_cluster::inventory::{Element, ElementId, OuterPort, Role};
use sluice_cluster::machine::Cluster;
use sluice_cluster::reason::Reason;
use sluice_cluster::settings::{Settings, link_name};
use sluice_process::clock;
use sluice_xrl::{CallContext, XrlError};

/// Neighbors of a page, unless the caller wants fewer.
const NEIGHBORS: usize = 1000;

impl Served {
    fn element(&self, machine: &Cluster, settings: &Settings, element: &Element) -> pb::Element {
        let now = clock::now();
        let millis = |duration: std::time::Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        let member = machine.membership().get(element.id);
        let is_own = element.id == settings.element;
        let is_silent = member.is_none_or(|member| member.is_lost);
        let state = match () {
            () if settings.drained.contains(&element.id) => "drained",
            () if is_own => "own",
            () if is_silent => "silent",
            () if member.is_some_and(|member| member.differs) => "differs",
            () => "up",
        };
        let heard = self.maps.borrow().as_ref().and_then(|maps| maps.heard(element.id));
        let roles: Vec<&str> = element.roles.iter().map(|role| role.name()).collect();
        let (share, rows) =
            machine.balancer().map(|balancer| balancer.share(0, element.id)).unwrap_or_default();
        pb::Element {
            number: element.id.number().into(),
            name: element.name.clone(),
            roles: roles.join(" "),
            state: state.into(),
            epoch: if is_own { machine.epoch() } else { member.map_or(0, |member| member.epoch) },
            announced_ms: member.map(|member| millis(now.saturating_since(member.heard))),
            hello_ms: heard.map(|heard| millis(now.saturating_since(sluice_base::Instant::ZERO + heard))),
            share,
            rows,
            mac: member.map(|member| member.mac.to_string()).unwrap_or_default(),
        }
    }
}

fn ports(machine: &Cluster, settings: &Settings) -> Vec<pb::Port> {
    let all = settings
        .inventory
        .iter()
        .flat_map(|element| element.ports.iter().map(move |port| (element.id, port)));
    let message = |(balancer, port): (ElementId, &OuterPort)| {
        let addresses = settings.addresses.get(&port.number).into_iter().flatten();
        let addresses: Vec<String> = addresses.map(|a| format!("{}/{}", a.addr, a.prefix_len)).collect();
        let here = if balancer == settings.element { port.interface.clone() } else { link_name(port.number) };
        pb::Port {
            number: port.number.number().into(),
            balancer: balancer.number().into(),
            interface: port.interface.clone(),
            mac: port.mac.to_string(),
            addresses: addresses.join(" "),
            running: machine.interface(&here).is_some_and(|interface| interface.running),
        }
    };
    all.map(message).collect()
}

impl pb::Cluster for Served {
    async fn get_cluster(
        &self,
        _ctx: &CallContext,
        _request: pb::GetClusterRequest,
    ) -> Result<pb::GetClusterReply, XrlError> {
        let not = self.without_program.borrow().clone().unwrap_or_default();
        Ok(self.driver.read(|machine| {
            let Some(settings) = machine.settings() else { return pb::GetClusterReply::default() };
            let all = settings.inventory.iter();
            pb::GetClusterReply {
                element: settings.element.number().into(),
                control: settings.control().map_or(0, |element| element.number().into()),
                balances: machine.balancer().is_some(),
                balances_not: if settings.has_role(settings.element, Role::Balancer) {
                    not
                } else {
                    String::new()
                },
                neighbors: machine.neighbors().len().try_into().unwrap_or(u32::MAX),
                elements: all.map(|element| self.element(machine, settings, element)).collect(),
                ports: ports(machine, settings),
            }
        }))
    }

    async fn get_counters(
        &self,
        _ctx: &CallContext,
        _request: pb::GetCountersRequest,
    ) -> Result<pb::GetCountersReply, XrlError> {
        let counter =
            |by: &str, reason: &str, count| pb::Counter { by: by.into(), reason: reason.into(), count };
        let mut counters = Vec::new();
        if let Some(maps) = &*self.maps.borrow() {
            let named = Reason::ALL.into_iter().zip(REASON_NAMES);
            counters.extend(named.map(|(reason, (_, name))| counter("program", name, maps.count(reason))));
        }
        let ignored = self.driver.read(Cluster::ignored);
        let of_process = [
            ("forged", ignored.forged),
            ("replayed", ignored.replayed),
            ("foreign", ignored.foreign),
            ("malformed", ignored.malformed),
            ("own-number", ignored.own_number),
            ("unentitled", ignored.unentitled),
        ];
        counters.extend(of_process.map(|(name, count)| counter("process", name, count)));
        Ok(pb::GetCountersReply { counters })
    }

    async fn get_neighbors(
        &self,
        _ctx: &CallContext,
        request: pb::GetNeighborsRequest,
    ) -> Result<pb::GetNeighborsReply, XrlError> {
        let bad = || XrlError::BadArguments("`after` is not of an earlier page".into());
        let after: usize =
            if request.after.is_empty() { 0 } else { request.after.parse().map_err(|_| bad())? };
        let limit = if request.limit == 0 { NEIGHBORS } else { (request.limit as usize).min(NEIGHBORS) };
        let all = self.driver.read(Cluster::neighbors);
        let page = all.iter().skip(after).take(limit).map(|(key, mac)| pb::Neighbor {
            port: key.port.number().into(),
            address: key.address.to_string(),
            mac: mac.to_string(),
        });
        let neighbors: Vec<_> = page.collect();
        let next = after.saturating_add(neighbors.len());
        let next = if next < all.len() { next.to_string() } else { String::new() };
        Ok(pb::GetNeighborsReply { neighbors, next })
    }
}
