//! The roster: the administrative states of elements, which all elements share through the store. An operator drains, removes and replaces
//! elements while the configuration of all elements stays as it is.
//!
//! The value of the key [`KEY`] in the store is the whole roster. A writer replaces the value only if nobody else has changed the value since
//! the writer's read. An element that the roster does not name is in service, and runs on the first machine.

use crate::inventory::{ElementId, Inventory, Role};
use crate::settings::Settings;
use crate::stream::wire::{self, DecodeError};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The key of the roster in the store.
pub const KEY: &str = "roster";
/// The number of an element's first machine.
pub const FIRST_MACHINE: u32 = 1;

/// The most machines of an element whose certificates are named as revoked.
pub(crate) const MOST_REVOKED: u32 = 256;

/// Returns the serial number of a machine's certificates (RFC 5280, section 4.1.2.2): by it the servers of the store refuse the certificates of
/// machines that were replaced. A renewed certificate has the number of the one before.
pub fn serial_number(element: ElementId, machine: u32) -> [u8; 8] {
    let mut number = [0x5c, 1, 0, 0, 0, 0, 0, 0];
    let octets = element.number().to_be_bytes().into_iter().chain(machine.to_be_bytes());
    number.iter_mut().skip(2).zip(octets).for_each(|(to, from)| *to = from);
    number
}

/// The administrative state of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdminState {
    /// True if the element gets no packets, and is not the control plane.
    pub drained: bool,
    /// True if the element belongs to the cluster no more.
    pub removed: bool,
    /// The number of the machine that is the element, from 1. Certificates of earlier machines are refused.
    pub machine: u32,
}

impl Default for AdminState {
    fn default() -> Self {
        AdminState { drained: false, removed: false, machine: FIRST_MACHINE }
    }
}

/// A change of an element's administrative state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The element gets no packets any more.
    Drain,
    /// The element gets packets again.
    Undrain,
    /// The element leaves the cluster.
    Remove,
    /// Another machine is the element from now on. The element is drained until [`Change::Undrain`].
    Replace,
}

/// The reason against a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RosterError {
    /// The configuration has no such element.
    Unknown(ElementId),
    /// The element was removed.
    Removed(ElementId),
    /// A balancer with outer ports: neighbors send to the ports, whatever the cluster does.
    HasPorts(ElementId),
    /// No other element in service has the role.
    Last(ElementId, Role),
    /// The configuration drains the element.
    Configured(ElementId),
    /// The element gets packets.
    InService(ElementId),
    /// The element runs the only server of the store.
    LastServer(ElementId),
}

impl fmt::Display for RosterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RosterError::Unknown(id) => {
                write!(f, "there is no element {id}; `sluice show cluster` lists all")
            }
            RosterError::Removed(id) => write!(
                f,
                "element {id} was removed; `sluice cluster replace {id}` puts a machine in its place"
            ),
            RosterError::HasPorts(id) => write!(
                f,
                "element {id} has outer ports, and neighbors send to the ports: move the ports to another balancer first"
            ),
            RosterError::Last(id, role) => write!(
                f,
                "no other element in service has the role {}: packets would be lost without element {id}",
                role.name()
            ),
            RosterError::Configured(id) => {
                write!(f, "the configuration drains element {id}: delete cluster member {id} drained")
            }
            RosterError::InService(id) => {
                write!(f, "element {id} is in service: `sluice cluster drain {id}` first")
            }
            RosterError::LastServer(id) => write!(
                f,
                "element {id} runs the only server of the store: name other members of the store first"
            ),
        }
    }
}

impl core::error::Error for RosterError {}

/// The administrative states by element.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Roster(BTreeMap<ElementId, AdminState>);

impl Roster {
    /// Writes the value.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another version, or malformed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        wire::decode(octets)
    }

    /// Returns the state of an element.
    pub fn state(&self, element: ElementId) -> AdminState {
        self.0.get(&element).copied().unwrap_or_default()
    }

    /// Iterates over the elements with a state other than the initial one.
    pub fn iter(&self) -> impl Iterator<Item = (ElementId, AdminState)> + '_ {
        self.0.iter().map(|(element, state)| (*element, *state))
    }

    /// Returns the roster after a change. `configured` is the configuration without a roster, and `in_service` the elements that get packets.
    /// A change that was made before changes nothing, except that each [`Change::Replace`] is another machine.
    ///
    /// # Errors
    /// Packets would be lost, or the configuration contradicts the change.
    pub fn changed(
        &self,
        configured: &Settings,
        in_service: &BTreeSet<ElementId>,
        element: ElementId,
        change: Change,
    ) -> Result<Self, RosterError> {
        let known = configured.inventory.get(element).ok_or(RosterError::Unknown(element))?;
        let mut state = self.state(element);
        if state.removed && matches!(change, Change::Drain | Change::Undrain) {
            return Err(RosterError::Removed(element));
        }
        match change {
            Change::Drain => {
                if !known.ports.is_empty() {
                    return Err(RosterError::HasPorts(element));
                }
                let is_needed = |role: &Role| {
                    *role == Role::Control
                        || configured.policy.classes().any(|(_, class)| class.role == *role)
                };
                let of_element = known.roles.iter().copied().filter(is_needed);
                let last = of_element
                    .filter(|_| in_service.contains(&element))
                    .find(|role| !has_other(&configured.inventory, in_service, element, *role));
                if let Some(role) = last {
                    return Err(RosterError::Last(element, role));
                }
                state.drained = true;
            }
            Change::Undrain if configured.drained.contains(&element) => {
                return Err(RosterError::Configured(element));
            }
            Change::Undrain => state.drained = false,
            Change::Remove | Change::Replace => {
                let is_remove = change == Change::Remove;
                if is_remove && !known.ports.is_empty() {
                    return Err(RosterError::HasPorts(element));
                }
                let gets_packets = !known.roles.contains(&Role::Balancer) || !known.ports.is_empty();
                if gets_packets && in_service.contains(&element) {
                    return Err(RosterError::InService(element));
                }
                self.check_servers(configured, element)?;
                state = match is_remove {
                    true => AdminState { removed: true, ..state },
                    // A balancer's ports serve as soon as the new machine runs.
                    false => AdminState {
                        drained: known.ports.is_empty(),
                        removed: false,
                        machine: state.machine.saturating_add(1),
                    },
                };
            }
        }
        let mut after = self.clone();
        after.0.insert(element, state);
        after.0.retain(|_, state| *state != AdminState::default());
        Ok(after)
    }

    /// Checks that the store keeps a server without the element.
    fn check_servers(&self, configured: &Settings, element: ElementId) -> Result<(), RosterError> {
        let Some(store) = &configured.store else { return Ok(()) };
        let mut others =
            store.members.keys().filter(|other| **other != element && !self.state(**other).removed);
        let is_last = store.members.contains_key(&element) && others.next().is_none();
        if is_last { Err(RosterError::LastServer(element)) } else { Ok(()) }
    }

    /// Returns the machines whose certificates are refused: those before an element's present machine, and all of removed elements; the
    /// newest [`MOST_REVOKED`] of each element.
    pub fn revoked(&self) -> BTreeSet<(ElementId, u32)> {
        let of = |(element, state): (ElementId, AdminState)| {
            let end = if state.removed { state.machine.saturating_add(1) } else { state.machine };
            let first = end.saturating_sub(MOST_REVOKED).max(FIRST_MACHINE);
            (first..end).map(move |machine| (element, machine))
        };
        self.iter().flat_map(of).collect()
    }

    /// Returns the roster with another element's statement about this one: the number of the present machine, and whether the element was
    /// removed.
    pub fn with_standing(&self, element: ElementId, machine: u32, removed: bool) -> Self {
        let mut after = self.clone();
        let state = self.state(element);
        after.0.insert(element, AdminState { machine: machine.max(state.machine), removed, ..state });
        after
    }

    /// Returns the configuration by which an element works: without removed elements, and without drained ones in service. `machine` is the
    /// number of this machine by its certificate, `None` without a certificate: an earlier machine of the element is removed.
    pub fn applied(&self, configured: &Settings, machine: Option<u32>) -> Settings {
        let mut settings = configured.clone();
        for (element, state) in self.iter() {
            let is_earlier = element == settings.element && machine.is_some_and(|own| own < state.machine);
            if state.drained {
                settings.drained.insert(element);
            }
            if state.removed || is_earlier {
                settings.remove(element);
            }
        }
        settings
    }
}

/// Returns true if another element with the role gets packets.
fn has_other(
    inventory: &Inventory,
    in_service: &BTreeSet<ElementId>,
    element: ElementId,
    role: Role,
) -> bool {
    inventory.with_role(role).any(|other| other.id != element && in_service.contains(&other.id))
}
