//! What a process of a simulated router is: a trait, a registry of classes, and messages of any type.

use super::{Base, Configuration, bgp, fea, rib, statics};
use crate::tcp::EndRef;
use crate::world::Fabric;
use serde::{Deserialize, Serialize};
use sluice_base::{Instant, TableId, class_of, component_name, instance_of};
use std::any::Any;
use std::fmt::{self, Debug};
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

/// The classes, in the manager's starting order. A new protocol needs its file and an entry here.
static CLASSES: [&Class; 4] = [&fea::CLASS, &rib::CLASS, &statics::CLASS, &bgp::CLASS];

/// The largest number of processes of a class: the process without an instance, and the named instances.
const INSTANCES: usize = 3;

/// A process of a router: a class of the registry, and the number of the instance; 0 for the process that runs without one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProcessId {
    instance: u8,
    class: u8,
}

impl ProcessId {
    /// The number of classes.
    pub const CLASSES: usize = CLASSES.len();
    /// The number of processes that a router may have.
    pub const COUNT: usize = CLASSES.len() * INSTANCES;
    /// The forwarding engine abstraction.
    pub const FEA: ProcessId = ProcessId { instance: 0, class: 0 };
    /// The routing information base.
    pub const RIB: ProcessId = ProcessId { instance: 0, class: 1 };

    /// Iterates over the processes without an instance, one of each class, in the order in which the manager starts them.
    pub fn single() -> impl Iterator<Item = ProcessId> {
        (0..Self::CLASSES as u8).map(|class| ProcessId { instance: 0, class })
    }

    /// Iterates over every process that a router may have.
    pub fn all() -> impl Iterator<Item = ProcessId> {
        (0..INSTANCES as u8).flat_map(|instance| Self::single().map(move |id| ProcessId { instance, ..id }))
    }

    /// Returns the process of a class's name, or of an instance's name (`static@1`).
    pub fn named(name: &str) -> Option<ProcessId> {
        let class = Self::single().find(|id| id.class().name == class_of(name))?;
        let instance = instance_of(name).map_or(Ok(0), str::parse).ok()?;
        (usize::from(instance) < INSTANCES).then_some(ProcessId { instance, ..class })
    }

    /// The description of the class.
    pub fn class(self) -> &'static Class {
        CLASSES[usize::from(self.class)]
    }

    /// The number of the instance.
    pub fn instance(self) -> usize {
        self.instance.into()
    }

    /// The process's name.
    pub fn name(self) -> String {
        let instance = (self.instance > 0).then(|| self.instance.to_string());
        component_name(self.class().name, instance.as_deref())
    }

    /// The routing table of the process.
    pub fn table(self) -> TableId {
        match self.instance {
            0 => TableId::MAIN,
            instance => TableId(100 + u32::from(instance)),
        }
    }

    /// The place in tables that have an entry for each process.
    pub const fn place(self) -> usize {
        self.instance as usize * CLASSES.len() + self.class as usize
    }
}

/// A name is no process's.
#[derive(Clone, Debug)]
pub struct UnknownProcess(String);

impl fmt::Display for UnknownProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = ProcessId::single().map(ProcessId::name).collect();
        write!(f, "`{}` is no process; expected one of {}", self.0, names.join(", "))
    }
}

impl TryFrom<String> for ProcessId {
    type Error = UnknownProcess;

    fn try_from(name: String) -> Result<Self, UnknownProcess> {
        Self::named(&name).ok_or(UnknownProcess(name))
    }
}

impl From<ProcessId> for String {
    fn from(id: ProcessId) -> Self {
        id.name()
    }
}

/// A life of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instance {
    /// The process.
    pub process: ProcessId,
    /// The number of the life, incremented at each start.
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

/// A call or a reply between two processes: a message of an XRL interface. Each interface is a type of its own, in
/// [`super::messages`] or in the file of the serving protocol.
pub trait Message: Any + Debug + Send {}

impl<T: Any + Debug + Send> Message for T {}

/// An event of a TCP connection.
#[derive(Clone, Copy, Debug)]
pub enum TcpEvent {
    /// A neighbor asks for a connection.
    Asked(EndRef),
    /// A connection requested by the router is established.
    Connected(EndRef),
    /// Octets, or the end of the connection, can be read.
    Readable(EndRef),
    /// The connection takes octets again.
    Writable(EndRef),
}

impl TcpEvent {
    /// The connection.
    pub const fn end(self) -> EndRef {
        match self {
            TcpEvent::Asked(end)
            | TcpEvent::Connected(end)
            | TcpEvent::Readable(end)
            | TcpEvent::Writable(end) => end,
        }
    }
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

/// Returns a message as a word of interface `T`, or gives it back.
pub fn word<T: Message>(message: Box<dyn Message>) -> Result<T, Box<dyn Message>> {
    if (message.as_ref() as &dyn Any).is::<T>() {
        let any: Box<dyn Any> = message;
        return any.downcast().map(|word| *word).map_err(|_| unreachable!("the type was looked at"));
    }
    Err(message)
}
