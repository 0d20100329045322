//! The RIB's process: the core, its clients, and the way to the FEA.

use super::messages::{Answer, FromFea, FromRib, ToFea, ToRib};
use super::process::{Class, Process};
use super::{Base, Configuration, ProcessId};
use crate::fabric::ipc::{Instance, Life, Message, word};
use crate::world::Fabric;
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{
    Address, FamilyId, FibBatch, Instant, InterfaceEvent, Ipv4Prefix, Ipv6Prefix, RouteBatch, TableId, Xid,
};
use sluice_clients::{FibOwner, FirstSnapshot, ResyncEnd, Window};
use sluice_machine::{Budget, Machine, Outbox, Progress, Request};
use sluice_rib::registrations::Registrations;
use sluice_rib::request::UpdateRoutes;
use sluice_rib::{Input, Output, Rib, Scope, TableKey, WatcherId};
use std::collections::BTreeMap;
use std::net::IpAddr;

pub(super) const CLASS: Class =
    Class { name: "rib", start, is_in_light_worlds: false, has_connections: false };

/// The RIB's process.
pub struct RibProcess {
    /// The core.
    pub rib: Rib,
    out: Outbox<Output>,
    registrations: Registrations<Instance>,
    watchers: BTreeMap<Instance, WatcherId>,
    snapshot: FirstSnapshot,
    /// Requests about next hops that wait for the interfaces.
    asked: Vec<(Instance, Vec<Address>)>,
    fea: FibOwner,
    window: Window,
}

fn start(base: &mut Base, fabric: &mut Fabric, _configuration: &Configuration) -> Box<dyn Process> {
    let now = base.now(fabric);
    let mut process = RibProcess {
        rib: Rib::new(base.seed(fabric), 2),
        out: Outbox::new(),
        registrations: Registrations::default(),
        watchers: BTreeMap::new(),
        snapshot: FirstSnapshot::new(now),
        asked: Vec::new(),
        fea: FibOwner::new(now),
        window: Window::new(FibOwner::WINDOW),
    };
    process.input(base, fabric, Input::FibGone);
    Box::new(process)
}

impl RibProcess {
    /// The number of requests and batches that wait for an answer.
    pub fn waits(&self) -> usize {
        self.asked.len() + self.window.in_flight() as usize
    }

    fn input(&mut self, base: &mut Base, fabric: &mut Fabric, input: Input) {
        self.rib.handle(base.now(fabric), input, &mut self.out);
        self.pass_on(base, fabric);
    }

    fn update<P: TableKey>(
        &mut self,
        base: &mut Base,
        fabric: &mut Fabric,
        from: ProcessId,
        batch: RouteBatch<P>,
    ) {
        let update = UpdateRoutes { table: from.table(), origin: from.class().name.into(), batch };
        update.make(&mut self.rib, base.now(fabric), &mut self.out);
        self.pass_on(base, fabric);
    }

    fn pass_on(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.carry_out(base, fabric);
        self.send(base, fabric);
        base.wake(fabric, true);
    }

    fn carry_out(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain() {
            match output {
                Output::InterestInvalid(watcher, _, ranges) => {
                    let client = self.watchers.iter().find(|(_, w)| **w == watcher).map(|(c, _)| *c);
                    if let Some(client) = client {
                        base.send_to_instance(fabric, client, FromRib::InterestInvalid(ranges));
                    }
                }
                // Nobody watches: see BGP's host.
                Output::Presence(..) => {}
                Output::Rejected(_, origin, routes) => {
                    fabric.history.note(fabric.now, base.id, 8, || format!("{origin}: refused {routes:?}"));
                }
                Output::Event(event) => fabric.history.note(fabric.now, base.id, 9, || event.to_string()),
            }
        }
        self.out = out;
    }

    fn watcher(&mut self, client: Instance) -> WatcherId {
        let number = WatcherId(client.life << 4 | client.process.place() as u32);
        *self.watchers.entry(client).or_insert(number)
    }

    fn called(&mut self, base: &mut Base, fabric: &mut Fabric, from: Instance, call: ToRib) {
        let table = from.process.table();
        let origin = from.process.class().name;
        match call {
            ToRib::RegisterOrigin(settings) => {
                self.registrations.register((table, settings.name.clone()), Some(from), &settings.name);
                self.input(base, fabric, Input::RegisterOrigin(table, settings));
                base.send_to_instance(fabric, from, FromRib::Registered);
            }
            ToRib::UpdateIpv4(batch) => {
                self.update(base, fabric, from.process, batch);
                base.send_to_instance(fabric, from, FromRib::RoutesTaken);
            }
            ToRib::UpdateIpv6(batch) => {
                self.update(base, fabric, from.process, batch);
                base.send_to_instance(fabric, from, FromRib::RoutesTaken);
            }
            ToRib::UpdateXids(batch) => {
                self.update(base, fabric, from.process, batch);
                base.send_to_instance(fabric, from, FromRib::RoutesTaken);
            }
            ToRib::GatewayUsable(gateway, is_usable) => {
                let input = Input::GatewayUsable(table, origin.into(), gateway.into(), is_usable);
                self.input(base, fabric, input);
            }
            ToRib::EndOfRefresh => {
                self.registrations.refreshed(&(table, origin.into()));
                self.input(base, fabric, Input::EndOfRefresh(table, origin.into()));
            }
            ToRib::Interest(request) => {
                let watcher = self.watcher(from);
                for range in request.deregister {
                    self.input(base, fabric, Input::DeregisterInterest(table, watcher, range));
                }
                if !request.register.is_empty() {
                    self.asked.push((from, request.register));
                }
            }
        }
    }

    fn handle_fea(&mut self, base: &mut Base, fabric: &mut Fabric, word: FromFea) {
        match word {
            FromFea::Owned(known) => {
                let tables = self.fea.begin_resync(self.rib.tables().map(|table| table.id), known);
                base.send(fabric, ProcessId::FEA, ToFea::BeginResync(tables));
                base.send(fabric, ProcessId::FEA, ToFea::Subscribe);
                self.input(base, fabric, Input::FibRestarted);
                self.fea.accepted(false);
                self.send(base, fabric);
            }
            FromFea::Interfaces(events) => {
                for event in events {
                    if event == InterfaceEvent::SnapshotEnd {
                        self.snapshot.complete();
                    }
                    self.input(base, fabric, Input::Interface(event));
                }
            }
            FromFea::FibTaken => self.window.answered(),
            FromFea::Resynced => self.fea.resynced(),
            FromFea::RoutesRejected(table, routes) => {
                let routes = routes
                    .into_iter()
                    .map(|(prefix, provenance, reason)| (prefix.into(), provenance, reason));
                self.input(base, fabric, Input::FibRejected(table, routes.collect()));
            }
        }
    }

    fn client_died(&mut self, base: &mut Base, fabric: &mut Fabric, client: Instance) {
        for (table, origin) in self.registrations.client_died(&client) {
            self.input(base, fabric, Input::OriginDied(table, origin));
        }
        self.asked.retain(|(asker, _)| *asker != client);
        if let Some(watcher) = self.watchers.remove(&client) {
            self.input(base, fabric, Input::WatcherDied(watcher));
        }
    }

    fn answer(&mut self, base: &Base, fabric: &mut Fabric) {
        if !self.snapshot.is_over(base.now(fabric)) {
            return;
        }
        for (client, addrs) in std::mem::take(&mut self.asked) {
            let (watcher, table) = (self.watcher(client), client.process.table());
            let answer = |addr| {
                Some(match addr {
                    Address::Ip(IpAddr::V4(a)) => {
                        Answer::Ipv4(self.rib.interest(table, watcher, V4Addr(a), Scope::NextHop))
                    }
                    Address::Ip(IpAddr::V6(a)) => {
                        Answer::Ipv6(self.rib.interest(table, watcher, V6Addr(a), Scope::NextHop))
                    }
                    Address::Identifier(_) => {
                        let xid = Xid::try_from(addr).ok()?;
                        Answer::Xid(self.rib.interest(table, watcher, xid, Scope::NextHop))
                    }
                })
            };
            let answers = addrs.into_iter().filter_map(answer).collect();
            base.send_to_instance(fabric, client, FromRib::Answers(answers));
        }
    }

    /// Sends the engine routes, as far as it takes them.
    fn send(&mut self, base: &Base, fabric: &mut Fabric) {
        while self.fea.is_connected() && self.window.has_room() {
            let Some((table, families)) = self.rib.next_fib_work() else { return };
            if families.contains(&FamilyId::IPV4) {
                self.send_batch::<Ipv4Prefix>(base, fabric, table, ToFea::UpdateIpv4);
            }
            if families.contains(&FamilyId::IPV6) && self.window.has_room() {
                self.send_batch::<Ipv6Prefix>(base, fabric, table, ToFea::UpdateIpv6);
            }
        }
    }

    fn send_batch<P: TableKey>(
        &mut self,
        base: &Base,
        fabric: &mut Fabric,
        table: TableId,
        call: impl FnOnce(TableId, FibBatch<P>) -> ToFea,
    ) {
        let mut batch = FibBatch::<P, Address>::default();
        self.rib.fill_fib(table, fabric.settings.batch, &mut batch);
        if let Some(batch) = batch.convert(Address::ip).filter(|batch| !batch.is_empty()) {
            self.window.sent();
            base.send(fabric, ProcessId::FEA, call(table, batch));
        }
    }

    fn is_drained(&self) -> bool {
        self.rib.fib_work().next().is_none() && self.window.is_empty()
    }

    fn resync_end(&self, now: Instant) -> ResyncEnd {
        self.fea.resync_end(now, self.is_drained(), self.registrations.are_all_refreshed())
    }
}

impl Process for RibProcess {
    fn life(&mut self, base: &mut Base, fabric: &mut Fabric, life: Life) {
        match life {
            Life::Born(fea) if fea.process == ProcessId::FEA => {
                base.send(fabric, ProcessId::FEA, ToFea::SetOwner);
            }
            Life::Born(_) => {}
            Life::Died(fea) if fea.process == ProcessId::FEA => {
                self.fea.engine_died();
                self.window.clear();
                self.input(base, fabric, Input::FibGone);
            }
            Life::Died(client) => self.client_died(base, fabric, client),
        }
    }

    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, from: Instance, message: Box<dyn Message>) {
        match word(message) {
            Ok(call) => self.called(base, fabric, from, call),
            Err(message) => {
                if let Ok(word) = word(message) {
                    self.handle_fea(base, fabric, word);
                }
            }
        }
    }

    fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.answer(base, fabric);
        let budget = Budget(fabric.settings.slice);
        if self.rib.run_slice(base.now(fabric), budget, &mut self.out) == Progress::More {
            base.wake(fabric, true);
        }
        self.carry_out(base, fabric);
        self.send(base, fabric);
        if self.resync_end(base.now(fabric)) == ResyncEnd::Now {
            let tables = self.fea.end_resync();
            base.send(fabric, ProcessId::FEA, ToFea::EndResync(tables));
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let waits_for_interfaces = !self.asked.is_empty() && !self.snapshot.is_over(now);
        let asked = waits_for_interfaces.then(|| self.snapshot.deadline());
        let resync = match self.resync_end(now) {
            ResyncEnd::At(end) => Some(end),
            ResyncEnd::Waits | ResyncEnd::Now => None,
        };
        [asked, resync, self.rib.next_deadline()].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.rib.on_deadline(base.now(fabric), &mut self.out);
        self.carry_out(base, fabric);
        base.wake(fabric, true);
    }

    /// Returns true if the engine has every route and no route of earlier lives, and no origin's grace time runs.
    fn is_settled(&mut self) -> bool {
        let is_sent = self.fea.is_synchronized() && self.is_drained();
        is_sent && self.asked.is_empty() && self.rib.next_deadline().is_none()
    }
}
