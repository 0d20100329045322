//! The fast path of a running FEA: the chain of programs, the forwarder that fills their tables, and the interfaces.
//!
//! The tables of a new process are empty. An earlier process's program forwards by its own tables until the new tables have all
//! routes and the host's facts; then one store puts the new program into the slot.

use super::audit::{self, Audit};
use super::chain::Chain;
use super::facts::{self, Fact};
use super::maps::Maps;
use super::promiscuity;
use super::watch::Sighting;
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::socket::{DATAGRAM, Socket};
use sluice_base::{Family, Interface, InterfaceEvent, InterfaceIndex, Mac};
use sluice_bpf::layout::{PORT_IPV4, PORT_IPV6, PORT_PROMISCUOUS};
use sluice_bpf::{BpfError, Loaded};
use sluice_fea::xdp::obstacles::Obstacles;
use sluice_fea::xdp::{Forwarder, Grace, NeighborWish, Port, Promiscuity};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use tracing::{info, warn};

/// The forwarder, shared with the engine in the set.
pub type SharedForwarder = Rc<RefCell<Forwarder<Maps>>>;

/// An error that keeps the fast path from running.
#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    /// XDP does not work here.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The kernel gives no netlink socket.
    #[error("netlink: {0}")]
    Netlink(#[from] io::Error),
}

/// An interface of the host.
#[derive(Debug)]
struct HostInterface {
    interface: Interface,
    /// The reason for which the interface is no port.
    refusal: Option<String>,
    /// True if an FEA made the interface promiscuous.
    is_promiscuous: bool,
}

/// The wishes of programs of other components for an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramWishes {
    /// The slots whose programs do not see the interface's frames: bit `1 << slot`.
    pub skipped: u32,
    /// Whether programs need the interface's frames for all stations.
    pub promiscuity: Promiscuity,
}

/// The state of an interface for `show forwarding`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortReport {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub index: InterfaceIndex,
    /// The number of the interface's counters, if the interface is a port.
    pub number: Option<u16>,
    /// The reason for which the interface is no port.
    pub refusal: Option<String>,
    /// The reasons for which the kernel forwards what the interface receives, by family; empty where the fast path is on.
    pub received: BTreeMap<Family, Vec<String>>,
    /// The reasons for which the kernel forwards what the interface sends.
    pub sent: Vec<String>,
}

/// The fast path.
#[derive(Debug)]
pub struct FastPath {
    chain: Chain,
    ip: Loaded,
    forwarder: SharedForwarder,
    writer: Socket,
    interfaces: BTreeMap<InterfaceIndex, HostInterface>,
    obstacles: Option<Obstacles>,
    /// True once the foreign routes and neighbors are known.
    knows_host: bool,
    is_live: bool,
    /// True if the kernel refused the program in its slot.
    is_refused: bool,
    /// The wishes of programs, by the interface's name.
    program_wishes: BTreeMap<String, ProgramWishes>,
    /// The wishes for interfaces that `program_wishes` does not name.
    program_wishes_elsewhere: ProgramWishes,
    buffer: Vec<u8>,
    audit: Audit,
}

impl FastPath {
    /// Takes up the chain below `folder`, and loads a program with empty tables.
    ///
    /// # Errors
    ///
    /// If XDP does not work here, or there is no memory for the tables.
    pub fn open(folder: &Path, flow_seed: u64) -> Result<Self, FastPathError> {
        let chain = Chain::open(folder)?;
        let ip = chain.load_ip(flow_seed)?;
        let forwarder = Rc::new(RefCell::new(Forwarder::new(Maps::of(&ip)?)));
        Ok(FastPath {
            chain,
            ip,
            forwarder,
            writer: Socket::open()?,
            interfaces: BTreeMap::new(),
            obstacles: None,
            knows_host: false,
            is_live: false,
            is_refused: false,
            program_wishes: BTreeMap::new(),
            program_wishes_elsewhere: ProgramWishes { skipped: 0, promiscuity: Promiscuity::Kept },
            buffer: vec![0; DATAGRAM],
            audit: Audit::default(),
        })
    }

    /// Returns the forwarder.
    pub fn forwarder(&self) -> &SharedForwarder {
        &self.forwarder
    }

    /// Returns the chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the program of this process, with the maps of its tables.
    pub fn program(&self) -> &Loaded {
        &self.ip
    }

    /// Returns the obstacles, once they are known.
    pub fn obstacles(&self) -> Option<&Obstacles> {
        self.obstacles.as_ref()
    }

    /// Returns true once the program forwards by the tables of this process.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Follows a change of the interfaces.
    pub fn interface_event(&mut self, event: &InterfaceEvent) {
        match event {
            // Packets on the loopback are the host's own.
            InterfaceEvent::Changed(interface) if interface.loopback => {}
            InterfaceEvent::Changed(interface) => {
                let index = interface.index;
                let known = self.interfaces.remove(&index);
                let is_promiscuous = known.as_ref().is_some_and(|known| known.is_promiscuous);
                let refusal = known.and_then(|known| known.refusal);
                let host = HostInterface { interface: interface.clone(), refusal, is_promiscuous };
                self.interfaces.insert(index, host);
                self.refresh(index);
            }
            InterfaceEvent::Removed(index) => {
                self.interfaces.remove(index);
                self.detach(*index);
                self.forwarder.borrow_mut().set_port(*index, None);
            }
            InterfaceEvent::SnapshotBegin | InterfaceEvent::SnapshotEnd => {}
        }
    }

    /// Takes in what the watch saw.
    ///
    /// # Errors
    ///
    /// If the watch ended.
    pub fn sighted(&mut self, sighting: Sighting) -> io::Result<()> {
        match sighting {
            Sighting::Everything { foreign, neighbors } => {
                let mut forwarder = self.forwarder.borrow_mut();
                forwarder.set_foreign(foreign.into_iter());
                forwarder.set_neighbors(&neighbors);
                drop(forwarder);
                self.knows_host = true;
                // A change of a link leads here, and somebody may have taken the flag away.
                let is_wanted = |name: &str| self.program_wishes(name).promiscuity == Promiscuity::Wanted;
                let wanted = self.indices().filter(|(name, _)| is_wanted(name));
                let wanted: Vec<_> = wanted.map(|(_, index)| index).collect();
                wanted.into_iter().for_each(|index| self.write_port(index));
            }
            Sighting::Facts(facts) => {
                let mut forwarder = self.forwarder.borrow_mut();
                for fact in facts {
                    match fact {
                        Fact::Neighbor(interface, address, mac) => {
                            forwarder.set_neighbor(interface, address, mac);
                        }
                        Fact::Foreign(route) => forwarder.add_foreign(route, true),
                        Fact::ForeignGone(route) => forwarder.remove_foreign(route),
                        Fact::Obstacle => {}
                    }
                }
            }
            Sighting::Obstacles(obstacles) => {
                self.report_obstacles(&obstacles);
                self.obstacles = Some(obstacles);
                let all: Vec<_> = self.interfaces.keys().copied().collect();
                all.into_iter().for_each(|index| self.refresh(index));
            }
            Sighting::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// Logs obstacles that are new or gone for a whole family.
    fn report_obstacles(&self, new: &Obstacles) {
        let nothing = Obstacles::default();
        let before = self.obstacles.as_ref().unwrap_or(&nothing);
        for family in Family::ALL {
            for reason in
                new.of_family(family).filter(|reason| !before.of_family(family).any(|r| r == *reason))
            {
                warn!(event = "forwarding.off", %family, reason, "the kernel forwards {family}: {reason}");
            }
            if new.of_family(family).next().is_none() && before.of_family(family).next().is_some() {
                info!(event = "forwarding.on", %family, "the fast path forwards {family} again");
            }
        }
    }

    /// Attaches to an interface or detaches from it, and writes its entries, as the facts are now.
    fn refresh(&mut self, index: InterfaceIndex) {
        let Some(host) = self.interfaces.get(&index) else { return };
        let unfit = match &self.obstacles {
            Some(obstacles) => obstacles.unfit(&host.interface),
            None => Obstacles::default().unfit(&host.interface),
        };
        let refusal = match unfit {
            Some(reason) => {
                self.detach(index);
                Some(reason)
            }
            None => match self.chain.attach(index, &host.interface.name) {
                Ok(()) => None,
                Err(error) => Some(error.to_string()),
            },
        };
        let Some(host) = self.interfaces.get_mut(&index) else { return };
        if host.refusal != refusal
            && let Some(reason) = &refusal
        {
            let name = &host.interface.name;
            info!(
                event = "forwarding.no-port",
                interface = name,
                reason,
                "the kernel forwards for {name}: {reason}"
            );
        }
        host.refusal = refusal;
        self.write_port(index);
    }

    fn detach(&mut self, index: InterfaceIndex) {
        if let Err(error) = self.chain.detach(index) {
            warn!(%error, "a pinned link stays");
        }
    }

    /// Writes an interface's entries for received and for sent packets.
    fn write_port(&mut self, index: InterfaceIndex) {
        let Some(host) = self.interfaces.get(&index) else { return };
        let mac = mac(&host.interface).filter(|_| host.refusal.is_none());
        // An earlier process's program goes on where the fast path is on: the kernel may not have the routes.
        let earlier = mac.map_or(0, |mac| self.chain.flags(index, mac));
        let promiscuous = self.follow_promiscuity(index, earlier, mac.is_some());
        let (Some(mac), Some(host)) = (mac, self.interfaces.get(&index)) else {
            self.forwarder.borrow_mut().set_port(index, None);
            return;
        };
        let sends = host.interface.running && self.sent_reasons(index).is_empty();
        let port = Port { mac, mtu: host.interface.mtu, sends };
        self.forwarder.borrow_mut().set_port(index, Some(port));
        let on = |family, flag| {
            let is_free = self.obstacles.is_none() || self.received_reasons(index, family).is_empty();
            is_free && (self.is_live || earlier & flag != 0)
        };
        let flag = |family, flag| if on(family, flag) { flag } else { 0 };
        let flags = flag(Family::Ipv4, PORT_IPV4) | flag(Family::Ipv6, PORT_IPV6) | promiscuous;
        let skipped = self.program_wishes(&host.interface.name).skipped;
        self.chain.set_port(index, mac, flags, skipped);
    }

    fn program_wishes(&self, interface: &str) -> ProgramWishes {
        self.program_wishes.get(interface).copied().unwrap_or(self.program_wishes_elsewhere)
    }

    /// Makes an interface promiscuous as programs wish, or takes that back. Only ports become promiscuous. Returns the flag of the
    /// interface's entry.
    fn follow_promiscuity(&mut self, index: InterfaceIndex, earlier: u32, is_port: bool) -> u32 {
        let Some(host) = self.interfaces.get(&index) else { return 0 };
        let is_own = host.is_promiscuous || earlier & PORT_PROMISCUOUS != 0;
        let wish = match self.program_wishes(&host.interface.name).promiscuity {
            Promiscuity::Wanted if !is_port => Promiscuity::Kept,
            wish => wish,
        };
        let step = wish.step(is_own, || promiscuity::is_on(&self.writer, index));
        let done = step.and_then(|step| {
            step.set.map_or(Ok(()), |is_on| promiscuity::set(&self.writer, index, is_on))?;
            Ok(step.is_own)
        });
        let is_own = done.unwrap_or_else(|error| {
            let name = &host.interface.name;
            warn!(%error, interface = name, "{name} may not receive frames for all stations: {error}");
            is_own
        });
        if let Some(host) = self.interfaces.get_mut(&index) {
            host.is_promiscuous = is_own;
        }
        if is_own { PORT_PROMISCUOUS } else { 0 }
    }

    /// Takes back what this FEA and earlier ones changed at interfaces: the fast path ends.
    pub fn release(&mut self) {
        self.set_program_wishes(
            BTreeMap::new(),
            ProgramWishes { skipped: 0, promiscuity: Promiscuity::Unwanted },
        );
    }

    fn sent_reasons(&self, index: InterfaceIndex) -> Vec<String> {
        let reasons = self.obstacles.iter().flat_map(|obstacles| obstacles.sent(index));
        reasons.map(str::to_owned).collect()
    }

    fn received_reasons(&self, index: InterfaceIndex, family: Family) -> Vec<String> {
        let Some(obstacles) = &self.obstacles else { return vec!["the host is not known yet".into()] };
        obstacles.received(index, family).map(str::to_owned).collect()
    }

    /// Does what follows from the last inputs: asks the kernel to resolve neighbors, and goes live once the tables are complete, if
    /// `may_go_live`.
    /// Returns a grace period to wait for, if numbers of the tables wait to be free again.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the program in its slot.
    pub fn settle(&mut self, may_go_live: bool) -> Result<Option<Grace>, BpfError> {
        let wishes = self.forwarder.borrow_mut().take_wishes();
        if !wishes.is_empty() {
            self.wish(&wishes);
        }
        let is_complete = self.forwarder.borrow().is_complete();
        let is_due = !self.is_live && !self.is_refused && may_go_live;
        if is_due && is_complete && self.knows_host && self.obstacles.is_some() {
            // A refusal is not tried again: the next process may have more luck.
            self.is_refused = true;
            self.chain.go_live(&self.ip)?;
            self.is_refused = false;
            self.is_live = true;
            let all: Vec<_> = self.interfaces.keys().copied().collect();
            all.into_iter().for_each(|index| self.write_port(index));
            info!(event = "forwarding.live", "the fast path forwards");
        }
        Ok(self.forwarder.borrow_mut().tables_mut().begin_grace())
    }

    /// Carries on the audit, and reports at the end of a cycle. Returns true if the cycle goes on.
    pub(super) fn audit_slice(&mut self) -> bool {
        if !self.is_live {
            return false;
        }
        let is_done = self.forwarder.borrow_mut().tables_mut().audit(&mut self.audit.tables, audit::SLICE);
        if is_done {
            let ports = self.chain.audit_ports();
            self.audit.ports += ports.len() as u64;
            self.audit.port = ports.into_iter().next();
            self.audit.report();
        }
        !is_done
    }

    /// Returns the audit's state.
    pub(super) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Notes that every program run has ended that was under way when the grace period began.
    pub fn end_grace(&mut self, grace: Grace) {
        self.forwarder.borrow_mut().tables_mut().end_grace(grace);
    }

    /// Returns true if an operator or a protocol has set the link-layer address of a neighbor.
    fn is_fixed(&self, interface: InterfaceIndex, address: IpAddr) -> bool {
        let mut query = Messages::default();
        facts::push_neighbor_query(&mut query, interface, address);
        let mut is_fixed = false;
        let asked = self.writer.request(&query, |message| {
            is_fixed = facts::is_fixed_neighbor(message);
            ControlFlow::Break(())
        });
        asked.is_ok() && is_fixed
    }

    /// Asks the kernel to keep neighbors resolved. A refusal leaves the neighbor to the kernel's own resolution.
    fn wish(&mut self, wishes: &[NeighborWish]) {
        let mut messages = Messages::default();
        for wishes in wishes.chunks(128) {
            messages.clear();
            for wish in wishes {
                match *wish {
                    NeighborWish::Watch(interface, address) if self.is_fixed(interface, address) => {}
                    NeighborWish::Watch(interface, address) => {
                        facts::push_managed(&mut messages, interface, address);
                    }
                    NeighborWish::Forget(interface, address) => {
                        let is_known = self.forwarder.borrow().neighbor(interface, address).is_some();
                        facts::push_unmanaged(&mut messages, interface, address, is_known);
                    }
                }
            }
            if let Err(error) = self.writer.send(messages.octets()) {
                warn!(%error, "the kernel does not keep neighbors resolved");
            }
            // Answers are refusals of neighbors on interfaces that are down or gone.
            while let Ok(Some(_)) = self.writer.receive(&mut self.buffer) {}
        }
    }

    /// Returns the names of the interfaces.
    pub fn names(&self) -> Vec<String> {
        self.interfaces.values().map(|host| host.interface.name.clone()).collect()
    }

    /// Returns the names and indices of the interfaces.
    pub fn indices(&self) -> impl Iterator<Item = (&str, InterfaceIndex)> {
        self.interfaces.iter().map(|(index, host)| (host.interface.name.as_str(), *index))
    }

    /// Sets the wishes of programs, by the interfaces' names and for interfaces without an entry.
    pub(crate) fn set_program_wishes(
        &mut self,
        wishes: BTreeMap<String, ProgramWishes>,
        elsewhere: ProgramWishes,
    ) {
        if (&self.program_wishes, self.program_wishes_elsewhere) == (&wishes, elsewhere) {
            return;
        }
        (self.program_wishes, self.program_wishes_elsewhere) = (wishes, elsewhere);
        let all: Vec<_> = self.interfaces.keys().copied().collect();
        all.into_iter().for_each(|index| self.write_port(index));
    }

    /// Returns the state of the interfaces, by name.
    pub fn ports(&self) -> Vec<PortReport> {
        let report = |(index, host): (&InterfaceIndex, &HostInterface)| PortReport {
            name: host.interface.name.clone(),
            index: *index,
            number: self.chain.number(*index).filter(|_| host.refusal.is_none()),
            refusal: host.refusal.clone(),
            received: Family::ALL.map(|family| (family, self.received_reasons(*index, family))).into(),
            sent: self.sent_reasons(*index),
        };
        self.interfaces.iter().map(report).collect()
    }
}

fn mac(interface: &Interface) -> Option<Mac> {
    interface.mac.as_slice().try_into().ok().map(Mac).filter(|mac| *mac != Mac([0; 6]))
}
