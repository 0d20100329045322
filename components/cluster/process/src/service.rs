//! The interface that an element serves: the core's state as messages.

use crate::Served;
use crate::configuration;
use crate::console;
use crate::idl::cluster::v1 as pb;
use crate::maps::ProgramMaps;
use crate::roster;
use crate::totals;
use sluice_bpf::layout::balance::REASON_NAMES;
use sluice_cluster::console::{CallKind, kind};
use sluice_cluster::inventory::{Element, ElementId, OuterPort, Role};
use sluice_cluster::machine::Cluster;
use sluice_cluster::policy::ClassPolicy;
use sluice_cluster::reason::Reason;
use sluice_cluster::roster::Change;
use sluice_cluster::settings::{Settings, link_name};
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::table::Table;
use sluice_process::clock;
use sluice_xrl::{CallContext, XrlError};

fn sections(catalog: &[(Section, StreamOrigin)], table: &Table) -> Vec<pb::StoreSection> {
    let sums = table.sums().iter().filter_map(|(id, sum)| Some((&catalog.get(usize::from(id.0))?.0, sum)));
    let section = |(section, sum): (&Section, &sluice_cluster::stream::section::Sum)| pb::StoreSection {
        origin: section.origin.clone(),
        family: section.family.to_string(),
        table: section.table.0,
        routes: sum.routes,
        checksum: format!("{:016x}", sum.hash),
    };
    sums.map(section).collect()
}

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
        let last_hello = self.maps.borrow().as_ref().and_then(|maps| maps.last_hello(element.id));
        let (share, rows) =
            machine.balancer().map(|balancer| balancer.share(0, element.id)).unwrap_or_default();
        pb::Element {
            number: element.id.number().into(),
            name: element.name.clone(),
            roles: roles_of(element),
            state: state.into(),
            epoch: if is_own { machine.epoch() } else { member.map_or(0, |member| member.epoch) },
            announced_ms: member.map(|member| millis(now.saturating_since(member.announced_at))),
            hello_ms: last_hello
                .map(|hello| millis(now.saturating_since(sluice_base::Instant::ZERO + hello))),
            share,
            rows,
            mac: member.map(|member| member.mac.to_string()).unwrap_or_default(),
            machine: self.roster.state(element.id).machine,
            configuration: None,
        }
    }

    /// Returns the elements that the configuration has and the roster has not.
    fn removed(&self, settings: &Settings) -> Vec<pb::Element> {
        let configured = self.configured.borrow();
        let all = configured.iter().flat_map(|configured| configured.inventory.iter());
        let removed = all.filter(|element| settings.inventory.get(element.id).is_none());
        let message = |element: &Element| pb::Element {
            number: element.id.number().into(),
            name: element.name.clone(),
            roles: roles_of(element),
            state: "removed".into(),
            machine: self.roster.state(element.id).machine,
            ..Default::default()
        };
        removed.map(message).collect()
    }

    async fn change(
        &self,
        ctx: &CallContext,
        request: pb::ChangeElementRequest,
        change: Change,
    ) -> Result<pb::ChangeElementReply, XrlError> {
        let changed = roster::change(self, request.element, change, &ctx.principal).await;
        let (element, state) = changed.map_err(|error| XrlError::application(1, error.to_string()))?;
        Ok(pb::ChangeElementReply {
            element: element.number().into(),
            state: roster::word(state).into(),
            machine: state.machine,
        })
    }
}

fn roles_of(element: &Element) -> String {
    let roles: Vec<&str> = element.roles.iter().map(|role| role.name()).collect();
    roles.join(" ")
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

/// Returns the classes of packets, and the elements that get them. `maps` are those of the balancer's program.
fn classes(machine: &Cluster, settings: &Settings, maps: Option<&ProgramMaps>) -> Vec<pb::Class> {
    let joined = |numbers: Vec<String>| numbers.join(", ");
    let message = |(number, class): (usize, ClassPolicy)| {
        let dscps = settings.policy.dscp().iter().enumerate().filter(|(_, of)| usize::from(**of) == number);
        let with_role = settings.inventory.with_role(class.role).map(|element| element.id);
        let serving = with_role.filter(|element| machine.in_service().contains(element));
        let led = maps.map(|maps| maps.led(number));
        pb::Class {
            packets: match number {
                0 => "all others".into(),
                _ => joined(dscps.map(|(dscp, _)| dscp.to_string()).collect()),
            },
            role: class.role.name().into(),
            mode: class.mode.name().into(),
            elements: joined(serving.map(|element| element.to_string()).collect()),
            number: number as u32,
            frames: led.map(|led| led.packets),
            octets: led.map(|led| led.octets),
        }
    };
    settings.policy.classes().map(message).collect()
}

/// Refuses calls that elements make of their own accord.
fn check_asker(request: &pb::GetFromElementRequest) -> Result<(), XrlError> {
    match kind(&request.path, false) {
        Some(CallKind::Prepares) => {
            Err(XrlError::AccessDenied(format!("{}: elements call it", request.path)))
        }
        _ => Ok(()),
    }
}

impl pb::Elements for Served {
    async fn get_from_element(
        &self,
        _ctx: &CallContext,
        request: pb::GetFromElementRequest,
    ) -> Result<pb::GetFromElementReply, XrlError> {
        check_asker(&request)?;
        // Nobody's name goes with a call that only reads.
        console::ask(self, pb::GetFromElementRequest { person: String::new(), ..request }).await
    }

    async fn call_element(
        &self,
        ctx: &CallContext,
        request: pb::GetFromElementRequest,
    ) -> Result<pb::GetFromElementReply, XrlError> {
        check_asker(&request)?;
        console::ask_for(self, &ctx.principal, request).await
    }
}

impl pb::Cluster for Served {
    async fn get_cluster(
        &self,
        _ctx: &CallContext,
        _request: pb::GetClusterRequest,
    ) -> Result<pb::GetClusterReply, XrlError> {
        let not = self.without_program.borrow().clone().unwrap_or_default();
        let configurations = configuration::numbers(self).await;
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
                elements: all
                    .map(|element| pb::Element {
                        configuration: configurations.get(&element.id).copied(),
                        ..self.element(machine, settings, element)
                    })
                    .chain(self.removed(settings))
                    .collect(),
                ports: ports(machine, settings),
                classes: classes(machine, settings, self.maps.borrow().as_ref()),
            }
        }))
    }

    async fn drain(
        &self,
        ctx: &CallContext,
        request: pb::ChangeElementRequest,
    ) -> Result<pb::ChangeElementReply, XrlError> {
        self.change(ctx, request, Change::Drain).await
    }

    async fn undrain(
        &self,
        ctx: &CallContext,
        request: pb::ChangeElementRequest,
    ) -> Result<pb::ChangeElementReply, XrlError> {
        self.change(ctx, request, Change::Undrain).await
    }

    async fn remove(
        &self,
        ctx: &CallContext,
        request: pb::ChangeElementRequest,
    ) -> Result<pb::ChangeElementReply, XrlError> {
        self.change(ctx, request, Change::Remove).await
    }

    async fn replace(
        &self,
        ctx: &CallContext,
        request: pb::ChangeElementRequest,
    ) -> Result<pb::ChangeElementReply, XrlError> {
        self.change(ctx, request, Change::Replace).await
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

    async fn get_totals(
        &self,
        _ctx: &CallContext,
        _request: pb::GetTotalsRequest,
    ) -> Result<pb::GetTotalsReply, XrlError> {
        Ok(totals::all(self).await)
    }

    async fn get_outer_interfaces(
        &self,
        _ctx: &CallContext,
        _request: pb::GetOuterInterfacesRequest,
    ) -> Result<pb::GetOuterInterfacesReply, XrlError> {
        Ok(totals::outer_interfaces(self).await)
    }

    async fn get_comparison(
        &self,
        _ctx: &CallContext,
        _request: pb::GetComparisonRequest,
    ) -> Result<pb::GetComparisonReply, XrlError> {
        Ok(totals::comparison(self).await)
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

    async fn get_store(
        &self,
        _ctx: &CallContext,
        _request: pb::GetStoreRequest,
    ) -> Result<pb::GetStoreReply, XrlError> {
        let settings = self.settings.borrow().clone();
        let Some(settings) = settings.filter(|settings| settings.store.is_some()) else {
            return Ok(pb::GetStoreReply { state: "none".into(), ..Default::default() });
        };
        let view = self.stream.view();
        let leader = view.leader.and_then(|leader| leader.element);
        let takes = settings.takes_routes();
        let mut reply = pb::GetStoreReply {
            state: match () {
                () if view.endpoint.is_none() => "lost",
                () if leader == Some(settings.element) => "leads",
                () if takes => "follows",
                () => "watches",
            }
            .into(),
            endpoint: view.endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default(),
            problem: view.problem.unwrap_or_default(),
            leader: leader.map_or(0, |leader| leader.number().into()),
            epoch: view.leader.map_or(0, |leader| leader.epoch),
            revision: view.revision,
            octets: view.octets,
            behind: if takes { view.revision.saturating_sub(view.followed) } else { 0 },
            lag_ms: view.lag_ms,
            ..Default::default()
        };
        self.stream.with_term(|term| {
            let leader = &term.leader;
            reply.entry = leader.head().sequence;
            reply.routes = leader.table().len();
            reply.waiting = leader.waiting() as u64;
            reply.log = leader.log_len() as u64;
            reply.sections = sections(&leader.head().catalog.sections, leader.table());
        });
        if takes {
            self.stream.with_follower(|follower| {
                reply.entry = follower.position().map_or(0, |(_, sequence)| sequence);
                reply.waiting = follower.waiting_changes() as u64;
                reply.loads = follower.loads();
                if let Some(table) = follower.table() {
                    reply.routes = table.len();
                    reply.sections = sections(follower.sections(), table);
                }
            });
        }
        Ok(reply)
    }
}
