//! Announcements and neighbor lists, in both forms.

use super::io::{Link, Output};
use super::state::{Neighbors, Timer};
use super::table::{Entry, Liveness, Neighbor, Origin, ProofState};
use crate::wire::nwp::{Announcement, Form, Listed, ListedAddress, MOST_HIDS, Message, Status};
use crate::wire::{Hid, Mac};
use alloc::vec::Vec;
use sluice_base::{Duration, Instant, InterfaceIndex};
use sluice_machine::Outbox;

/// The time between ticks of announcements.
pub(super) const ANNOUNCE: Duration = Duration::from_secs(5);
/// The least time between two answers with lists on a link.
const BETWEEN_ANSWERS: Duration = Duration::from_millis(100);
/// The time until this host introduces itself to a new neighbor: neighbors that come together are answered together.
const INTRODUCE: Duration = Duration::from_millis(100);
/// The number of hosts of a link that introduce themselves to a new neighbor, about.
const INTRODUCTIONS: u32 = 4;

/// Octets of a frame before the HIDs of an announcement, without clock.
const ANNOUNCEMENT_HEAD: usize = 4 + Mac::LEN;
/// Octets of a frame before the neighbors of a list.
const LIST_HEAD: usize = 4;

impl Neighbors {
    /// Announces the local HIDs if they changed since the last tick, and otherwise with the probability of [`Self::draws`].
    pub(super) fn announce(&mut self, now: Instant, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        self.timers.start(now, Timer::Announce(interface), ANNOUNCE);
        let is_drawn = self.draws(interface, 1);
        let clock = self.clock(now);
        let Some(link) = self.links.get_mut(&interface) else { return };
        let is_changed = core::mem::take(&mut link.is_changed);
        let Link { mac, mtu, form, hids, .. } = &link.settings;
        let clock = (*form == Form::Monitoring).then_some(clock);
        let head = ANNOUNCEMENT_HEAD + if clock.is_some() { 4 } else { 0 };
        let room = (mtu.saturating_sub(head) / Hid::LEN).min(MOST_HIDS);
        let hids: Vec<Hid> = hids.iter().copied().take(room).collect();
        if !hids.is_empty() && (is_changed || is_drawn) {
            let message = Message::Announcement(Announcement { clock, sender: *mac, hids });
            Self::send(interface, Mac::BROADCAST, &message, out);
        }
    }

    /// Draws with the probability me / (me + others), local HIDs and known neighbors of the link, times `hosts`. So about as many
    /// hosts of a link draw, however many there are.
    fn draws(&mut self, interface: InterfaceIndex, hosts: u32) -> bool {
        let Some(link) = self.links.get(&interface) else { return false };
        let own = link.settings.hids.len() as u32;
        let all = own.saturating_add(self.table.count(interface) as u32);
        let threshold = u32::MAX.checked_div(all).unwrap_or(0).saturating_mul(own).saturating_mul(hosts);
        let drawn = (self.rng.next_u64() >> 32) as u32;
        own > 0 && drawn <= threshold
    }

    pub(super) fn receive_announcement(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        announcement: &Announcement,
        out: &mut Outbox<Output>,
    ) {
        let Announcement { clock, sender, hids } = announcement;
        let clock = clock.unwrap_or(0);
        let is_older = |entry: &Entry| {
            let is_known = entry.origin == Origin::Announced && entry.liveness == Liveness::Alive;
            is_known && clock < entry.clock
        };
        let neighbor = |hid: &Hid| Neighbor { interface, hid: *hid, mac: *sender };
        if hids.iter().any(|hid| self.table.get(neighbor(hid)).is_some_and(is_older)) {
            self.drops.count("replayed");
            return;
        }
        let is_new = hids.iter().any(|hid| self.table.get(neighbor(hid)).is_none());
        for hid in hids {
            self.learn(now, neighbor(hid), Origin::Announced, clock, out);
        }
        if self.draws(interface, 1) {
            self.answer(now, interface, *sender, out);
        }
        if is_new && self.draws(interface, INTRODUCTIONS) {
            self.introduce(now, interface);
        }
    }

    /// Announces the local HIDs soon: a host that came later than this one has not received them.
    fn introduce(&mut self, now: Instant, interface: InterfaceIndex) {
        if let Some(link) = self.links.get_mut(&interface)
            && !core::mem::replace(&mut link.is_changed, true)
        {
            self.timers.start(now, Timer::Announce(interface), INTRODUCE);
        }
    }

    /// Adds all addresses of a list. Failed addresses and addresses with an older clock change nothing.
    pub(super) fn receive_list(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        list: &[Listed],
        out: &mut Outbox<Output>,
    ) {
        for listed in list {
            for address in &listed.addresses {
                let is_alive = address.status.is_none_or(|status| status.is_alive);
                let clock = address.status.map_or(0, |status| status.clock);
                let neighbor = Neighbor { interface, hid: listed.hid, mac: address.mac };
                if !address.mac.is_station() {
                    self.drops.count("group-address");
                } else if is_alive {
                    self.learn(now, neighbor, Origin::Listed, clock, out);
                }
            }
        }
    }

    /// Adds a neighbor, or refreshes it. Own HIDs, own addresses and manual neighbors are left alone.
    fn learn(
        &mut self,
        now: Instant,
        neighbor: Neighbor,
        origin: Origin,
        clock: u32,
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get(&neighbor.interface) else { return };
        if neighbor.mac == link.settings.mac || link.settings.hids.contains(&neighbor.hid) {
            return;
        }
        match self.table.get_mut(neighbor) {
            Some(entry) if entry.origin == Origin::Manual => return,
            Some(entry) => {
                // A list is hearsay: it brings a failed neighbor back only with a clock from after the failure, and no clock of
                // a list makes an announcement look replayed.
                let is_failed = entry.liveness != Liveness::Alive;
                if origin == Origin::Announced || (is_failed && clock > entry.clock) {
                    entry.origin = origin;
                    entry.liveness = Liveness::Alive;
                    entry.clock = clock;
                }
                self.refresh(neighbor, out);
            }
            None => {
                let proof = ProofState::Unproven(now);
                let entry = Entry { origin, liveness: Liveness::Alive, clock, proof, is_usable: false };
                if !self.insert(neighbor, entry, out) {
                    return;
                }
            }
        }
        self.challenge_if_due(now, neighbor, out);
    }

    /// Sends lists of the link's neighbors, except for manual, refused and long failed ones, in as many frames as needed.
    fn answer(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        destination: Mac,
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get_mut(&interface) else { return };
        if link.answered.is_some_and(|last| now.saturating_since(last) < BETWEEN_ANSWERS) {
            self.drops.count("answer-limit");
            return;
        }
        link.answered = Some(now);
        let (mtu, form) = (link.settings.mtu, link.settings.form);
        let is_monitoring = form == Form::Monitoring;
        let per_address = Mac::LEN + if is_monitoring { 4 } else { 0 };
        let (mut list, mut len): (Vec<Listed>, usize) = (Vec::new(), LIST_HEAD);
        for (neighbor, entry) in self.table.of_link(interface) {
            if neighbor.mac == destination || !entry.is_listed(now) {
                continue;
            }
            let is_alive = entry.liveness == Liveness::Alive;
            if !is_alive && !is_monitoring {
                continue;
            }
            let status = is_monitoring.then_some(Status { is_alive, clock: entry.clock });
            let address = ListedAddress { mac: neighbor.mac, status };
            let same = list.last_mut().filter(|last| last.hid == neighbor.hid && last.addresses.len() < 255);
            match same {
                Some(last) if len + per_address <= mtu => {
                    last.addresses.push(address);
                    len += per_address;
                }
                _ => {
                    let needed = Hid::LEN + 1 + per_address;
                    if len + needed > mtu || list.len() == MOST_HIDS {
                        flush(interface, destination, &mut list, out);
                        len = LIST_HEAD;
                    }
                    len += needed;
                    list.push(Listed { hid: neighbor.hid, addresses: Vec::from([address]) });
                }
            }
        }
        flush(interface, destination, &mut list, out);
    }
}

/// Sends a list that is not empty.
fn flush(interface: InterfaceIndex, destination: Mac, list: &mut Vec<Listed>, out: &mut Outbox<Output>) {
    if !list.is_empty() {
        let message = Message::List(core::mem::take(list));
        Neighbors::send(interface, destination, &message, out);
    }
}
