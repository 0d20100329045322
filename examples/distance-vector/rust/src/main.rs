//! A distance-vector protocol as a component of the router: configuration, interfaces, sockets and calls. The rules are in [`table`].

mod table;

use idl::dv::v1 as pb;
use serde::Deserialize;
use sluice_base::{
    Address, Distance, Forwarding, InterfaceIndex, Ipv4Prefix, Metric, NextHop, Provenance, RouteAction,
    RouteBatch, RouteSet, RouteUpdate,
};
use sluice_process::handover::{HandOverError, Sink, Source, StatePart, Versions};
use sluice_process::part::Planned;
use sluice_process::{
    Frame, Prepared, Protocol, ProtocolFrame, RibOrigin, RibOriginSettings, SocketError, Tasks, clock,
    open_udp,
};
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::{CallContext, Service, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use table::{INFINITY, Route, Table, decode};
use tokio::sync::Notify;
use tracing::warn;

sluice_xrl::include_idl!();

const PORT: u16 = 5520;
/// The time for which the RIB keeps the routes of a dead process.
const GRACE: Duration = Duration::from_secs(60);
/// The learned routes by prefix, as a part of the state.
const LEARNED: StatePart = StatePart::new("dv.learned", Versions::only(1));
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 55, 20);

/// The configuration (dv.yang).
#[derive(Deserialize, Default)]
#[serde(default)]
struct Settings {
    interval: u64,
    network: Vec<Network>,
    interface: Vec<Interface>,
}

#[derive(Deserialize)]
struct Network {
    prefix: Ipv4Prefix,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    direct: bool,
}

struct Process {
    protocol: ProtocolFrame,
    origin: Rc<RibOrigin>,
    settings: RefCell<Settings>,
    table: RefCell<Table>,
    neighbors: RefCell<BTreeMap<(InterfaceIndex, Ipv4Addr), u64>>,
    malformed: Cell<u64>,
    provenance: Cell<Provenance>,
    changed: Notify,
    /// A task for each interface.
    speaking: Tasks,
}

sluice_process::served!(Process);

impl Process {
    fn new(frame: Frame) -> Self {
        let settings = RibOriginSettings::new("dv", frame.table, Distance(120), GRACE);
        let origin = RibOrigin::new(&frame.router, settings);
        Process {
            provenance: Cell::new(frame.provenance),
            protocol: ProtocolFrame::new(frame).with_interfaces().with_origin(&origin),
            origin,
            settings: RefCell::default(),
            table: RefCell::default(),
            neighbors: RefCell::default(),
            malformed: Cell::default(),
            changed: Notify::new(),
            speaking: Tasks::default(),
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.settings.borrow().interval.max(1))
    }

    /// Sends and receives on an interface for ever.
    async fn speak_on(&self, index: InterfaceIndex, name: &str) -> Result<(), SocketError> {
        let options = fea::SocketOptions {
            interface: name.into(),
            ttl: 1,
            multicast_groups: vec![IpAddr::from(GROUP).into()],
            ..Default::default()
        };
        let local = Some(IpAddr::from(Ipv4Addr::UNSPECIFIED).into());
        let options = Some(options);
        let request = fea::OpenUdpRequest { local, port: PORT.into(), options, ..Default::default() };
        let socket = open_udp(&self.protocol.frame, request).await?;
        let mut ticks = tokio::time::interval(self.interval());
        let mut octets = [0; 2048];
        loop {
            tokio::select! {
                received = socket.recv_from(&mut octets) => {
                    if let (length, std::net::SocketAddr::V4(from)) = received? {
                        self.receive((*from.ip(), index), &octets[..length]);
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    let lost = self.table.borrow_mut().expire(clock::now(), 3 * self.interval(), |_| false);
                    self.announce(&lost);
                }
                () = self.changed.notified() => {}
            }
            let datagrams = self.table.borrow().datagrams(index);
            for datagram in datagrams {
                // A datagram that is lost is sent again with the next interval.
                let _ = socket.send_to(&datagram, (GROUP, PORT)).await;
            }
        }
    }

    fn receive(&self, from: (Ipv4Addr, InterfaceIndex), datagram: &[u8]) {
        let is_own =
            |interface: &sluice_base::Interface| interface.addresses.iter().any(|a| a.addr == from.0);
        if self.protocol.interfaces.table().iter().any(is_own) {
            return;
        }
        let Some(entries) = decode(datagram) else { return self.malformed.set(self.malformed.get() + 1) };
        *self.neighbors.borrow_mut().entry((from.1, from.0)).or_default() += 1;
        let changed = self.table.borrow_mut().receive(clock::now(), from, &entries);
        self.announce(&changed);
    }

    /// Brings changed prefixes to the RIB, and to the neighbors at once.
    fn announce(&self, changed: &[Ipv4Prefix]) {
        if changed.is_empty() {
            return;
        }
        let table = self.table.borrow();
        let mut batch = RouteBatch::default();
        for prefix in changed {
            let action = match table.learned.get(prefix).filter(|route| route.metric < INFINITY) {
                None => RouteAction::Delete,
                Some(route) => {
                    let gateway =
                        (!self.is_direct(route.interface)).then_some(Address::Ip(route.neighbor.into()));
                    let hop = NextHop::new(gateway, Some(route.interface));
                    let metric = Metric(route.metric.into());
                    batch.sets.push(RouteSet { metric, ..RouteSet::plain(Forwarding::one(hop)) });
                    RouteAction::Set(u32::try_from(batch.sets.len() - 1).unwrap_or_default())
                }
            };
            let provenance = self.provenance.replace(self.provenance.get().next());
            batch.updates.push(RouteUpdate { prefix: *prefix, action, provenance });
        }
        self.origin.send(&batch);
        self.changed.notify_waiters();
    }

    fn is_direct(&self, index: InterfaceIndex) -> bool {
        let name = self.name(index);
        self.settings.borrow().interface.iter().any(|interface| interface.direct && interface.name == name)
    }

    fn name(&self, index: InterfaceIndex) -> String {
        self.protocol
            .interfaces
            .table()
            .get(index)
            .map(|interface| interface.name.clone())
            .unwrap_or_default()
    }

    fn announce_learned(&self) {
        let all: Vec<_> = self.table.borrow().learned.keys().copied().collect();
        self.announce(&all);
    }
}

impl Protocol for Process {
    const CLASS: &'static str = "dv";
    const PARTS: &'static [StatePart] = &[LEARNED];
    type Settings = Settings;
    type Error = serde_json::Error;

    fn protocol(&self) -> &ProtocolFrame {
        &self.protocol
    }

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![pb::dv_service(Rc::new(Served(Rc::clone(self))))]
    }

    fn announce_all(self: &Rc<Self>, _: &RibOrigin) {
        self.announce_learned();
    }

    /// Speaks on each configured interface that runs, and loses the routes of the others.
    fn ready(self: &Rc<Self>) {
        let interfaces = self.protocol.interfaces.table();
        let settings = self.settings.borrow();
        let running = settings.interface.iter().filter_map(|it| interfaces.running(&it.name));
        let running: Vec<_> = running.map(|it| (it.index, it.name.clone())).collect();
        let lost = |route: &Route| running.iter().all(|(index, _)| *index != route.interface);
        drop(settings);
        let changed = self.table.borrow_mut().expire(clock::now(), 3 * self.interval(), lost);
        self.announce(&changed);
        let tasks = running.into_iter().map(|(index, name)| {
            let me = Rc::clone(self);
            tokio::task::spawn_local(async move {
                if let Err(error) = me.speak_on(index, &name).await {
                    warn!(interface = name, %error, "the protocol is not spoken");
                }
            })
        });
        self.speaking.replace(tasks);
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, Self::Error> {
        serde_json::from_value(planned.whole()).map(Prepared::quiet)
    }

    async fn configure(self: &Rc<Self>, settings: Settings) -> Result<(), Self::Error> {
        self.table.borrow_mut().networks = settings.network.iter().map(|network| network.prefix).collect();
        self.settings.replace(settings);
        self.announce_learned();
        Ok(())
    }

    async fn hand_over(self: &Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        self.speaking.replace([]);
        let learned: Vec<_> = self.table.borrow().learned.clone().into_iter().collect();
        to.begin(&LEARNED).await?;
        to.put(&learned).await
    }

    async fn take_over(self: &Rc<Self>, from: &mut Source) -> Result<(), HandOverError> {
        from.begin(&LEARNED).await?;
        self.table.borrow_mut().learned = from.take::<Vec<_>>().await?.into_iter().collect();
        Ok(())
    }
}

impl pb::Dv for Served {
    async fn get_summary(
        &self,
        _: &CallContext,
        _: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let routes = self.table.borrow().learned.values().filter(|route| route.metric < INFINITY).count();
        Ok(pb::GetSummaryReply {
            routes: u32::try_from(routes).unwrap_or(u32::MAX),
            malformed: self.malformed.get(),
        })
    }

    async fn get_routes(
        &self,
        _: &CallContext,
        _: pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let row = |(prefix, route): (&Ipv4Prefix, &Route)| pb::Route {
            prefix: prefix.to_string(),
            metric: route.metric.into(),
            neighbor: route.neighbor.to_string(),
            interface: self.name(route.interface),
            heard_ms: u64::try_from(clock::now().saturating_since(route.received_at).as_millis())
                .unwrap_or(u64::MAX),
        };
        Ok(pb::GetRoutesReply { routes: self.table.borrow().learned.iter().map(row).collect() })
    }

    async fn get_neighbors(
        &self,
        _: &CallContext,
        _: pb::GetNeighborsRequest,
    ) -> Result<pb::GetNeighborsReply, XrlError> {
        let row = |(&(index, address), &datagrams): (&(InterfaceIndex, Ipv4Addr), &u64)| pb::Neighbor {
            address: address.to_string(),
            interface: self.name(index),
            datagrams,
        };
        Ok(pb::GetNeighborsReply { neighbors: self.neighbors.borrow().iter().map(row).collect() })
    }
}

fn main() -> ExitCode {
    sluice_process::program("dv", |options| {
        sluice_process::run(options, |frame| async move { Ok(Rc::new(Process::new(frame))) })
    })
}
