//! Elements of the measured router: balancers with maps filled by the cluster's core, and budgets that cap elements.

use anyhow::{Context, Result, ensure};
use sluice_base::{Instant, InterfaceIndex};
use sluice_bpf::array::MappedArray;
use sluice_bpf::{Embedded, Link, Loaded, Loader};
use sluice_cluster::balancer::{Balancer, Input, Output};
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::mac::Mac;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster_process::maps::ProgramMaps;
use sluice_machine::{Machine, Outbox};
use std::collections::BTreeSet;
use std::time::Duration;

/// The numbers of routers begin here.
pub const FIRST_ROUTER: u16 = 11;

/// The budget that an element may spend at once, as a time: polls take many frames at a time.
const BURST: Duration = Duration::from_millis(20);

/// An outer port of a balancer.
#[derive(Clone, Copy)]
pub struct Port {
    /// The number.
    pub number: u16,
    /// The element that has the port.
    pub balancer: u16,
    /// The virtual MAC address.
    pub mac: [u8; 6],
}

/// A balancer, with its program in this process.
pub struct Front {
    /// The loaded program.
    pub program: Loaded,
    maps: ProgramMaps,
    machine: Balancer,
}

impl Front {
    /// Fills the maps of a loaded program: round robin over `routers` routers, as in the paper.
    pub fn new(program: Loaded, element: u16, ports: &[Port], routers: u16) -> Result<Self> {
        let maps = ProgramMaps::new(|name| program.map(name))?;
        let machine = Balancer::new(id(element)?, 7, maps.found());
        let mut front = Front { program, maps, machine };
        let mut policy = Policy::new([(0, ClassPolicy { mode: Mode::RoundRobin, role: Role::Router })], [])?;
        policy.silence = None;
        front.input(Input::Policy(policy))?;
        front.input(Input::Inventory(inventory(ports, routers)?))?;
        front.serve_by(routers)?;
        Ok(front)
    }

    /// Leads packets to the first `routers` routers.
    pub fn serve_by(&mut self, routers: u16) -> Result<()> {
        let serving: Result<BTreeSet<ElementId>> = (0..routers).map(|n| id(FIRST_ROUTER + n)).collect();
        self.input(Input::InService(serving?))
    }

    /// Gives an input to the machine and carries out its stores.
    pub fn input(&mut self, input: Input) -> Result<()> {
        let mut out = Outbox::new();
        self.machine.handle(Instant::ZERO, input, &mut out);
        for output in out.drain() {
            let Output::Store(store) = output else { continue };
            ensure!(self.maps.store(store), "a store beyond the maps: {store:?}");
        }
        Ok(())
    }

    /// Makes an interface the outer port `number`.
    pub fn outer(&mut self, number: u16, interface: InterfaceIndex) -> Result<()> {
        self.input(Input::Outer(port(number)?, Some(interface)))
    }

    /// Learns a neighbor behind a port.
    pub fn neighbor(&mut self, mac: [u8; 6], number: u16) -> Result<()> {
        self.input(Input::Neighbor(Mac(mac), [port(number)?].into()))
    }
}

fn id(number: u16) -> Result<ElementId> {
    ElementId::new(number).context("an element without a number")
}

fn port(number: u16) -> Result<PortNumber> {
    PortNumber::new(number).context("a port without a number")
}

fn inventory(ports: &[Port], routers: u16) -> Result<Inventory> {
    let element = |number: u16, role: Role, ports: Vec<OuterPort>| -> Result<Element> {
        Ok(Element { id: id(number)?, name: number.to_string(), roles: [role].into(), weight: 1, ports })
    };
    let mut inventory = Inventory::default();
    let balancers: BTreeSet<u16> = ports.iter().map(|port| port.balancer).collect();
    for balancer in balancers {
        let own = ports.iter().filter(|port| port.balancer == balancer);
        let own = own.map(|own| -> Result<OuterPort> {
            Ok(OuterPort { number: port(own.number)?, interface: "outer".into(), mac: Mac(own.mac) })
        });
        let element = element(balancer, Role::Balancer, own.collect::<Result<_>>()?)?;
        inventory.put(element).map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    for number in 0..routers {
        let element = element(FIRST_ROUTER + number, Role::Router, Vec::new())?;
        inventory.put(element).map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    Ok(inventory)
}

/// Frames of a budget since it began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// Frames within the budget.
    pub within: u64,
    /// Frames beyond the budget, which were dropped.
    pub beyond: u64,
}

/// A budget of frames at an interface.
pub struct Budget {
    program: Loaded,
    budgets: MappedArray,
    link: Option<Link>,
}

impl Budget {
    /// Loads a budget of `rate` frames a second. `prepared` adds the maps of a chain that goes on behind the budget.
    pub fn load(rate: f64, ends: bool, prepared: impl FnOnce(Loader) -> Loader) -> Result<Self> {
        let cost = (1e9 / rate) as u64;
        let loader = Loader::new(Embedded::Budget)
            .constant_u64("cost", cost)
            .constant_u64("burst", BURST.as_nanos() as u64)
            .constant_u32("ends", ends.into());
        let program = prepared(loader).load()?;
        let budgets = MappedArray::new(program.map("budgets")?)?;
        Ok(Budget { program, budgets, link: None })
    }

    /// Attaches the program to an interface of this thread's network namespace.
    pub fn attach(&mut self, interface: &str) -> Result<()> {
        self.link = Some(Link::attach(interface, self.program.program())?);
        Ok(())
    }

    /// Returns the frames so far.
    pub fn spent(&self) -> Spent {
        let word = |word| self.budgets.load64(0, word).unwrap_or_default();
        Spent { within: word(1), beyond: word(2) }
    }
}
