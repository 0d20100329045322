//! What a process of a simulated router is: a trait, a registry of classes, and messages of any type.

use super::{Base, Configuration, bgp, fea, rib, statics};
use crate::tcp::EndRef;
use crate::world::Fabric;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;
use std::any::Any;
use std::fmt::Debug;

/// A class of processes, as the manager knows them.
pub struct Class {
    /// The class's name at the Finder, which is also the name of its origin in the RIB.
    pub name: &'static str,
    /// Starts a process of a router with its configuration.
    pub start: fn(&mut Base, &mut Fabric, &Configuration) -> Box<dyn Process>,
    /// True if the process runs in worlds that simulate one protocol alone.
    pub is_in_light_worlds: bool,
    /// True if the router's TCP connections are this process's.
    pub has_connections: bool,
}

/// All classes, in the order in which the manager starts them. A protocol is added by its file and one entry here.
static CLASSES: [&Class; 4] = [&fea::CLASS, &rib::CLASS, &statics::CLASS, &bgp::CLASS];

/// A class, by its place in the registry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct ProcessId(u8);

impl ProcessId {
    /// The number of classes.
    pub const COUNT: usize = CLASSES.len();
    /// The forwarding engine abstraction.
    pub const FEA: ProcessId = ProcessId(0);
    /// The routing information base.
    pub const RIB: ProcessId = ProcessId(1);

    /// Iterates over all classes, in the order in which the manager starts them.
    pub fn all() -> impl Iterator<Item = ProcessId> {
        (0..Self::COUNT as u8).map(ProcessId)
    }

    /// Returns the class with a name.
    pub fn named(name: &str) -> Option<ProcessId> {
        Self::all().find(|id| id.class().name == name)
    }

    /// The class's description.
    pub fn class(self) -> &'static Class {
        CLASSES[usize::from(self.0)]
    }

    /// The class's name.
    pub fn name(self) -> &'static str {
        self.class().name
    }

    /// The place in tables that have an entry for each class.
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<String> for ProcessId {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let names: Vec<&str> = Self::all().map(ProcessId::name).collect();
        Self::named(&name)
            .ok_or_else(|| format!("`{name}` is no process; expected one of {}", names.join(", ")))
    }
}

impl From<ProcessId> for &'static str {
    fn from(id: ProcessId) -> Self {
        id.name()
    }
}

/// One life of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instance {
    /// The class.
    pub process: ProcessId,
    /// The number of the life; each start counts one up.
    pub life: u32,
}

/// An event from the Finder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// The instance registered.
    Born(Instance),
    /// The instance is dead.
    Died(Instance),
}

/// A call or a reply between two processes: a word of an XRL interface. Each interface is a type of its own, in
/// [`super::messages`] or in the file of the protocol that serves it.
pub trait Message: Any + Debug + Send {}

impl<T: Any + Debug + Send> Message for T {}

/// An event of a TCP connection.
#[derive(Clone, Copy, Debug)]
pub enum TcpEvent {
    /// A neighbor asks for a connection.
    Asked(EndRef),
    /// A connection that this router asked for is established.
    Connected(EndRef),
    /// Octets, or the end of the connection, can be read.
    Readable(EndRef),
    /// The connection takes octets again.
    Writable(EndRef),
}

/// A process of a router: a core, driven as its real process drives it.
pub trait Process: Any + Send {
    /// Receives an event from the Finder.
    fn life(&mut self, base: &mut Base, fabric: &mut Fabric, life: Life);

    /// Receives a message of another process.
    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, from: Instance, message: Box<dyn Message>);

    /// Receives an event of a connection.
    fn tcp(&mut self, _base: &mut Base, _fabric: &mut Fabric, _event: TcpEvent) {}

    /// Takes a changed configuration.
    fn configure(&mut self, _base: &mut Base, _fabric: &mut Fabric, _configuration: &Configuration) {}

    /// Works on what has arrived since the last turn.
    fn turn(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// The next moment, on the router's clock, at which the process has something to do.
    fn next_deadline(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Does what is due.
    fn on_deadline(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// Returns true if nothing is left to do but to wait for events from outside.
    fn is_settled(&mut self) -> bool {
        true
    }

    /// The process is killed: the kernel takes back what outlives it.
    fn killed(&mut self, _base: &mut Base, _fabric: &mut Fabric) {}

    /// The router loses power.
    fn power_lost(&mut self, _fabric: &mut Fabric) {}
}

/// Returns a message as a word of interface `T`, or gives it back.
pub fn word<T: Message>(message: Box<dyn Message>) -> Result<T, Box<dyn Message>> {
    if (message.as_ref() as &dyn Any).is::<T>() {
        let any: Box<dyn Any> = message;
        return any.downcast().map(|word| *word).map_err(|_| unreachable!("the type was looked at"));
    }
    Err(message)
}
