//! Links: set, changed and removed.

use super::io::{Link, Output};
use super::link::LinkState;
use super::monitor::{CLEAN_UP, MONITOR};
use super::state::{Neighbors, Timer};
use super::table::{Neighbor, Origin};
use crate::wire::nwp::Form;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant, InterfaceIndex};
use sluice_machine::Outbox;

impl Neighbors {
    pub(super) fn set_link(&mut self, now: Instant, link: Link, out: &mut Outbox<Output>) {
        let interface = link.interface;
        let (mac, form) = (link.mac, link.form);
        let local = link.hids.clone();
        let old = self.links.remove(&interface);
        let is_new = old.is_none();
        let is_same_end =
            old.as_ref().is_some_and(|old| old.settings.mac == mac && old.settings.form == form);
        let is_changed = old.as_ref().is_none_or(|old| old.is_changed || old.settings.hids != local);
        let mut state = LinkState {
            settings: link,
            is_changed,
            answered: None,
            probing: None,
            investigations: Vec::new(),
            is_full_reported: false,
        };
        if is_same_end && let Some(old) = old {
            state = LinkState { settings: state.settings, is_changed, is_full_reported: false, ..old };
        } else {
            self.forget_proofs_of(interface, now);
        }
        self.links.insert(interface, state);
        if is_new {
            self.timers.start(now, Timer::Announce(interface), Duration::ZERO);
            self.restore(interface, now, out);
        }
        if !is_same_end {
            self.stop_monitor(interface);
            if form == Form::Monitoring {
                // Hosts that start together do not probe together.
                let delay = MONITOR / 2 + Duration::from_millis(self.rng.below(MONITOR.as_millis() as u64));
                self.timers.start(now, Timer::Monitor(interface), delay);
                self.timers.start(now, Timer::CleanUp(interface), CLEAN_UP);
            }
        }
        let neighbors: Vec<Neighbor> = self.table.of_link(interface).map(|(neighbor, _)| *neighbor).collect();
        for neighbor in neighbors {
            let is_manual = self.table.get(neighbor).is_some_and(|entry| entry.origin == Origin::Manual);
            if !is_manual && (local.contains(&neighbor.hid) || neighbor.mac == mac) {
                self.remove(neighbor, out);
            } else {
                self.refresh(neighbor, out);
                self.challenge_if_due(now, neighbor, out);
            }
        }
    }

    pub(super) fn remove_link(&mut self, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        self.links.remove(&interface);
        self.timers.stop(Timer::Announce(interface));
        self.stop_monitor(interface);
        let neighbors: Vec<(Neighbor, Origin)> =
            self.table.of_link(interface).map(|(neighbor, entry)| (*neighbor, entry.origin)).collect();
        for (neighbor, origin) in neighbors {
            // A manual neighbor waits for its link.
            if origin == Origin::Manual { self.refresh(neighbor, out) } else { self.remove(neighbor, out) }
        }
        self.proofs.forget_signatures(interface);
    }

    fn stop_monitor(&mut self, interface: InterfaceIndex) {
        for timer in [Timer::Monitor(interface), Timer::Probe(interface), Timer::CleanUp(interface)] {
            self.timers.stop(timer);
        }
    }
}
