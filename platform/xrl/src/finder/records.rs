//! The Finder's records of clients and targets.

use super::acl::Identity;
use super::life::{Life, LifeQueue};
use crate::XrlError;
use crate::idl::finder::v1::{Endpoint, InterfaceOffer, TransportFamily};
use crate::wire::frame::Key;
use crate::wire::kill;
use crate::wire::seal::Seal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Octets of a class, instance, interface or method name.
pub(super) const MAX_NAME: usize = 128;

/// A connection, by its number from the process.
pub(crate) type ClientId = u64;

/// The subject of a watch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Subject {
    Class(String),
    Instance(String),
}

impl Subject {
    pub(crate) fn covers(&self, life: &Life) -> bool {
        match self {
            Subject::Class(class) => *class == life.class,
            Subject::Instance(instance) => *instance == life.instance,
        }
    }
}

pub(super) struct Client {
    pub(super) identity: Identity,
    pub(super) pid: u32,
    pub(super) uid: u32,
    pub(super) watches: BTreeSet<Subject>,
    /// The requested name, and the answered instance.
    pub(super) resolved: BTreeMap<String, String>,
    pub(super) lives: LifeQueue,
    pub(super) invalid: BTreeSet<String>,
    /// Grants that were taken away, for a client with targets.
    pub(super) revoked: VecDeque<u64>,
}

pub(super) struct MethodRecord {
    pub(super) name: String,
    pub(super) families: Vec<i32>,
    pub(super) reads: bool,
}

pub(super) struct InterfaceRecord {
    pub(super) name: String,
    pub(super) methods: Vec<MethodRecord>,
    pub(super) descriptors: Rc<[u8]>,
}

impl From<InterfaceOffer> for InterfaceRecord {
    fn from(offer: InterfaceOffer) -> Self {
        let methods = offer.methods.into_iter();
        let methods =
            methods.map(|m| MethodRecord { name: m.name, families: m.families, reads: m.reads }).collect();
        InterfaceRecord { name: offer.name, descriptors: offer.descriptors.into(), methods }
    }
}

pub(super) struct TargetRecord {
    pub(super) life: Life,
    pub(super) owner: ClientId,
    pub(super) singleton: bool,
    pub(super) enabled: bool,
    /// The order of registration; the first instance answers for its class.
    pub(super) order: u64,
    pub(super) cookie: Key,
    pub(super) seal: Seal,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) interfaces: Vec<InterfaceRecord>,
}

impl TargetRecord {
    pub(super) fn method(&self, interface: &str, method: &str) -> Option<&MethodRecord> {
        let interface = self.interfaces.iter().find(|i| i.name == interface)?;
        interface.methods.iter().find(|m| m.name == method)
    }

    /// Returns true for a method that only reads, as registered by the target.
    pub(super) fn reads(&self, interface: &str, method: &str) -> bool {
        self.method(interface, method).is_some_and(|method| method.reads)
    }

    /// Returns the endpoints by which a method is called. `name` is the caller's name of the target, for errors.
    pub(super) fn endpoints_of(
        &self,
        name: &str,
        interface: &str,
        method: &str,
    ) -> Result<Vec<Endpoint>, XrlError> {
        let is_kill = |e: &Endpoint| e.family() == TransportFamily::Kill;
        if interface == kill::INTERFACE && method == kill::METHOD {
            return Ok(self.endpoints.iter().filter(|e| is_kill(e)).cloned().collect());
        }
        let found = self.interfaces.iter().find(|i| i.name == interface);
        let found = found.ok_or_else(|| XrlError::UnknownInterface(format!("{name}/{interface}")))?;
        let found = found.methods.iter().find(|m| m.name == method);
        let found = found.ok_or_else(|| XrlError::UnknownMethod(format!("{name}/{interface}/{method}")))?;
        let is_offered =
            |e: &&Endpoint| !is_kill(e) && (found.families.is_empty() || found.families.contains(&e.family));
        Ok(self.endpoints.iter().filter(is_offered).cloned().collect())
    }

    /// Octets of the descriptions of its interfaces.
    pub(super) fn described(&self) -> usize {
        self.interfaces.iter().map(|interface| interface.descriptors.len()).sum()
    }
}
