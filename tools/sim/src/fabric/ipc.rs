//! Processes by number, and the messages between the processes of a router.

use super::end::EndRef;
use serde::{Deserialize, Serialize};
use sluice_base::TableId;
use std::any::Any;
use std::fmt::Debug;

/// The largest number of processes of a class: the process without an instance, and the named instances.
pub(crate) const INSTANCES: usize = 3;

/// A process of a router: a class of the registry, and the number of the instance; 0 for the process that runs without one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProcessId {
    pub(crate) instance: u8,
    pub(crate) class: u8,
}

impl ProcessId {
    /// The number of classes.
    pub const CLASSES: usize = 4;
    /// The number of processes that a router may have.
    pub const COUNT: usize = Self::CLASSES * INSTANCES;
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

    /// The number of the instance.
    pub fn instance(self) -> usize {
        self.instance.into()
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
        self.instance as usize * Self::CLASSES + self.class as usize
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
/// [`crate::host::messages`] or in the file of the serving protocol.
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

/// Returns a message as a word of interface `T`, or gives it back.
pub fn word<T: Message>(message: Box<dyn Message>) -> Result<T, Box<dyn Message>> {
    if (message.as_ref() as &dyn Any).is::<T>() {
        let any: Box<dyn Any> = message;
        return any.downcast().map(|word| *word).map_err(|_| unreachable!("the type was looked at"));
    }
    Err(message)
}

/// A message on its way to a certain life of a process.
#[derive(Debug)]
pub struct Ipc {
    /// The receiver; if it died meanwhile, the message is lost.
    pub to: Instance,
    /// The contents.
    pub what: IpcWhat,
}

/// The contents of an [`Ipc`].
#[derive(Debug)]
pub enum IpcWhat {
    /// The Finder announces a life or a death.
    Life(Life),
    /// A process calls or replies.
    Message(Instance, Box<dyn Message>),
}
