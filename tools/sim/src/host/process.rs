//! What a process of a simulated router is: a trait, a registry of classes, and messages of any type.

use super::{Base, Configuration};
use crate::fabric::ipc::{Instance, Life, Message, TcpEvent};
use crate::world::Fabric;
use sluice_base::Instant;
use std::any::Any;
use std::net::IpAddr;

/// A class of processes, from the manager's view.
pub struct Class {
    /// The class's name at the Finder, which is also the name of its origin in the RIB.
    pub name: &'static str,
    /// Starts a process of a router with its configuration.
    pub start: fn(&mut Base, &mut Fabric, &Configuration) -> Box<dyn Process>,
    /// True if the process runs in worlds that simulate one protocol alone.
    pub is_in_light_worlds: bool,
    /// True if it has TCP connections.
    pub has_connections: bool,
}

/// A process of a router: a core, driven as in its real process.
pub trait Process: Any + Send {
    /// Receives an event from the Finder.
    fn life(&mut self, base: &mut Base, fabric: &mut Fabric, life: Life);

    /// Receives a message of another process.
    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, from: Instance, message: Box<dyn Message>);

    /// Receives an event of a connection.
    fn tcp(&mut self, _base: &mut Base, _fabric: &mut Fabric, _event: TcpEvent) {}

    /// Returns true if connections with the given neighbor are the process's. Called only if several processes have
    /// connections.
    fn serves(&self, _neighbor: IpAddr) -> bool {
        false
    }

    /// Takes a changed configuration.
    fn configure(&mut self, _base: &mut Base, _fabric: &mut Fabric, _configuration: &Configuration) {}

    /// Works on what has arrived since the last turn.
    fn turn(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// The next moment, on the router's clock, at which the process has something to do.
    fn next_deadline(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Handles due timers.
    fn on_deadline(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// Returns true if the process only waits for events from outside.
    fn is_settled(&mut self) -> bool {
        true
    }

    /// Handles a kill: the kernel takes back the resources that outlive the process.
    fn killed(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// The router loses power.
    fn power_lost(&mut self, _fabric: &mut Fabric) {}
}
