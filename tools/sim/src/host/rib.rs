//! The RIB's process: the core, its clients, and the way to the FEA.
//!
//! Rules of the shell that are repeated here because they are there and not in the core: when a resync ends, that questions wait
//! for the interfaces, and whose origin is stale with which client.

use super::Base;
use super::ipc::{Answer, Message, Process};
use crate::world::Fabric;
use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{Duration, FibBatch, Instant, InterfaceEvent, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use sluice_rib::table::RibKey;
use sluice_rib::{Input, Output, Rib, Scope, WatcherId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Batches to the FEA that may be under way.
const WINDOW: u32 = 8;
/// The engine keeps what it has until all origins have announced everything, at least this long ...
const SETTLE: Duration = Duration::from_secs(5);
/// ... and at most this long.
const GRACE: Duration = Duration::from_secs(120);
/// How long questions wait for the FEA to tell of interfaces.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who asked what and has no answer yet.
type Asked = (Process, u32, Vec<IpAddr>);

/// The RIB's process.
pub struct RibProcess {
    /// The core.
    pub rib: Rib,
    out: Outbox<Output>,
    started: Instant,
    /// The origins that registered, and in which life of their process.
    origins: BTreeMap<Process, u32>,
    refreshed: BTreeSet<Process>,
    watchers: BTreeMap<(Process, u32), WatcherId>,
    interfaces_known: bool,
    asked: Vec<Asked>,
    fea_owned: bool,
    resyncing: bool,
    ending: bool,
    under_way: u32,
}

impl RibProcess {
    /// The process as it starts.
    pub fn new(base: &Base, fabric: &Fabric) -> Self {
        RibProcess {
            rib: Rib::new(base.seed(fabric, Process::Rib), 2),
            out: Outbox::new(),
            started: base.now(fabric),
            origins: BTreeMap::new(),
            refreshed: BTreeSet::new(),
            watchers: BTreeMap::new(),
            interfaces_known: false,
            asked: Vec::new(),
            fea_owned: false,
            resyncing: false,
            ending: false,
            under_way: 0,
        }
    }

    /// Whether the engine has been told everything, and nothing of before is left in it.
    pub fn is_settled(&self) -> bool {
        let has_work = self.rib.tables_with_fib_work().next().is_some();
        self.fea_owned && !self.resyncing && !has_work && self.under_way == 0 && self.asked.is_empty()
    }

    /// Whether an origin's grace time runs.
    pub fn is_waiting(&self) -> bool {
        self.rib.next_deadline().is_some()
    }

    /// What waits for an answer.
    pub fn waits(&self) -> usize {
        self.asked.len() + self.under_way as usize
    }

    fn input(&mut self, base: &mut Base, fabric: &mut Fabric, input: Input) {
        self.rib.handle(base.now(fabric), input, &mut self.out);
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
                    if let Some((process, life)) = client
                        && base.life(process) == life
                    {
                        base.tell(fabric, process, Message::Invalid(ranges));
                    }
                }
                Output::Rejected(_, origin, routes) => {
                    fabric.history.note(fabric.now, base.id, 8, || format!("{origin}: refused {routes:?}"));
                }
                Output::Event(event) => fabric.history.note(fabric.now, base.id, 9, || event.to_string()),
            }
        }
        self.out = out;
    }

    fn watcher(&mut self, process: Process, life: u32) -> WatcherId {
        *self.watchers.entry((process, life)).or_insert(WatcherId(life << 4 | process as u32))
    }

    /// A message of another process.
    pub fn message(&mut self, base: &mut Base, fabric: &mut Fabric, message: Message) {
        match message {
            Message::Born(Process::Fea, _) => {
                base.tell(fabric, Process::Fea, Message::Own(Process::Rib, base.life(Process::Rib)));
            }
            Message::Died(Process::Fea, _) => {
                self.fea_owned = false;
                self.ending = false;
                self.under_way = 0;
            }
            Message::Died(process, life) => self.client_died(base, fabric, process, life),
            Message::Owned => {
                self.input(base, fabric, Input::FibRestarted);
                self.resyncing = true;
                self.fea_owned = true;
                self.send(base, fabric);
            }
            Message::RegisterOrigin(process, life, settings) => {
                self.refreshed.remove(&process);
                self.origins.insert(process, life);
                self.input(base, fabric, Input::RegisterOrigin(TableId::MAIN, settings));
                base.tell(fabric, process, Message::Registered);
            }
            Message::RoutesIpv4(process, batch) => {
                self.input(base, fabric, Input::UpdateV4(TableId::MAIN, process.name().into(), batch));
                base.tell(fabric, process, Message::RoutesTaken);
            }
            Message::RoutesIpv6(process, batch) => {
                self.input(base, fabric, Input::UpdateV6(TableId::MAIN, process.name().into(), batch));
                base.tell(fabric, process, Message::RoutesTaken);
            }
            Message::EndOfRefresh(process) => {
                self.refreshed.insert(process);
                self.input(base, fabric, Input::EndOfRefresh(TableId::MAIN, process.name().into()));
            }
            Message::Ask { from, life, deregister, addrs } => {
                let watcher = self.watcher(from, life);
                for range in deregister {
                    self.rib.deregister_interest(TableId::MAIN, watcher, range);
                }
                if !addrs.is_empty() {
                    self.asked.push((from, life, addrs));
                }
            }
            Message::Interfaces(events) => {
                for event in events {
                    self.interfaces_known |= event == InterfaceEvent::SnapshotEnd;
                    self.input(base, fabric, Input::Interface(event));
                }
            }
            Message::FibTaken => self.under_way = self.under_way.saturating_sub(1),
            Message::Resynced => {
                self.resyncing = false;
                self.ending = false;
            }
            Message::FibRejected(table, routes) => {
                self.input(base, fabric, Input::FibRejected(table, routes));
            }
            _ => {}
        }
    }

    fn client_died(&mut self, base: &mut Base, fabric: &mut Fabric, process: Process, life: u32) {
        if self.origins.get(&process) == Some(&life) {
            self.origins.remove(&process);
            self.refreshed.remove(&process);
            self.input(base, fabric, Input::OriginDied(TableId::MAIN, process.name().into()));
        }
        self.asked.retain(|(p, l, _)| (*p, *l) != (process, life));
        if let Some(watcher) = self.watchers.remove(&(process, life)) {
            self.input(base, fabric, Input::WatcherDied(watcher));
        }
    }

    fn answer(&mut self, base: &Base, fabric: &mut Fabric) {
        let patient = base.now(fabric) < self.started + PATIENCE;
        if self.asked.is_empty() || (!self.interfaces_known && patient) {
            return;
        }
        for (process, life, addrs) in std::mem::take(&mut self.asked) {
            let watcher = self.watcher(process, life);
            let table = TableId::MAIN;
            let answer = |addr| match addr {
                IpAddr::V4(a) => {
                    Answer::Ipv4(self.rib.interest_v4(table, watcher, V4Addr(a), Scope::Internal))
                }
                IpAddr::V6(a) => {
                    Answer::Ipv6(self.rib.interest_v6(table, watcher, V6Addr(a), Scope::Internal))
                }
            };
            let answers = addrs.into_iter().map(answer).collect();
            if base.life(process) == life {
                base.tell(fabric, process, Message::Answers(answers));
            }
        }
    }

    /// Sends the engine what it must be told, as far as it takes it.
    fn send(&mut self, base: &Base, fabric: &mut Fabric) {
        while self.fea_owned && self.under_way < WINDOW {
            let Some((table, ipv4, ipv6)) = self.rib.tables_with_fib_work().next() else { return };
            if ipv4 {
                self.send_batch::<Ipv4Prefix>(base, fabric, table, Message::FibIpv4);
            }
            if ipv6 {
                self.send_batch::<Ipv6Prefix>(base, fabric, table, Message::FibIpv6);
            }
        }
    }

    fn send_batch<P: RibKey>(
        &mut self,
        base: &Base,
        fabric: &mut Fabric,
        table: TableId,
        message: impl FnOnce(FibBatch<P>) -> Message,
    ) {
        let mut batch = FibBatch::default();
        self.rib.fill_fib(table, fabric.settings.batch, &mut batch);
        if !batch.is_empty() {
            self.under_way += 1;
            base.tell(fabric, Process::Fea, message(batch));
        }
    }

    /// Answers, background work, routes to the engine, and the end of a resync when it is time.
    pub fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.answer(base, fabric);
        let budget = Budget(fabric.settings.slice);
        if self.rib.run_slice(base.now(fabric), budget, &mut self.out) == Progress::More {
            base.wake(fabric, true);
        }
        self.carry_out(base, fabric);
        self.send(base, fabric);
        if self.can_end_resync(base.now(fabric)) {
            self.ending = true;
            base.tell(fabric, Process::Fea, Message::EndResync);
        }
    }

    fn can_end_resync(&self, now: Instant) -> bool {
        let told = self.rib.tables_with_fib_work().next().is_none() && self.under_way == 0;
        let all_refreshed = !self.origins.is_empty() && self.refreshed.len() == self.origins.len();
        let settled = now >= self.started + SETTLE && all_refreshed;
        let due = now >= self.started + GRACE || settled;
        self.fea_owned && self.resyncing && !self.ending && told && due
    }

    /// The next moment at which the process has something to do. A moment of the glue's own that has come is met by a turn.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let asked = (!self.asked.is_empty()).then(|| self.started + PATIENCE);
        let waits = self.fea_owned && self.resyncing && !self.ending;
        let resync = waits.then(|| {
            let all_refreshed = !self.origins.is_empty() && self.refreshed.len() == self.origins.len();
            self.started + if all_refreshed { SETTLE } else { GRACE }
        });
        let own = [asked, resync].into_iter().flatten().filter(|at| *at > now);
        own.chain(self.rib.next_deadline()).min()
    }

    /// Timers are due.
    pub fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.rib.on_deadline(base.now(fabric), &mut self.out);
        self.carry_out(base, fabric);
        base.wake(fabric, true);
    }
}
