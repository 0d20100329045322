//! The interfaces: the present state, and the configured one.

use crate::engine::{EngineOp, Link, Refusal};
use crate::event::Event;
use crate::output::{Apply, Effect, Output};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::{Bound, ControlFlow};
use serde::{Deserialize, Serialize};
use sluice_base::{Family, Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex};
use sluice_machine::{Budget, Outbox};

/// The smallest MTU of a link with IPv6, in octets (RFC 8200, section 5).
const SMALLEST_IPV6_MTU: u32 = 1280;

/// The configuration of an interface; `None`: unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkConfiguration {
    /// True for up.
    pub enabled: Option<bool>,
    /// Largest packet in octets.
    pub mtu: Option<u32>,
    /// The wanted addresses; further addresses stay, except those of the previous configuration.
    pub addresses: BTreeSet<InterfaceAddress>,
}

/// The configuration of interfaces and of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Configuration {
    /// The interfaces by name, whether or not they exist.
    pub interfaces: BTreeMap<String, LinkConfiguration>,
    /// True if the host forwards packets, by family; an absent family is left unchanged.
    pub forwarding: BTreeMap<Family, bool>,
}

/// An interface, with marks for the running snapshot: seen, and the seen addresses.
#[derive(Clone, Debug)]
struct Known {
    interface: Interface,
    seen: bool,
    seen_addresses: BTreeSet<InterfaceAddress>,
    /// Addresses from a configuration, also of an earlier process, and still present.
    own: BTreeSet<InterfaceAddress>,
    /// The requested settings that the engine has not shown yet.
    asked: Asked,
}

/// Requested settings of an interface, until shown by the engine. A new configuration may come before: the shown state is then not the
/// final state.
#[derive(Clone, Debug, Default)]
struct Asked {
    up: Option<bool>,
    mtu: Option<u32>,
    /// Addresses to appear.
    coming: BTreeSet<InterfaceAddress>,
    /// Addresses to disappear.
    leaving: BTreeSet<InterfaceAddress>,
}

impl Asked {
    /// The engine shows an interface.
    fn shown(&mut self, interface: &Interface) {
        self.up.take_if(|up| *up == interface.admin_up);
        self.mtu.take_if(|mtu| *mtu == interface.mtu);
    }
}

impl Known {
    /// Returns the settings to ask for: up or down, and the MTU.
    fn missing(&self, wanted: &LinkConfiguration) -> (Option<bool>, Option<u32>) {
        let (up, mtu) = (self.interface.admin_up, self.interface.mtu);
        (
            wanted.enabled.filter(|wanted| *wanted != self.asked.up.unwrap_or(up)),
            wanted.mtu.filter(|wanted| *wanted != self.asked.mtu.unwrap_or(mtu)),
        )
    }

    /// Returns true if the engine shows an address, and was not asked to remove the address.
    fn has(&self, address: &InterfaceAddress) -> bool {
        self.interface.addresses.binary_search(address).is_ok() && !self.asked.leaving.contains(address)
    }
}

/// The effect of an interface's change on the next hops there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transition {
    /// The interface can carry packets and could not before.
    CameUp,
    /// The interface could carry packets and cannot any more.
    WentDown,
    /// Neither.
    None,
}

/// A configured setting of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Setting {
    Forwarding(Family),
    Link(InterfaceIndex),
    Address(InterfaceIndex, InterfaceAddress),
}

impl Setting {
    const fn of(op: &EngineOp) -> Option<Self> {
        match op {
            EngineOp::SetForwarding { family, .. } => Some(Setting::Forwarding(*family)),
            EngineOp::SetLink { interface, .. } => Some(Setting::Link(*interface)),
            EngineOp::AddAddress { interface, address } => Some(Setting::Address(*interface, *address)),
            _ => None,
        }
    }
}

/// The interfaces of the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    known: BTreeMap<InterfaceIndex, Known>,
    configuration: Configuration,
    /// True with a configuration.
    configured: bool,
    /// True after the first snapshot.
    complete: bool,
    /// The settings whose last operation the engine refused, with the reasons.
    refused: BTreeMap<Setting, String>,
}

impl Interfaces {
    /// Records the present state of an interface.
    pub(crate) fn link_is(&mut self, link: Link, out: &mut Outbox<Output>) -> Transition {
        let mut interface = Interface {
            index: link.index,
            name: link.name,
            admin_up: link.admin_up,
            running: link.running,
            loopback: link.loopback,
            point_to_point: link.point_to_point,
            multicast: link.multicast,
            mtu: link.mtu,
            mac: link.mac,
            addresses: Vec::new(),
        };
        let index = interface.index;
        let Some(known) = self.known.get_mut(&index) else {
            let transition = if interface.running { Transition::CameUp } else { Transition::None };
            out.push(changed(&interface));
            let seen_addresses = BTreeSet::new();
            let own = BTreeSet::new();
            self.known
                .insert(index, Known { interface, seen: true, seen_addresses, own, asked: Asked::default() });
            self.configure_one(index, out);
            return transition;
        };
        known.seen = true;
        known.asked.shown(&interface);
        interface.addresses.clone_from(&known.interface.addresses);
        if interface == known.interface {
            return Transition::None;
        }
        let transition = match (known.interface.running, interface.running) {
            (false, true) => Transition::CameUp,
            (true, false) => Transition::WentDown,
            _ => Transition::None,
        };
        let before = core::mem::replace(&mut known.interface, interface);
        let now = &known.interface;
        // The kernel drops IPv6 addresses when a link goes down, and when its packets become too small.
        let takes_addresses = now.admin_up && !before.admin_up
            || now.mtu >= SMALLEST_IPV6_MTU && before.mtu < SMALLEST_IPV6_MTU;
        let reconfigure = transition == Transition::CameUp || takes_addresses || now.name != before.name;
        out.push(changed(now));
        if reconfigure {
            self.configure_one(index, out);
        }
        transition
    }

    /// Returns true if an interface's state or MTU differs from the configuration, without a pending request for the change.
    pub(crate) fn differs(&self, index: InterfaceIndex) -> bool {
        let Some(known) = self.known.get(&index) else { return false };
        let wanted = self.configuration.interfaces.get(&known.interface.name);
        wanted.is_some_and(|wanted| known.missing(wanted) != (None, None))
    }

    /// Returns the configured forwarding of `family`; `None` leaves the switch.
    pub(crate) fn wanted_forwarding(&self, family: Family) -> Option<bool> {
        self.configuration.forwarding.get(&family).copied()
    }

    /// The name of an interface, for people.
    pub(crate) fn name(&self, index: InterfaceIndex) -> String {
        self.known.get(&index).map_or_else(|| index.to_string(), |k| k.interface.name.clone())
    }

    pub(crate) fn link_gone(&mut self, index: InterfaceIndex, out: &mut Outbox<Output>) {
        if self.known.remove(&index).is_some() {
            let is_elsewhere = |setting: &Setting| match setting {
                Setting::Forwarding(_) => true,
                Setting::Link(interface) | Setting::Address(interface, _) => *interface != index,
            };
            self.refused.retain(|setting, _| is_elsewhere(setting));
            out.push(Output::Effect(Effect::Interface(InterfaceEvent::Removed(index))));
        }
    }

    /// Records an address of an interface, set by Sluice (`own`) or not; returns true for a change.
    pub(crate) fn address_is(
        &mut self,
        index: InterfaceIndex,
        address: InterfaceAddress,
        own: bool,
        out: &mut Outbox<Output>,
    ) -> bool {
        let Some(known) = self.known.get_mut(&index) else { return false };
        if own {
            known.own.insert(address);
        }
        known.seen_addresses.insert(address);
        known.asked.coming.remove(&address);
        let Err(place) = known.interface.addresses.binary_search(&address) else { return false };
        known.interface.addresses.insert(place, address);
        out.push(changed(&known.interface));
        true
    }

    /// Records the loss of an address. Returns true for a configured address whose removal was not requested. A down interface gets the
    /// addresses when up again.
    pub(crate) fn address_gone(
        &mut self,
        index: InterfaceIndex,
        address: InterfaceAddress,
        out: &mut Outbox<Output>,
    ) -> bool {
        let Some(known) = self.known.get_mut(&index) else { return false };
        known.own.remove(&address);
        let was_leaving = known.asked.leaving.remove(&address);
        if let Ok(place) = known.interface.addresses.binary_search(&address) {
            known.interface.addresses.remove(place);
            out.push(changed(&known.interface));
        }
        let wanted = self.configuration.interfaces.get(&known.interface.name);
        !was_leaving && known.interface.admin_up && wanted.is_some_and(|w| w.addresses.contains(&address))
    }

    /// A snapshot begins.
    pub(crate) fn clear_seen(&mut self) {
        for known in self.known.values_mut() {
            known.seen = false;
            known.seen_addresses.clear();
        }
    }

    /// Ends a snapshot: interfaces and addresses not shown are gone.
    pub(crate) fn end_snapshot(&mut self, out: &mut Outbox<Output>) {
        let gone: Vec<InterfaceIndex> =
            self.known.iter().filter(|(_, k)| !k.seen).map(|(index, _)| *index).collect();
        for index in gone {
            self.link_gone(index, out);
        }
        for known in self.known.values_mut() {
            // What the engine was asked for may have been undone while its notices were lost.
            known.asked = Asked::default();
            let before = known.interface.addresses.clone();
            known.interface.addresses.retain(|a| known.seen_addresses.contains(a));
            if known.interface.addresses != before {
                let is_lost = |a: &InterfaceAddress| {
                    before.binary_search(a).is_ok() && !known.seen_addresses.contains(a)
                };
                known.own.retain(|a| !is_lost(a));
                out.push(changed(&known.interface));
            }
        }
        if !core::mem::replace(&mut self.complete, true) {
            out.push(Output::Effect(Effect::Interface(InterfaceEvent::SnapshotEnd)));
        }
        self.configure_all(out);
    }

    /// Returns true if an interface has an address, with any prefix length.
    pub(crate) fn has_address(&self, addr: IpAddr) -> bool {
        self.known.values().any(|known| known.interface.addresses.iter().any(|address| address.addr == addr))
    }

    /// Returns the interfaces; `None` before the first snapshot is complete.
    pub(crate) fn all(&self) -> Option<Vec<Interface>> {
        self.complete.then(|| self.known.values().map(|k| k.interface.clone()).collect())
    }

    /// Adopts a configuration, and requests the changes.
    pub(crate) fn configure(&mut self, configuration: Configuration, out: &mut Outbox<Output>) {
        for (family, enabled) in &configuration.forwarding {
            self.write_forwarding(*family, *enabled, out);
        }
        self.configuration = configuration;
        self.configured = true;
        for name in self.configuration.interfaces.keys() {
            if !self.known.values().any(|k| k.interface.name == *name) {
                out.push(Output::Effect(Effect::Event(Event::NoInterface(name.clone()))));
            }
        }
        self.configure_all(out);
    }

    fn configure_all(&mut self, out: &mut Outbox<Output>) {
        let indices: Vec<InterfaceIndex> = self.known.keys().copied().collect();
        for index in indices {
            self.configure_one(index, out);
        }
    }

    /// Returns the deviations from the configuration that no pending request will correct, a sentence each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for family in self.configuration.forwarding.keys() {
            if let Some(reason) = self.refused.get(&Setting::Forwarding(*family)) {
                problems.push(format!("the switch for forwarding {family} is not as configured: {reason}"));
            }
        }
        for (name, wanted) in &self.configuration.interfaces {
            let mut found = self.known.iter().filter(|(_, known)| known.interface.name == *name);
            let Some((index, known)) = found.next() else {
                // Before the first snapshot, no interface is known.
                if self.complete {
                    problems.push(format!("interface {name} is configured and does not exist"));
                }
                continue;
            };
            let mut report = |setting: Setting, what: String| {
                let reason = self.refused.get(&setting).map(|reason| format!(": {reason}"));
                problems.push(format!("interface {name} {what}{}", reason.unwrap_or_default()));
            };
            let (up, mtu) = known.missing(wanted);
            if let Some(up) = up {
                let [is, wanted] = if up { ["down", "up"] } else { ["up", "down"] };
                report(Setting::Link(*index), format!("is {is} instead of {wanted}"));
            }
            if let Some(mtu) = mtu {
                let text = format!("has the MTU {} instead of {mtu}", known.interface.mtu);
                report(Setting::Link(*index), text);
            }
            let is_missing = |a: &&InterfaceAddress| {
                known.interface.admin_up && !known.has(a) && !known.asked.coming.contains(*a)
            };
            for address in wanted.addresses.iter().filter(is_missing) {
                let InterfaceAddress { addr, prefix_len, .. } = address;
                let text = format!("is without its address {addr}/{prefix_len}");
                report(Setting::Address(*index, *address), text);
            }
        }
        problems
    }

    /// Returns the interfaces whose traffic a new configuration interrupts: by going down, by losing a configured address, or by
    /// an MTU too small for IPv6 (RFC 8200, section 5), at which the kernel removes the IPv6 addresses.
    pub(crate) fn interrupted_by(&self, new: &Configuration) -> Vec<String> {
        let none = LinkConfiguration::default();
        let is_interrupted = |name: &&String| {
            let of =
                |configuration: &Configuration| configuration.interfaces.get(*name).unwrap_or(&none).clone();
            let (before, after) = (of(&self.configuration), of(new));
            let goes_down = after.enabled == Some(false) && before.enabled != Some(false);
            let known = self.known.values().map(|k| &k.interface).find(|i| i.name == **name);
            let carries_ipv6 = known
                .is_some_and(|i| i.mtu >= SMALLEST_IPV6_MTU && i.addresses.iter().any(|a| a.addr.is_ipv6()));
            let loses_ipv6 = carries_ipv6 && after.mtu.is_some_and(|mtu| mtu < SMALLEST_IPV6_MTU);
            goes_down || loses_ipv6 || !before.addresses.is_subset(&after.addresses)
        };
        let names: BTreeSet<&String> =
            self.configuration.interfaces.keys().chain(new.interfaces.keys()).collect();
        names.into_iter().filter(is_interrupted).cloned().collect()
    }

    /// Returns remarks on a new configuration: new interfaces in the configuration that do not exist at present.
    pub(crate) fn remarks(&self, new: &Configuration) -> Vec<String> {
        let exists = |name: &&String| self.known.values().any(|known| known.interface.name == **name);
        let is_new = |name: &&String| !self.configuration.interfaces.contains_key(*name);
        let missing = new.interfaces.keys().filter(is_new).filter(|name| self.configured && !exists(name));
        missing
            .map(|name| format!("interface {name}: the router has no interface `{name}` at present"))
            .collect()
    }

    /// Requests an interface's missing settings, and the removal of settings no longer wanted. Without a configuration nothing
    /// is removed.
    pub(crate) fn configure_one(&mut self, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        if !self.configured {
            return;
        }
        let Some(known) = self.known.get_mut(&interface) else { return };
        let none = LinkConfiguration::default();
        let wanted = self.configuration.interfaces.get(&known.interface.name).unwrap_or(&none);
        // Also one that the engine has not shown yet: that it was asked for is enough.
        for address in known.own.iter().filter(|a| !wanted.addresses.contains(a)) {
            out.push(Output::Engine(EngineOp::DeleteAddress { interface, address: *address }));
            known.asked.coming.remove(address);
            known.asked.leaving.insert(*address);
        }
        let (up, mtu) = known.missing(wanted);
        let addresses: Vec<_> = wanted.addresses.iter().filter(|a| !known.has(a)).copied().collect();
        (known.asked.up, known.asked.mtu) = (up.or(known.asked.up), mtu.or(known.asked.mtu));
        if up.is_some() || mtu.is_some() {
            request(&mut self.refused, EngineOp::SetLink { interface, up, mtu }, out);
        }
        for address in addresses {
            known.asked.coming.insert(address);
            request(&mut self.refused, EngineOp::AddAddress { interface, address }, out);
        }
        known.own.clone_from(&wanted.addresses);
    }

    /// Asks the engine to forward packets of a family between the interfaces, or not to.
    pub(crate) fn write_forwarding(&mut self, family: Family, enabled: bool, out: &mut Outbox<Output>) {
        request(&mut self.refused, EngineOp::SetForwarding { family, enabled }, out);
    }

    /// Records that the engine refused an operation, or had the wanted state before.
    pub(crate) fn note_refused(&mut self, op: &EngineOp, refusal: &Refusal) {
        match op {
            EngineOp::SetLink { interface, .. } => {
                if let Some(known) = self.known.get_mut(interface) {
                    (known.asked.up, known.asked.mtu) = (None, None);
                }
            }
            EngineOp::AddAddress { interface, address } => {
                if let Some(known) = self.known.get_mut(interface) {
                    known.asked.coming.remove(address);
                }
            }
            _ => {}
        }
        if !op.is_satisfied_despite(refusal) {
            self.refused.extend(Setting::of(op).map(|setting| (setting, refusal.to_string())));
        }
    }

    /// Replays the configured switches for forwarding.
    pub(crate) fn replay_switches(&self, apply: Apply<'_>) {
        for (family, enabled) in &self.configuration.forwarding {
            self.replay_one(EngineOp::SetForwarding { family: *family, enabled: *enabled }, apply);
        }
    }

    /// Replays the configured settings and addresses of the interfaces after `after`. Breaks with the interface to go on after.
    pub(crate) fn replay_interfaces(
        &self,
        after: Option<InterfaceIndex>,
        budget: &mut Budget,
        apply: Apply<'_>,
    ) -> ControlFlow<InterfaceIndex> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (interface, known) in self.known.range((from, Bound::Unbounded)) {
            let interface = *interface;
            let wanted = self.configuration.interfaces.get(&known.interface.name);
            if let Some(LinkConfiguration { enabled: up, mtu, .. }) = wanted
                && (up.is_some() || mtu.is_some())
            {
                self.replay_one(EngineOp::SetLink { interface, up: *up, mtu: *mtu }, apply);
            }
            for address in &known.own {
                self.replay_one(EngineOp::AddAddress { interface, address: *address }, apply);
            }
            if !budget.spend(1 + known.own.len() as u32) {
                return ControlFlow::Break(interface);
            }
        }
        ControlFlow::Continue(())
    }

    /// Replays a setting unless the authority refused it.
    fn replay_one(&self, op: EngineOp, apply: Apply<'_>) {
        if Setting::of(&op).is_none_or(|setting| !self.refused.contains_key(&setting)) {
            apply(op);
        }
    }
}

/// Asks the engine for a setting; an earlier refusal is no longer true.
fn request(refused: &mut BTreeMap<Setting, String>, op: EngineOp, out: &mut Outbox<Output>) {
    if let Some(setting) = Setting::of(&op) {
        refused.remove(&setting);
    }
    out.push(Output::Engine(op));
}

fn changed(interface: &Interface) -> Output {
    Output::Effect(Effect::Interface(InterfaceEvent::Changed(interface.clone())))
}
