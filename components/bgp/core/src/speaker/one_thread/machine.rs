//! The machine of a router's BGP on one thread.

use super::messages::{Input, Output, RouterState};
use crate::batch::Batches;
use crate::family::ByFamily;
use crate::injection::Injector;
use crate::intake::{Intake, Taken};
use crate::session::ConnectionId;
use crate::shard::PeerIndex;
use crate::speaker::config::Identity;
use crate::speaker::control::{self, Control};
use crate::table::{self, SessionEpoch, Sharded, Table, TableEvent, Tables};
use crate::writer::Writer;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Instant, RouteBatch};
use sluice_machine::{Budget, Machine, Outbox, Progress};

/// A connection, as its octets are carried.
#[derive(Default)]
pub(super) struct Carrier {
    intake: Intake,
    /// The beginning of an incomplete message, from another process.
    pending: Vec<u8>,
    /// While its session is up.
    writer: Option<Writer>,
    /// True if the driver knows that there is something to write.
    offered: bool,
}

/// A router's BGP on one thread.
pub struct Speaker {
    pub(super) control: Control,
    pub(super) tables: Vec<Table>,
    pub(super) carriers: BTreeMap<(IpAddr, ConnectionId), Carrier>,
    /// The batches being read, for each table.
    pub(super) batches: Vec<Batches>,
    /// The table that has the RIB's next turn.
    pub(super) turn: usize,
    pub(super) rib_offered: ByFamily<bool>,
    pub(super) control_out: Outbox<control::Output>,
    pub(super) table_events: Outbox<TableEvent>,
    /// Space for the numbers of neighbors that have to be sent something.
    pub(super) ready: Vec<PeerIndex>,
    /// The readers of traces.
    pub(super) injectors: BTreeMap<IpAddr, Injector>,
    /// True from [`control::Output::AllAnnounced`] until the tables know how all next hops are reached.
    pub(super) awaits_next_hops: bool,
}

impl Speaker {
    /// A router without neighbors, which starts to live at the beginning of time.
    pub fn new(identity: Identity) -> Self {
        Self::starting_at(identity, Instant::ZERO)
    }

    /// A router without neighbors, which starts to live now.
    pub fn starting_at(identity: Identity, now: Instant) -> Self {
        let control = Control::new(identity, now);
        let tables = control.make_tables();
        Speaker {
            batches: tables.iter().map(|_| Batches::default()).collect(),
            control,
            tables,
            carriers: BTreeMap::new(),
            turn: 0,
            rib_offered: ByFamily::default(),
            control_out: Outbox::new(),
            table_events: Outbox::new(),
            ready: Vec::new(),
            injectors: BTreeMap::new(),
            awaits_next_hops: false,
        }
    }

    /// Octets came on a connection: the same as [`Input::Received`] without a copy.
    pub fn receive(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        mut octets: &[u8],
        out: &mut Outbox<Output>,
    ) {
        // A message may have been the connection's last.
        while let Some(carrier) = self.carriers.get_mut(&(address, connection)) {
            let taken = carrier.intake.take(&mut octets, &mut self.batches);
            if taken == Taken::Nothing {
                break;
            }
            self.apply(now, address, connection, out);
            let input = match taken {
                Taken::Event(what) => control::Input::Remark(address, what),
                Taken::Message(message) => control::Input::Message(address, connection, message),
                Taken::Nothing | Taken::Full => continue,
            };
            self.control(now, input, out);
        }
        self.apply(now, address, connection, out);
        let counted = self.carriers.get_mut(&(address, connection)).filter(|c| c.intake.counts());
        for what in counted.map(|c| c.intake.suppressed(now)).unwrap_or_default() {
            self.control(now, control::Input::Remark(address, what), out);
        }
        let news = self.carriers.get_mut(&(address, connection)).and_then(|c| c.intake.news());
        if let Some(read) = news {
            self.control(now, control::Input::Received(address, connection, read), out);
        }
        self.offer(out);
    }

    /// Hands what was read to the tables.
    fn apply(&mut self, now: Instant, address: IpAddr, connection: ConnectionId, out: &mut Outbox<Output>) {
        let reading = self.carriers.get(&(address, connection)).and_then(|c| c.intake.reading());
        let Some(session) = reading.map(|r| (r.peer, r.life)) else { return };
        self.apply_in(now, session, out);
    }

    /// Hands what was read in a session to the tables.
    pub(super) fn apply_in(
        &mut self,
        now: Instant,
        (peer, life): (PeerIndex, SessionEpoch),
        out: &mut Outbox<Output>,
    ) {
        for number in 0..self.tables.len() {
            if !self.batches[number].is_empty() {
                self.tables[number].set_now(now);
                self.tables[number].apply(peer, life, &mut self.batches[number], &mut self.table_events);
                self.pass_on(now, number, out);
            }
        }
    }

    /// Passes an input to control, and the outputs to their receivers.
    pub(super) fn control(&mut self, now: Instant, input: control::Input, out: &mut Outbox<Output>) {
        let mut control_out = core::mem::take(&mut self.control_out);
        self.control.handle(now, input, &mut control_out);
        self.carry_out(now, &mut control_out, out);
        self.control_out = control_out;
    }

    fn carry_out(
        &mut self,
        now: Instant,
        control_out: &mut Outbox<control::Output>,
        out: &mut Outbox<Output>,
    ) {
        use control::Output as Do;
        for output in control_out.drain() {
            match output {
                Do::Connect(address, connection) => out.push(Output::Connect(address, connection)),
                Do::Close(address, connection) => {
                    self.carriers.remove(&(address, connection));
                    out.push(Output::Close(address, connection));
                }
                Do::Send(address, connection, octets) => out.push(Output::Send(address, connection, octets)),
                Do::Up(address, connection, link) => {
                    if let Some(carrier) = self.carriers.get_mut(&(address, connection)) {
                        match core::mem::take(&mut carrier.pending) {
                            pending if pending.is_empty() => carrier.intake.open(link.reading),
                            pending => carrier.intake = Intake::resumed(link.reading, pending),
                        }
                        carrier.writer = Some(link.writer);
                    }
                }
                Do::Injecting(address, reading) => self.injecting(address, *reading),
                Do::Order(Some(number), order) => {
                    self.tables[number].order(order, &mut self.table_events);
                    self.pass_on(now, number, out);
                }
                Do::Order(None, order) => {
                    for number in 0..self.tables.len() {
                        self.tables[number].order(order.clone(), &mut self.table_events);
                        self.pass_on(now, number, out);
                    }
                }
                Do::InterestIpv4(interest) => out.push(Output::InterestIpv4(interest)),
                Do::InterestIpv6(interest) => out.push(Output::InterestIpv6(interest)),
                Do::InterestXid(interest) => out.push(Output::InterestXid(interest)),
                Do::WatchPresence(questions) => out.push(Output::WatchPresence(questions)),
                Do::UnwatchPresence(questions) => out.push(Output::UnwatchPresence(questions)),
                Do::GatewayUsable(address, is_usable) => {
                    out.push(Output::GatewayUsable(address, is_usable));
                }
                Do::AllAnnounced => self.awaits_next_hops = true,
                // The driver asks for [`Speaker::is_converged`] and [`Control::neighbors_to_remember`].
                Do::SessionsChanged => {}
                Do::Event(event) => out.push(Output::Event(event)),
            }
        }
    }

    /// Passes the events of a table on.
    fn pass_on(&mut self, now: Instant, number: usize, out: &mut Outbox<Output>) {
        if self.table_events.is_empty() {
            return;
        }
        let mut events = core::mem::take(&mut self.table_events);
        let mut control_out = Outbox::new();
        for event in events.drain() {
            match event {
                TableEvent::RibReady(family) => {
                    if !core::mem::replace(&mut self.rib_offered[family], true) {
                        out.push(Output::RibReady(family));
                    }
                }
                event => self.control.handle(now, control::Input::Table(number, event), &mut control_out),
            }
        }
        self.table_events = events;
        self.carry_out(now, &mut control_out, out);
    }

    /// Appends messages for an established connection to `octets`, up to about `limit`; returns whether there are more. After
    /// a `false`, [`Output::Transmit`] reports when there are some again.
    pub fn fill(&mut self, now: Instant, address: IpAddr, limit: usize, octets: &mut Vec<u8>) -> bool {
        let Some(connection) = self.control.established(address) else { return false };
        let Some(carrier) = self.carriers.get_mut(&(address, connection)) else { return false };
        let Some(writer) = &mut carrier.writer else { return false };
        let before = (octets.len(), writer.sent);
        let more = writer.fill(&mut self.tables, limit, octets);
        carrier.offered = more;
        if (octets.len(), writer.sent) != before {
            let sent = control::Input::Sent(address, connection, writer.sent);
            self.control.handle(now, sent, &mut self.control_out);
            self.control.handle(now, control::Input::Written(address, connection), &mut self.control_out);
        }
        self.report_holds(now);
        more
    }

    /// Notifies control of the neighbors that tables hold back.
    fn report_holds(&mut self, now: Instant) {
        for (number, table) in self.tables.iter_mut().enumerate() {
            table.report_holds(&mut self.table_events);
            for event in self.table_events.drain() {
                self.control.handle(now, control::Input::Table(number, event), &mut self.control_out);
            }
        }
    }

    /// Adds about `limit` best routes of a family for the RIB to `batch`, and returns true if there are more. Tables take turns. After a
    /// `false`, [`Output::RibReady`] reports when there are some again.
    pub fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) -> bool {
        for _ in 0..self.tables.len() {
            self.turn = (self.turn + 1) % self.tables.len();
            if batch.updates.len() < limit && self.tables[self.turn].has_rib_changes(P::INDEX) {
                self.tables[self.turn].rib_batch(limit - batch.updates.len(), batch);
            }
        }
        let more = self.tables.iter().any(|table| table.has_rib_changes(P::INDEX));
        self.rib_offered[P::INDEX] = more;
        more
    }

    /// Returns the obstacle to a route refresh from a neighbor; `None` without an obstacle.
    pub fn refresh_refusal(&self, address: IpAddr) -> Option<control::RefreshRefusal> {
        self.control.refresh_refusal(address)
    }

    /// The tables, to look into.
    pub fn tables(&self) -> Tables<'_> {
        Tables { tables: &self.tables, spread: self.control.spread() }
    }

    /// Returns true if the announcements to the RIB are complete: every awaited neighbor has announced every route, or the time
    /// limit has passed, and every next hop is resolved (routes waiting for a next hop are not announced yet).
    pub fn is_converged(&mut self, now: Instant) -> bool {
        self.control.have_all_announced(now) && self.tables().is_resolved()
    }

    /// Puts checking stages before every PeerOut, or takes them out.
    pub fn check(&mut self, on: bool) {
        for table in &mut self.tables {
            table.order(crate::table::Order::Check(None, on), &mut self.table_events);
        }
    }

    /// Reports to control once when the tables have the RIB's answers about every next hop.
    fn report_resolved(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.awaits_next_hops && self.tables().is_resolved() {
            self.awaits_next_hops = false;
            self.control(now, control::Input::Resolved, out);
        }
    }

    /// Reports the neighbors that can be sent something, and could not before.
    pub(super) fn offer(&mut self, out: &mut Outbox<Output>) {
        for table in &self.tables {
            table.with_output(&mut self.ready);
            for peer in &self.ready {
                let Some(address) = self.control.neighbor_address(*peer) else { continue };
                let Some(connection) = self.control.established(address) else { continue };
                if let Some(carrier) = self.carriers.get_mut(&(address, connection))
                    && carrier.writer.is_some()
                    && !core::mem::replace(&mut carrier.offered, true)
                {
                    out.push(Output::Transmit(address, connection));
                }
            }
        }
    }
}

impl Machine for Speaker {
    type Input = Input;
    type Output = Output;
    type State = RouterState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        use control::Input as Do;
        let input = match input {
            Input::Received(address, connection, octets) => {
                return self.receive(now, address, connection, &octets, out);
            }
            Input::Configure(config) => Do::Configure(config),
            Input::Connected(address, connection, endpoints) => {
                self.carriers.insert((address, connection), Carrier::default());
                Do::Connected(address, connection, endpoints)
            }
            Input::Accepted(address, connection, endpoints) => {
                self.control(now, Do::Offered(address), out);
                self.carriers.insert((address, connection), Carrier::default());
                Do::Accepted(address, connection, endpoints)
            }
            Input::Closed(address, connection) => {
                self.carriers.remove(&(address, connection));
                Do::Closed(address, connection)
            }
            Input::AnswerIpv4(answer) => Do::AnswerIpv4(answer),
            Input::AnswerIpv6(answer) => Do::AnswerIpv6(answer),
            Input::AnswerXid(answer) => Do::AnswerXid(answer),
            Input::Invalid(prefix) => Do::Invalid(prefix),
            Input::RibRestarted => {
                self.rib_offered = ByFamily::default();
                Do::RibRestarted
            }
            Input::Presence(answers) => Do::Presence(answers),
            Input::EstablishedBefore(before) => Do::EstablishedBefore(before),
            Input::Origins(data) => Do::Origins(Arc::new(data)),
            Input::Redistributed(changes) => Do::Redistributed(changes),
            Input::Reset(address, text) => Do::Reset(address, text),
            Input::Refresh(address) => Do::Refresh(address),
            Input::ClearDamping(prefix) => Do::ClearDamping(prefix),
        };
        self.control(now, input, out);
        self.report_resolved(now, out);
        self.offer(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.control.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        for address in self.control.due(now) {
            let Some(connection) = self.control.established(address) else { continue };
            // What was offered and not taken waits.
            if self.carriers.get(&(address, connection)).is_some_and(|carrier| !carrier.offered) {
                self.control(now, control::Input::Written(address, connection), out);
            }
        }
        let mut control_out = core::mem::take(&mut self.control_out);
        self.control.on_deadline(now, &mut control_out);
        self.carry_out(now, &mut control_out, out);
        self.control_out = control_out;
        self.report_resolved(now, out);
        self.offer(out);
    }

    fn run_slice(&mut self, now: Instant, budget: Budget, out: &mut Outbox<Output>) -> Progress {
        let mut progress = Progress::Done;
        for number in 0..self.tables.len() {
            progress = progress.or(self.tables[number].run_slice(budget, &mut self.table_events));
            self.pass_on(now, number, out);
        }
        self.report_resolved(now, out);
        self.offer(out);
        progress
    }

    fn export(&self) -> RouterState {
        let pending = self.carriers.iter().filter(|(_, c)| c.intake.reading().is_some());
        RouterState {
            control: self.control.export(),
            parts: self.tables.iter().flat_map(Table::parts).collect(),
            pending: pending.map(|((a, c), carrier)| (*a, *c, carrier.intake.pending().to_vec())).collect(),
        }
    }

    fn import(&mut self, now: Instant, state: RouterState, out: &mut Outbox<Output>) {
        for (address, connection, pending) in state.pending {
            let carrier = Carrier { pending, ..Carrier::default() };
            self.carriers.insert((address, connection), carrier);
        }
        let mut control_out = Outbox::new();
        self.control.import(now, state.control, &mut control_out);
        self.carry_out(now, &mut control_out, out);
        let spread = self.control.spread();
        for part in &state.parts {
            table::import(&mut self.tables, spread, part);
        }
        self.tables.iter_mut().for_each(Table::assume_advertised);
        // The RIB may be another too, and answers by number.
        self.handle(now, Input::RibRestarted, out);
    }
}
