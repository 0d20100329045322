//! An element of the cluster: configuration, interfaces, frames of other elements and neighbors in; frames, links, neighbors and
//! stores to the balancer's maps out.
//!
//! All elements announce themselves each second. Routers and the control plane have a link for each outer port. The control plane knows
//! the neighbors from its own kernel and sends them to all; a router reports the neighbors that its kernel wants, and the
//! control plane then resolves them.

use crate::balancer::words::Mirror;
use crate::balancer::{self, Balancer};
use crate::elements::event::Event;
use crate::elements::front;
use crate::elements::io::{Ignored, Input, NeighborState, Output, WantedNeighbor};
use crate::elements::membership::{ANNOUNCE_TIME, Arrival, LOST_TIME, Membership};
use crate::elements::publisher::{FrameContent, Publisher};
use crate::elements::replica::{NeighborChange, Replica};
use crate::elements::requests::Requests;
use crate::frames::announce::Announcement;
use crate::frames::header::{FrameError, Kind, Stamp};
use crate::frames::hello::Hello;
use crate::frames::neighbors::{MOST_ENTRIES, NeighborKey, NeighborList, WantedList};
use crate::inventory::{Element, ElementId, PortNumber, Role};
use crate::mac::{Mac, is_neighbor};
use crate::settings::{PortLink, Settings};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use sluice_base::{Instant, Interface, InterfaceEvent, InterfaceIndex};
use sluice_machine::{Machine, Outbox};

/// The time between two hello frames.
pub const HELLO_TIME: Duration = Duration::from_millis(10);
/// The longest time for which a router waits for the control plane's neighbors before packets may come.
const NEIGHBORS_TIME: Duration = Duration::from_secs(5);
/// The longest time for which an earlier process's neighbors stay in the balancer's maps without a whole round of the control plane.
const COMPLETE_TIME: Duration = Duration::from_secs(30);

/// An authentic frame of another element.
enum Frame {
    Announcement(Announcement),
    Neighbors(NeighborList),
    Wanted(WantedList),
}

/// The machine of an element.
#[derive(Debug)]
pub struct Cluster {
    epoch: u64,
    counters: [u64; 4],
    started: Option<Instant>,
    settings: Option<Box<Settings>>,
    /// The leader that the store named last.
    leader: Option<ElementId>,
    interfaces: BTreeMap<InterfaceIndex, Interface>,
    membership: Membership,
    replica: Replica,
    publisher: Publisher,
    requests: Requests,
    balancer: Option<Balancer>,
    is_complete: bool,
    knows_neighbors: bool,
    in_service: BTreeSet<ElementId>,
    links: BTreeMap<String, PortLink>,
    hello: Instant,
    announcement: Instant,
    ignored: Ignored,
}

impl Cluster {
    /// Makes the machine. `epoch` is the number of this start: each start has a larger one.
    pub fn new(epoch: u64) -> Self {
        Cluster {
            epoch,
            counters: [0; 4],
            started: None,
            settings: None,
            leader: None,
            interfaces: BTreeMap::new(),
            membership: Membership::default(),
            replica: Replica::default(),
            publisher: Publisher::new(Instant::ZERO),
            requests: Requests::default(),
            balancer: None,
            is_complete: false,
            knows_neighbors: false,
            in_service: BTreeSet::new(),
            links: BTreeMap::new(),
            hello: Instant::ZERO,
            announcement: Instant::ZERO,
            ignored: Ignored::default(),
        }
    }

    /// Returns the configuration.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.as_deref()
    }

    /// Returns the number of this start.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the elements that have announced themselves.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the elements that get packets.
    pub fn in_service(&self) -> &BTreeSet<ElementId> {
        &self.in_service
    }

    /// Returns the balancer, if the program runs.
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }

    /// Returns the frames that were ignored.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    /// Returns an interface of this machine by name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.values().find(|interface| interface.name == name)
    }

    /// Returns the neighbors of the cluster as this element knows them.
    pub fn neighbors(&self) -> Vec<(NeighborKey, Mac)> {
        if self.is_control() { self.publisher.iter().collect() } else { self.replica.iter().collect() }
    }

    /// Returns true if this element is the present control plane.
    pub fn is_control(&self) -> bool {
        self.settings().is_some_and(|settings| settings.control() == Some(settings.element))
    }

    fn own(&self) -> Option<&Element> {
        let settings = self.settings()?;
        settings.inventory.get(settings.element)
    }

    fn has_role(&self, role: Role) -> bool {
        self.own().is_some_and(|own| own.roles.contains(&role))
    }

    /// Returns true if packets may come: all links of ports run, with their addresses, and a router knows the neighbors.
    fn is_ready(&self, now: Instant) -> bool {
        let knows_neighbors = self.has_role(Role::Control)
            || self.replica.is_complete()
            || self.has_run_for(now, NEIGHBORS_TIME);
        knows_neighbors
            && self.links.iter().all(|(name, link)| {
                self.interface(name).is_some_and(|interface| {
                    let has = |address| interface.addresses.contains(address);
                    interface.running && link.addresses.iter().all(has)
                })
            })
    }

    fn stamp(&mut self, kind: Kind) -> Stamp {
        let counter = &mut self.counters[kind as usize - 1];
        *counter += 1;
        Stamp { epoch: self.epoch, counter: *counter }
    }

    // Configuration and interfaces.

    fn configure(&mut self, now: Instant, mut settings: Box<Settings>, out: &mut Outbox<Output>) {
        settings.leader = self.leader;
        if self.started.is_none() {
            self.started = Some(now);
            self.publisher.restart(now);
            (self.hello, self.announcement) = (now, now);
        }
        let known: BTreeSet<ElementId> = settings.inventory.iter().map(|element| element.id).collect();
        self.membership.retain(|element| known.contains(&element));
        self.publisher.retain(|key| settings.is_on_port(key.port, key.address));
        self.settings = Some(settings);
        self.put_links(out);
        self.update_service(now, out);
        self.give_balancer_all(out);
        self.publish(out);
    }

    fn elected(&mut self, now: Instant, leader: ElementId, out: &mut Outbox<Output>) {
        if self.leader.replace(leader) != Some(leader) {
            out.push(Output::Event(Event::Leader(leader)));
            if let Some(settings) = self.settings.clone() {
                self.configure(now, settings, out);
            }
        }
    }

    fn put_links(&mut self, out: &mut Outbox<Output>) {
        let links = self.settings().map(Settings::links).unwrap_or_default();
        if links != self.links {
            self.links.clone_from(&links);
            out.push(Output::Links(links));
        }
    }

    fn interface_event(&mut self, event: InterfaceEvent, out: &mut Outbox<Output>) {
        let before = match &event {
            InterfaceEvent::Changed(interface) => self.interfaces.insert(interface.index, interface.clone()),
            InterfaceEvent::Removed(index) => self.interfaces.remove(index),
            InterfaceEvent::SnapshotBegin | InterfaceEvent::SnapshotEnd => return,
        };
        let place = |interface: &Interface| (interface.name.clone(), interface.running);
        let after = match &event {
            InterfaceEvent::Changed(interface) => Some(place(interface)),
            _ => None,
        };
        if before.as_ref().map(place) != after {
            self.give_balancer_interfaces(out);
        }
    }

    // The balancer.

    fn feed(&mut self, inputs: impl IntoIterator<Item = balancer::Input>, out: &mut Outbox<Output>) {
        if let Some(balancer) = &mut self.balancer {
            front::feed(balancer, inputs, out);
        }
    }

    fn set_maps(&mut self, mirror: Option<Mirror>, out: &mut Outbox<Output>) {
        let settings = self.settings.as_deref();
        self.balancer = settings
            .zip(mirror)
            .map(|(settings, mirror)| Balancer::new(settings.element, settings.keys.current.seed(), mirror));
        self.is_complete = false;
        self.give_balancer_all(out);
        let neighbors: BTreeSet<Mac> = self.replica.iter().map(|(_, mac)| mac).collect();
        self.give_balancer_macs(&neighbors, out);
    }

    fn give_balancer_all(&mut self, out: &mut Outbox<Output>) {
        let Some(settings) = self.settings.as_deref().filter(|_| self.balancer.is_some()) else { return };
        let mut inputs = vec![
            balancer::Input::Keys(settings.keys.clone()),
            balancer::Input::Addresses(settings.own_addresses()),
            balancer::Input::Inventory(settings.inventory.clone()),
            balancer::Input::Control(settings.control()),
            balancer::Input::InService(self.in_service.clone()),
            balancer::Input::Policy(settings.policy.clone()),
        ];
        inputs.extend(self.balancer_interfaces(settings));
        self.feed(inputs, out);
    }

    fn give_balancer_interfaces(&mut self, out: &mut Outbox<Output>) {
        if let Some(settings) = self.settings.as_deref() {
            let inputs = self.balancer_interfaces(settings);
            self.feed(inputs, out);
        }
    }

    fn balancer_interfaces(&self, settings: &Settings) -> Vec<balancer::Input> {
        let index = |name: &String| self.interface(name).map(|interface| interface.index);
        let running = |name: &String| self.interface(name).filter(|i| i.running).map(|i| i.index);
        let ports = self.own().map(|own| own.ports.as_slice()).unwrap_or_default();
        let outer = ports.iter().map(|port| balancer::Input::Outer(port.number, index(&port.interface)));
        let inner = settings.interconnect.iter().filter_map(running).collect();
        outer.chain([balancer::Input::Inner(inner)]).collect()
    }

    /// Gives the balancer the ports of MAC addresses.
    fn give_balancer_macs(&mut self, macs: &BTreeSet<Mac>, out: &mut Outbox<Output>) {
        if self.balancer.is_none() {
            return;
        }
        let mut ports: BTreeMap<Mac, BTreeSet<PortNumber>> =
            macs.iter().map(|mac| (*mac, BTreeSet::new())).collect();
        for (key, mac) in self.replica.iter() {
            if let Some(ports) = ports.get_mut(&mac) {
                ports.insert(key.port);
            }
        }
        self.feed(ports.into_iter().map(|(mac, ports)| balancer::Input::Neighbor(mac, ports)), out);
    }

    /// Clears what an earlier process left in the maps and in the kernel, once all neighbors are known.
    fn complete(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.replica.is_complete() || self.has_run_for(now, COMPLETE_TIME) {
            if !core::mem::replace(&mut self.knows_neighbors, true) {
                out.push(Output::NeighborsKnown);
            }
            if self.balancer.is_some() && !core::mem::replace(&mut self.is_complete, true) {
                self.feed([balancer::Input::Complete], out);
            }
        }
    }

    fn has_run_for(&self, now: Instant, time: Duration) -> bool {
        self.started.is_some_and(|started| now >= started + time)
    }

    /// Decides which elements get packets: those that are configured, not drained and not lost. At the start, elements have the
    /// time of some announcements.
    fn update_service(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let Some(settings) = self.settings.as_deref() else { return };
        let is_early = !self.has_run_for(now, LOST_TIME);
        let serves = |element: &ElementId| {
            let is_present = match self.membership.get(*element) {
                Some(member) => !member.is_lost,
                None => is_early || *element == settings.element,
            };
            is_present && !settings.drained.contains(element)
        };
        let elements = settings.inventory.iter().map(|element| element.id);
        let in_service: BTreeSet<ElementId> = elements.filter(serves).collect();
        if in_service != self.in_service {
            self.in_service.clone_from(&in_service);
            self.feed([balancer::Input::InService(in_service)], out);
        }
    }

    // Frames.

    fn frame(&mut self, now: Instant, octets: &[u8], out: &mut Outbox<Output>) {
        let Some(settings) = self.settings.as_deref() else { return };
        // The kind, before anything is verified: the balancer's program looks at hello frames, and nobody else has to.
        let result = match octets.get(1) {
            Some(&kind) if kind == Kind::Hello as u8 => return,
            Some(&kind) if kind == Kind::Neighbors as u8 => {
                NeighborList::decode(octets, &settings.keys).map(Frame::Neighbors)
            }
            Some(&kind) if kind == Kind::Wanted as u8 => {
                WantedList::decode(octets, &settings.keys).map(Frame::Wanted)
            }
            _ => Announcement::decode(octets, &settings.keys).map(Frame::Announcement),
        };
        match result {
            Ok(frame) => self.authentic(now, frame, out),
            Err(FrameError::Tag) => self.ignored.forged += 1,
            Err(_) => self.ignored.malformed += 1,
        }
    }

    fn authentic(&mut self, now: Instant, frame: Frame, out: &mut Outbox<Output>) {
        let Some(settings) = self.settings.as_deref() else { return };
        let (kind, sender, stamp) = match &frame {
            Frame::Announcement(frame) => (Kind::Announcement, frame.element.id, frame.stamp),
            Frame::Neighbors(frame) => (Kind::Neighbors, frame.element, frame.stamp),
            Frame::Wanted(frame) => (Kind::Wanted, frame.element, frame.stamp),
        };
        if sender == settings.element {
            self.ignored.own_number += 1;
            // A switch may send own frames back; another machine counts its starts by itself.
            if stamp.epoch != self.epoch && kind == Kind::Announcement {
                out.push(Output::Event(Event::ElementTwice(sender)));
            }
            return;
        }
        let Some(configured) = settings.inventory.get(sender).cloned() else {
            self.ignored.foreign += 1;
            return;
        };
        let control = settings.control();
        if !self.membership.admit(kind, sender, stamp) {
            self.ignored.replayed += 1;
            return;
        }
        match frame {
            Frame::Announcement(frame) => self.announced(now, frame, &configured, out),
            Frame::Neighbors(frame) if Some(sender) == control => {
                let changes = self.replica.apply(frame.part, frame.entries);
                self.neighbors_changed(&changes, out);
                self.complete(now, out);
            }
            Frame::Wanted(frame) if self.is_control() => self.request(now, frame.entries, out),
            Frame::Wanted(_) => {}
            Frame::Neighbors(_) => self.ignored.unentitled += 1,
        }
    }

    fn announced(
        &mut self,
        now: Instant,
        frame: Announcement,
        configured: &Element,
        out: &mut Outbox<Output>,
    ) {
        let differed = self.membership.get(configured.id).is_some_and(|member| member.differs);
        if let Arrival::Up { is_started } = self.membership.announced(now, frame, configured) {
            out.push(Output::Event(Event::ElementUp(configured.id)));
            if is_started {
                self.publisher.restart(now);
            }
            self.update_service(now, out);
        }
        let differs = self.membership.get(configured.id).is_some_and(|member| member.differs);
        if differs && !differed {
            out.push(Output::Event(Event::ElementDiffers(configured.id)));
        }
    }

    // Neighbors.

    fn neighbors_changed(&mut self, changes: &[NeighborChange], out: &mut Outbox<Output>) {
        let macs = changes.iter().flat_map(|change| [change.before, change.now]).flatten();
        self.give_balancer_macs(&macs.collect(), out);
        if !changes.is_empty() && !self.links.is_empty() && !self.has_role(Role::Control) {
            let wanted = |change: &NeighborChange| {
                (change.key, change.now.map_or(WantedNeighbor::Removed, WantedNeighbor::At))
            };
            out.push(Output::SetNeighbors(changes.iter().map(wanted).collect()));
        }
    }

    fn kernel_neighbors(
        &mut self,
        states: Vec<(NeighborKey, NeighborState)>,
        is_whole: bool,
        out: &mut Outbox<Output>,
    ) {
        let Some(settings) = self.settings.as_deref() else { return };
        if !self.is_control() {
            let wanted: Vec<NeighborKey> = states
                .into_iter()
                .filter(|(key, state)| {
                    *state == NeighborState::Wanted && settings.is_on_port(key.port, key.address)
                })
                .map(|(key, _)| key)
                .collect();
            self.send_wanted(&wanted, out);
            return;
        }
        if is_whole {
            let named: BTreeSet<NeighborKey> = states.iter().map(|(key, _)| *key).collect();
            self.publisher.retain(|key| named.contains(key));
        }
        for (key, state) in states {
            let mac = match state {
                NeighborState::Known(mac)
                    if is_neighbor(mac) && settings.is_on_port(key.port, key.address) =>
                {
                    Some(mac)
                }
                NeighborState::Wanted => continue,
                _ => None,
            };
            if !self.publisher.set(key, mac) {
                out.push(Output::Event(Event::NoRoomForNeighbor(key.port, key.address)));
            }
        }
        self.publish(out);
    }

    fn send_wanted(&mut self, wanted: &[NeighborKey], out: &mut Outbox<Output>) {
        for entries in wanted.chunks(MOST_ENTRIES) {
            let stamp = self.stamp(Kind::Wanted);
            let Some(settings) = self.settings.as_deref() else { return };
            let list = WantedList { element: settings.element, stamp, entries: entries.to_vec() };
            send(out, list.encode(&settings.keys.current));
        }
    }

    /// Has the kernel of the control plane resolve neighbors that routers want.
    fn request(&mut self, now: Instant, keys: Vec<NeighborKey>, out: &mut Outbox<Output>) {
        let Some(settings) = self.settings.as_deref() else { return };
        let mut new = Vec::new();
        for key in keys.into_iter().filter(|key| settings.is_on_port(key.port, key.address)) {
            if self.requests.add(now, key) {
                new.push((key, WantedNeighbor::Resolved));
            }
        }
        if !new.is_empty() {
            out.push(Output::SetNeighbors(new));
        }
    }

    fn publish(&mut self, out: &mut Outbox<Output>) {
        if self.is_control() {
            let changes = self.publisher.changes();
            self.send_neighbors(changes, out);
        }
    }

    fn send_neighbors(&mut self, contents: impl IntoIterator<Item = FrameContent>, out: &mut Outbox<Output>) {
        for (part, entries) in contents {
            let stamp = self.stamp(Kind::Neighbors);
            let Some(settings) = self.settings.as_deref() else { return };
            let list = NeighborList { element: settings.element, stamp, part, entries };
            send(out, list.encode(&settings.keys.current));
        }
    }

    // Timers.

    fn announce(&mut self, out: &mut Outbox<Output>) {
        let stamp = self.stamp(Kind::Announcement);
        let (Some(settings), Some(own)) = (self.settings.as_deref(), self.own()) else { return };
        let below = settings.interconnect.first().and_then(|name| self.interface(name));
        let mac = below.and_then(|below| <[u8; 6]>::try_from(&below.mac[..]).ok()).unwrap_or_default();
        let addresses = below.map(|below| below.addresses.iter().map(|address| address.addr).collect());
        let announcement = Announcement {
            element: own.clone(),
            mac: Mac(mac),
            addresses: addresses.unwrap_or_default(),
            stamp,
        };
        send(out, announcement.encode(&settings.keys.current).ok());
    }

    fn say_hello(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let sends = self.settings().is_some_and(|settings| settings.sends_hello(settings.element));
        if !sends || !self.is_ready(now) {
            return;
        }
        let stamp = self.stamp(Kind::Hello);
        if let Some(settings) = self.settings.as_deref() {
            let hello = Hello { element: settings.element, stamp };
            out.push(Output::Send(hello.encode(&settings.keys.current).into()));
        }
    }

    /// Announces this element, and looks for elements that are lost and neighbors that nobody wants any more.
    fn tick(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.announce(out);
        let lost = self.membership.expire(now);
        lost.into_iter().for_each(|element| out.push(Output::Event(Event::ElementLost(element))));
        self.update_service(now, out);
        self.complete(now, out);
        let publisher = &self.publisher;
        let over = self.requests.expire(now, |key| publisher.get(key).is_some());
        if !over.is_empty() {
            let removed = over.into_iter().map(|key| (key, WantedNeighbor::Removed));
            out.push(Output::SetNeighbors(removed.collect()));
        }
    }

    /// Returns all neighbors that the kernel of this machine is to have; `None` while a router does not know the neighbors: those
    /// that an earlier process set are good until then.
    pub fn wanted_neighbors(&self) -> Option<Vec<(NeighborKey, WantedNeighbor)>> {
        if self.has_role(Role::Control) {
            return Some(self.requests.iter().map(|key| (key, WantedNeighbor::Resolved)).collect());
        }
        let all = self.replica.iter().filter(|_| !self.links.is_empty());
        self.knows_neighbors.then(|| all.map(|(key, mac)| (key, WantedNeighbor::At(mac))).collect())
    }
}

/// Sends a payload, if there is one.
fn send(out: &mut Outbox<Output>, octets: Option<Vec<u8>>) {
    if let Some(octets) = octets {
        out.push(Output::Send(octets));
    }
}

impl Machine for Cluster {
    type Input = Input;
    type Output = Output;
    /// All state comes again: from the configuration, the kernel and the frames of other elements.
    type State = ();

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Configure(settings) => self.configure(now, settings, out),
            Input::Interface(event) => self.interface_event(event, out),
            Input::Frame(octets) => self.frame(now, &octets, out),
            Input::Neighbors { states, is_whole } => self.kernel_neighbors(states, is_whole, out),
            Input::Maps(mirror) => self.set_maps(mirror, out),
            Input::Leader(leader) => self.elected(now, leader, out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let settings = self.settings()?;
        let hello = settings.sends_hello(settings.element).then_some(self.hello);
        let part = self.is_control().then(|| self.publisher.due());
        [Some(self.announcement), hello, part].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if now >= self.hello {
            // A late process does not make up for frames that it did not send.
            self.hello = now + HELLO_TIME;
            self.say_hello(now, out);
        }
        if now >= self.announcement {
            self.announcement = now + ANNOUNCE_TIME;
            self.tick(now, out);
        }
        if self.is_control() {
            let part = self.publisher.next_part(now);
            self.send_neighbors(part, out);
        }
    }

    fn export(&self) {}

    fn import(&mut self, _now: Instant, (): (), _out: &mut Outbox<Output>) {}
}
