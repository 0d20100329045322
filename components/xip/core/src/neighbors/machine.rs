//! The neighbor machine: the dispatch of inputs and timers, and what outlives the machine.

use super::io::{Input, Output};
use super::state::{Kept, Neighbors, State, Timer};
use super::table::{Liveness, ProofState};
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

impl Machine for Neighbors {
    type Input = Input;
    type Output = Output;
    type State = State;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::SetLink(link) => self.set_link(now, link, out),
            Input::RemoveLink(interface) => self.remove_link(interface, out),
            Input::AddManual(neighbor) => self.add_manual(neighbor, out),
            Input::Remove(neighbor) => self.remove(neighbor, out),
            Input::Frame { interface, source, octets } => self.receive(now, interface, source, &octets, out),
            Input::Proof(answer) => self.receive_answer(now, answer, out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Announce(link) => self.announce(now, link, out),
                Timer::Monitor(link) => self.monitor(now, link, out),
                Timer::Probe(link) => self.probe_timed_out(now, link, out),
                Timer::CleanUp(link) => self.clean_up(now, link, out),
                Timer::Proof(id) => self.proof_timed_out(now, id, out),
            }
        }
    }

    fn export(&self) -> State {
        let alive = self.table.iter().filter(|(_, entry)| entry.liveness == Liveness::Alive);
        let table = alive.map(|(neighbor, entry)| Kept {
            neighbor: *neighbor,
            origin: entry.origin,
            clock: entry.clock,
            is_proven: entry.proof == ProofState::Proven,
        });
        State { neighbors: table.chain(self.kept.iter().copied()).collect() }
    }

    /// Imported neighbors are used once their link is set.
    fn import(&mut self, _now: Instant, state: State, _out: &mut Outbox<Output>) {
        self.kept = state.neighbors;
        self.kept.truncate(self.settings.limits.table);
    }
}
