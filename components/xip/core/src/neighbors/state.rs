//! The state of the neighbor machine.

use super::io::{Drops, Event, LinkProof, Output, ProofId};
use super::link::LinkState;
use super::proofs::Proofs;
use super::table::{Entry, Full, Liveness, Neighbor, Origin, ProofState, Table};
use crate::wire::Mac;
use crate::wire::nwp::Message;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Instant, InterfaceIndex, Rng};
use sluice_machine::{Outbox, Timers};

/// Bounds of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most neighbors of a link.
    pub link: usize,
    /// The most neighbors in all.
    pub table: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { link: 1024, table: 8192 }
    }
}

/// Settings of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bounds of the table.
    pub limits: Limits,
    /// The clock of the monitoring form at [`Instant::ZERO`], in seconds: so that clocks do not fall when the host restarts.
    pub clock_base: u32,
    /// The seed of probabilities and of the choice of monitored neighbors. Nonces come from the process.
    pub seed: u64,
}

/// A timer of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    Announce(InterfaceIndex),
    Monitor(InterfaceIndex),
    Probe(InterfaceIndex),
    CleanUp(InterfaceIndex),
    Proof(ProofId),
}

/// Neighbors that outlive the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub(super) neighbors: Vec<Kept>,
}

/// A neighbor that outlives the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) neighbor: Neighbor,
    pub(super) origin: Origin,
    pub(super) clock: u32,
    pub(super) is_proven: bool,
}

/// The neighbors of all links, and NWP.
#[derive(Debug)]
pub struct Neighbors {
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    pub(super) links: BTreeMap<InterfaceIndex, LinkState>,
    pub(super) table: Table,
    pub(super) proofs: Proofs,
    pub(super) timers: Timers<Timer>,
    pub(super) drops: Drops,
    /// Imported neighbors of links that are not set yet.
    pub(super) kept: Vec<Kept>,
}

impl Entry {
    /// Returns true if the neighbor may be used as a route, on a link that requires `proof`; never without a link.
    pub(super) fn may_be_used(&self, proof: Option<LinkProof>) -> bool {
        let is_accepted = match (self.origin, proof) {
            (_, None) => false,
            (Origin::Manual, _) | (_, Some(LinkProof::Off)) => true,
            (_, Some(LinkProof::Optional)) => !matches!(self.proof, ProofState::Refused(_)),
            (_, Some(LinkProof::Required)) => self.proof == ProofState::Proven,
        };
        is_accepted && self.liveness == Liveness::Alive
    }
}

impl Neighbors {
    /// A machine without links.
    pub fn new(settings: Settings) -> Self {
        Neighbors {
            settings,
            rng: Rng::from_seed(settings.seed),
            links: BTreeMap::new(),
            table: Table::default(),
            proofs: Proofs::default(),
            timers: Timers::default(),
            drops: Drops::default(),
            kept: Vec::new(),
        }
    }

    /// Returns the neighbors with their states, ordered by link, HID and address.
    pub fn iter(&self) -> impl Iterator<Item = (&Neighbor, &Entry)> {
        self.table.iter()
    }

    /// Returns the state of a neighbor.
    pub fn get(&self, neighbor: Neighbor) -> Option<&Entry> {
        self.table.get(neighbor)
    }

    /// Returns the counts of dropped frames and refused neighbors.
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Returns the clock of the monitoring form, in seconds.
    pub(super) fn clock(&self, now: Instant) -> u32 {
        let seconds = now.saturating_since(Instant::ZERO).as_secs();
        self.settings.clock_base.wrapping_add(seconds as u32)
    }

    pub(super) fn send(
        interface: InterfaceIndex,
        destination: Mac,
        message: &Message<'_>,
        out: &mut Outbox<Output>,
    ) {
        let mut octets = Vec::new();
        message.put(&mut octets);
        out.push(Output::Send { interface, destination, octets });
    }

    /// Adds a neighbor that is not in the table; counts and reports a full table.
    pub(super) fn insert(&mut self, neighbor: Neighbor, entry: Entry, out: &mut Outbox<Output>) -> bool {
        let limits = self.settings.limits;
        match self.table.insert(neighbor, entry, (limits.link, limits.table)) {
            Ok(()) => {
                self.refresh(neighbor, out);
                true
            }
            Err(full) => {
                self.drops.count(if full == Full::Link { "link-limit" } else { "table-limit" });
                if let Some(link) = self.links.get_mut(&neighbor.interface)
                    && !core::mem::replace(&mut link.is_full_reported, true)
                {
                    out.push(Output::Event(Event::Full(neighbor)));
                }
                false
            }
        }
    }

    /// Removes a neighbor.
    pub(super) fn remove(&mut self, neighbor: Neighbor, out: &mut Outbox<Output>) {
        if let Some(entry) = self.table.remove(neighbor) {
            if entry.is_usable {
                out.push(Output::Lost(neighbor));
            }
            self.forget_proof(neighbor);
        }
    }

    /// Decides anew if a neighbor is usable, and reports a change.
    pub(super) fn refresh(&mut self, neighbor: Neighbor, out: &mut Outbox<Output>) {
        let proof = self.links.get(&neighbor.interface).map(|link| link.settings.proof);
        let Some(entry) = self.table.get_mut(neighbor) else { return };
        let is_usable = entry.may_be_used(proof);
        if core::mem::replace(&mut entry.is_usable, is_usable) != is_usable {
            out.push(if is_usable { Output::Learned(neighbor) } else { Output::Lost(neighbor) });
        }
    }

    pub(super) fn add_manual(&mut self, neighbor: Neighbor, out: &mut Outbox<Output>) {
        let entry = Entry {
            origin: Origin::Manual,
            liveness: Liveness::Alive,
            clock: 0,
            proof: ProofState::Unproven(Instant::ZERO),
            is_usable: false,
        };
        match self.table.get_mut(neighbor) {
            Some(known) => {
                *known = Entry { is_usable: known.is_usable, ..entry };
                self.forget_proof(neighbor);
                self.refresh(neighbor, out);
            }
            None => {
                self.insert(neighbor, entry, out);
            }
        }
    }

    /// Adds the imported neighbors of a link.
    pub(super) fn restore(&mut self, link: InterfaceIndex, now: Instant, out: &mut Outbox<Output>) {
        let kept = core::mem::take(&mut self.kept);
        let (here, elsewhere) =
            kept.into_iter().partition::<Vec<_>, _>(|kept| kept.neighbor.interface == link);
        self.kept = elsewhere;
        for Kept { neighbor, origin, clock, is_proven } in here {
            let proof = if is_proven { ProofState::Proven } else { ProofState::Unproven(now) };
            let entry = Entry { origin, liveness: Liveness::Alive, clock, proof, is_usable: false };
            if self.table.get(neighbor).is_none() {
                self.insert(neighbor, entry, out);
            }
        }
    }
}
