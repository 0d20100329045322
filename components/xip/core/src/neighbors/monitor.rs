//! The monitoring form: probes of neighbors, with the help of investigators.
//!
//! Every 8 s, a random neighbor gets a PING and has 4 s to answer by ACK. If it does not, up to three other neighbors, the
//! investigators, get a REQ_PING. An investigator answers by ACK, sends the target an INV_PING, and passes the target's ACK on
//! as a REQ_ACK. After 4 s more, a target that is silent while an investigator answered has failed. If no investigator answered,
//! the whole probe is repeated once before the decision, for this host's own link may be the cause.

use super::io::{Event, Output};
use super::link::{Investigation, Probing};
use super::state::{Neighbors, Timer};
use super::table::{Entry, Liveness, Neighbor, Origin, ProofState};
use crate::wire::Mac;
use crate::wire::nwp::{Message, Probe, ProbeKind};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant, InterfaceIndex};
use sluice_machine::Outbox;

/// The time between probes of a link.
pub(super) const MONITOR: Duration = Duration::from_secs(8);
/// The time between clean-ups of a link.
pub(super) const CLEAN_UP: Duration = Duration::from_secs(20);
/// The time to answer a probe.
const ANSWER: Duration = Duration::from_secs(4);
/// The time after which a failed neighbor is neither listed nor kept.
const FAILED: Duration = Duration::from_secs(10);
/// The most investigators of a probe.
const INVESTIGATORS: usize = 3;
/// The most probes on behalf of others, by link.
const MOST_INVESTIGATIONS: usize = 16;

impl Entry {
    /// Returns true if the neighbor belongs in lists for others.
    pub(super) fn is_listed(&self, now: Instant) -> bool {
        let is_kept = match self.liveness {
            Liveness::Alive => true,
            Liveness::Failed(since) => now.saturating_since(since) <= FAILED,
        };
        is_kept && self.origin != Origin::Manual && !matches!(self.proof, ProofState::Refused(_))
    }
}

impl Neighbors {
    /// Begins a probe of a random neighbor.
    pub(super) fn monitor(&mut self, now: Instant, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        self.timers.start(now, Timer::Monitor(interface), MONITOR);
        if self.links.get(&interface).is_none_or(|link| link.probing.is_some()) {
            return;
        }
        if let Some(target) = self.random_addresses(interface, None, 1).pop() {
            self.ping(now, interface, target, false, out);
        }
    }

    fn ping(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        target: Mac,
        is_repeated: bool,
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get_mut(&interface) else { return };
        link.probing =
            Some(Probing { target, investigators: None, has_investigator_answered: false, is_repeated });
        self.timers.start(now, Timer::Probe(interface), ANSWER);
        self.send_probe(now, interface, ProbeKind::Ping, target, None, out);
    }

    /// Returns up to `most` random addresses of learned neighbors that are alive, without `except`.
    fn random_addresses(&mut self, interface: InterfaceIndex, except: Option<Mac>, most: usize) -> Vec<Mac> {
        let is_eligible = |entry: &Entry| entry.liveness == Liveness::Alive && entry.origin != Origin::Manual;
        let alive = self.table.of_link(interface).filter(|(_, entry)| is_eligible(entry));
        let alive: BTreeSet<Mac> = alive.map(|(neighbor, _)| neighbor.mac).collect();
        let mut left: Vec<Mac> = alive.into_iter().filter(|mac| Some(*mac) != except).collect();
        let mut chosen = Vec::new();
        while chosen.len() < most && !left.is_empty() {
            let place = self.rng.below(left.len() as u64) as usize;
            chosen.push(left.swap_remove(place));
        }
        chosen
    }

    pub(super) fn probe_timed_out(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        out: &mut Outbox<Output>,
    ) {
        let Some(probing) = self.links.get(&interface).and_then(|link| link.probing.clone()) else { return };
        let target = probing.target;
        if probing.investigators.is_none() {
            let investigators = self.random_addresses(interface, Some(target), INVESTIGATORS);
            for investigator in &investigators {
                self.send_probe(now, interface, ProbeKind::RequestPing, *investigator, Some(target), out);
            }
            if let Some(link) = self.links.get_mut(&interface) {
                link.probing = Some(Probing { investigators: Some(investigators), ..probing });
            }
            self.timers.start(now, Timer::Probe(interface), ANSWER);
        } else if !probing.has_investigator_answered && !probing.is_repeated {
            out.push(Output::Event(Event::Isolated(interface, target)));
            self.ping(now, interface, target, true, out);
        } else {
            if let Some(link) = self.links.get_mut(&interface) {
                link.probing = None;
            }
            self.fail(now, interface, target, out);
        }
    }

    fn fail(&mut self, now: Instant, interface: InterfaceIndex, mac: Mac, out: &mut Outbox<Output>) {
        out.push(Output::Event(Event::Failed(interface, mac)));
        let mut failed = Vec::new();
        for (neighbor, entry) in self.table.of_link_mut(interface) {
            if neighbor.mac == mac && entry.origin != Origin::Manual && entry.liveness == Liveness::Alive {
                entry.liveness = Liveness::Failed(now);
                failed.push(*neighbor);
            }
        }
        failed.into_iter().for_each(|neighbor| self.refresh(neighbor, out));
    }

    /// Ends the probe of an address that answered. An answer to this host's own probe carries a fresh clock, which may be
    /// below the known one if the neighbor restarted.
    fn answered(&mut self, interface: InterfaceIndex, mac: Mac, clock: Option<u32>) {
        if let Some(link) = self.links.get_mut(&interface) {
            link.probing = None;
        }
        self.timers.stop(Timer::Probe(interface));
        for (_, entry) in self.table.of_link_mut(interface).filter(|(neighbor, _)| neighbor.mac == mac) {
            entry.clock = clock.unwrap_or(entry.clock);
        }
    }

    pub(super) fn clean_up(&mut self, now: Instant, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        self.timers.start(now, Timer::CleanUp(interface), CLEAN_UP);
        let is_over = |entry: &Entry| match entry.liveness {
            Liveness::Alive => false,
            Liveness::Failed(since) => now.saturating_since(since) > FAILED,
        };
        let over = self.table.of_link(interface).filter(|(_, entry)| is_over(entry));
        let over: Vec<Neighbor> = over.map(|(neighbor, _)| *neighbor).collect();
        over.into_iter().for_each(|neighbor| self.remove(neighbor, out));
    }

    pub(super) fn receive_probe(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        probe: Probe,
        out: &mut Outbox<Output>,
    ) {
        let source = probe.source;
        match (probe.kind, probe.investigated) {
            (ProbeKind::Ping | ProbeKind::InvestigationPing, _) => {
                self.send_probe(now, interface, ProbeKind::Ack, source, None, out);
            }
            (ProbeKind::RequestPing, Some(target)) => self.investigate(now, interface, source, target, out),
            (ProbeKind::RequestAck, Some(target)) => {
                let probing = self.links.get(&interface).and_then(|link| link.probing.as_ref());
                let is_awaited = probing.is_some_and(|probing| {
                    let is_asked =
                        probing.investigators.as_ref().is_some_and(|asked| asked.contains(&source));
                    probing.target == target && is_asked
                });
                if is_awaited {
                    self.answered(interface, target, None);
                } else {
                    self.drops.count("unsolicited-ack");
                }
            }
            _ => self.receive_ack(now, interface, probe, out),
        }
    }

    fn receive_ack(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        probe: Probe,
        out: &mut Outbox<Output>,
    ) {
        let source = probe.source;
        let Some(link) = self.links.get_mut(&interface) else { return };
        let mut is_awaited = false;
        let mut is_target = false;
        if let Some(probing) = &mut link.probing {
            is_target = probing.target == source;
            if probing.investigators.as_ref().is_some_and(|asked| asked.contains(&source)) {
                probing.has_investigator_answered = true;
                is_awaited = true;
            }
        }
        let (done, left) = core::mem::take(&mut link.investigations)
            .into_iter()
            .partition::<Vec<_>, _>(|investigation| investigation.target == source);
        link.investigations = left;
        is_awaited |= is_target || !done.is_empty();
        if is_target {
            self.answered(interface, source, Some(probe.clock));
        }
        for Investigation { requester, target, until } in done {
            if now <= until {
                self.send_probe(now, interface, ProbeKind::RequestAck, requester, Some(target), out);
            }
        }
        if !is_awaited {
            self.drops.count("unsolicited-ack");
        }
    }

    /// Probes `target` for `requester`.
    fn investigate(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        requester: Mac,
        target: Mac,
        out: &mut Outbox<Output>,
    ) {
        if !target.is_station() {
            self.drops.count("group-address");
            return;
        }
        let Some(link) = self.links.get_mut(&interface) else { return };
        link.investigations.retain(|investigation| now <= investigation.until);
        let investigation = Investigation { requester, target, until: now + ANSWER };
        let is_known =
            link.investigations.iter().any(|known| known.requester == requester && known.target == target);
        if is_known || link.investigations.len() >= MOST_INVESTIGATIONS {
            self.drops.count("investigation-limit");
            return;
        }
        link.investigations.push(investigation);
        self.send_probe(now, interface, ProbeKind::Ack, requester, None, out);
        self.send_probe(now, interface, ProbeKind::InvestigationPing, target, Some(target), out);
    }

    fn send_probe(
        &self,
        now: Instant,
        interface: InterfaceIndex,
        kind: ProbeKind,
        destination: Mac,
        investigated: Option<Mac>,
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get(&interface) else { return };
        let (clock, source) = (self.clock(now), link.settings.mac);
        let probe = Probe { kind, clock, source, destination, investigated };
        Self::send(interface, destination, &Message::Probe(probe), out);
    }
}
