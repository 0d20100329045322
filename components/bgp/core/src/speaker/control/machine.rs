//! The inputs and deadlines of control.

use super::damping::Damping;
use super::handover::SpeakerState;
use super::router::{Control, FORGIVEN, REST, parts};
use crate::session::{self};
use crate::speaker::config::PrefixCount;
use crate::speaker::messages::{Input, Output};
use crate::speaker::questions::ask;
use crate::table::{Order, TableEvent};
use crate::wire::notification::cease;
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

impl Machine for Control {
    type Input = Input;
    type Output = Output;
    type State = SpeakerState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        let tables = self.spread.tables();
        if matches!(
            input,
            Input::Configure(_) | Input::Message(..) | Input::Remark(..) | Input::EstablishedBefore(_)
        ) {
            self.look_soon(now);
        }
        let peers = &mut self.peers;
        match input {
            Input::Configure(config) => self.configure(now, config, out),
            Input::Offered(address) => peers.offer(now, address, out),
            Input::Connected(..) | Input::Accepted(..) | Input::Closed(..) | Input::Failed(..) => {
                peers.connection_input(now, input, out);
            }
            Input::Message(address, connection, message) => {
                peers.message(now, address, connection, message, out);
                let is_up = !self.lost.is_empty() && self.established(address).is_some();
                if is_up && self.lost.remove(&address).is_some() {
                    out.push(Output::GatewayUsable(address, true));
                }
            }
            Input::Received(address, connection, read) => peers.received(now, address, connection, read, out),
            Input::Sent(address, connection, sent) => peers.sent(now, address, connection, sent, out),
            Input::Written(address, connection) => peers.written(now, address, connection),
            Input::Remark(address, what) => peers.remark(address, what, out),
            Input::Table(table, event) => self.table_event(now, table, event, out),
            Input::AnswerIpv4(answer) => {
                let answer = self.questions4.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerIpv4(answer, self.originator.draw())));
            }
            Input::AnswerIpv6(answer) => {
                let answer = self.questions6.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerIpv6(answer, self.originator.draw())));
            }
            Input::AnswerXid(answer) => {
                let answer = self.questions_of_xids.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerXid(answer, self.originator.draw())));
            }
            Input::Invalid(prefix) => {
                prefix.to().into_iter().for_each(|prefix| self.questions4.invalid(prefix));
                prefix.to().into_iter().for_each(|prefix| self.questions6.invalid(prefix));
                prefix.to().into_iter().for_each(|prefix| self.questions_of_xids.invalid(prefix));
                out.push(Output::Order(None, Order::Invalid(prefix)));
            }
            Input::RibRestarted => {
                self.questions4.forget();
                self.questions6.forget();
                self.questions_of_xids.forget();
                self.has_rib = true;
                // The RIB has forgotten them with the origin's life.
                self.lost.clear();
                out.push(Output::Order(None, Order::RibRestarted));
                self.presences.ask_again(out);
            }
            Input::Presence(answers) => self.take_presence(answers, out),
            Input::EstablishedBefore(before) => self.before = Some(before),
            Input::Origins(data) => out.push(Output::Order(None, Order::SetOrigins(data))),
            Input::Redistributed(changes) => {
                let mut parts = parts(peers, &mut self.originator, out);
                self.redistributed.take(changes, &mut parts);
            }
            Input::Reset(address, text) => {
                if let Some(&index) = peers.by_address.get(&address)
                    && !peers.is_injected(address)
                    && !peers.open_limited(now, index, out)
                {
                    peers.drive(now, index, session::Input::Reset { subcode: cease::RESET, text }, out);
                }
            }
            Input::Refresh(address) => {
                if let Some(&index) = peers.by_address.get(&address) {
                    peers.ask_for_refresh(index, out);
                }
            }
            Input::ClearDamping(prefix) => Damping::clear(prefix, out),
            Input::Inject(config) => peers.inject(now, *config, out),
            Input::Injected(address, read) => peers.injected(address, read),
            Input::RestartInjection(address) => peers.restart_injection(address, out),
            Input::EndInjection(address) => peers.end_injection(address, out),
            Input::Resolved => self.open(out),
            Input::Pause => peers.pause(now, out),
            Input::GoOn => peers.go_on(now, out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let forgiven = self.lost.values().flatten().min().copied();
        let restart = self.peers.next_restart();
        let (backups, aggregates) = (self.backups_at, self.aggregation.ask_at);
        let release = self.peers.releases.first().map(|(at, ..)| *at);
        let all = [
            self.peers.next_deadline(),
            self.look_at,
            self.open_at,
            backups,
            aggregates,
            forgiven,
            restart,
            release,
        ];
        all.into_iter().chain([self.damping.next()]).flatten().min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.peers.on_deadline(now, out);
        self.peers.restart_limited(now, out);
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(now, out);
        }
        if self.open_at.is_some_and(|at| at <= now) {
            self.open(out);
        }
        let forgiven = self.lost.extract_if(.., |_, until| until.is_some_and(|until| until <= now));
        forgiven.for_each(|(address, _)| out.push(Output::GatewayUsable(address, true)));
        if self.backups_at.take_if(|at| *at <= now).is_some() {
            out.push(Output::Order(None, Order::AnnounceBackups));
        }
        self.aggregation.ask_for_contributors(now, self.spread.tables(), out);
        self.peers.release(now, out);
        self.damping.turn(now, out);
    }

    fn export(&self) -> SpeakerState {
        self.export_state()
    }

    fn import(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        self.import_state(now, state, out);
    }
}

impl Control {
    fn table_event(&mut self, now: Instant, table: usize, event: TableEvent, out: &mut Outbox<Output>) {
        match event {
            TableEvent::InterestIpv4(family, interest, seen) => {
                let outputs = (Output::InterestIpv4 as fn(_) -> _, Order::AnswerIpv4 as fn(_, _) -> _);
                ask(&mut self.questions4, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::InterestIpv6(family, interest, seen) => {
                let outputs = (Output::InterestIpv6 as fn(_) -> _, Order::AnswerIpv6 as fn(_, _) -> _);
                ask(&mut self.questions6, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::InterestXid(family, interest, seen) => {
                let outputs = (Output::InterestXid as fn(_) -> _, Order::AnswerXid as fn(_, _) -> _);
                ask(&mut self.questions_of_xids, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::Drained(peer, life) => {
                let drained = self.peers.clean(peer, life).and_then(|address| self.lost.get_mut(&address));
                if let Some(until) = drained {
                    *until = Some(now + FORGIVEN);
                }
            }
            TableEvent::Prefixes { peer, life, family, received, accepted } => {
                let count = PrefixCount { received, accepted };
                self.peers.counted(now, table, (peer, life, family), count, out);
            }
            TableEvent::BackupsDue if self.has_rib => {
                self.backups_at.get_or_insert(now + REST);
            }
            TableEvent::BackupsDue => {}
            TableEvent::TurnDue(at) => self.damping.note(table, at),
            TableEvent::Held(peer, life) => self.peers.hold(now, table, (peer, life), out),
            TableEvent::AggregatesDue => self.aggregation.note(now),
            TableEvent::Contributors(contributors) => {
                let mut parts = parts(&mut self.peers, &mut self.originator, out);
                self.aggregation.take_contributors(table, contributors, &mut parts);
            }
            // Where its session is up again it is another life's.
            TableEvent::GatewayLost(address) => {
                let is_down = self.established(address).is_none();
                if self.has_rib && is_down && self.lost.insert(address, None).is_none() {
                    out.push(Output::GatewayUsable(address, false));
                }
            }
            // The RIB's business and that of stations, not control's.
            TableEvent::RibReady(_) | TableEvent::Monitored => {}
        }
    }
}
