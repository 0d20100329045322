//! The configured choice of elements: classes, modes, and the class of each DSCP.

use crate::balancer::words::CLASSES;
use crate::frames::frame::ETHER_TYPE;
use crate::inventory::Role;
use core::fmt;
use core::time::Duration;
use serde::{Serialize, Serializer};

/// The choice of an element for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Mode {
    /// The elements in turn: even load, but packets of a flow overtake each other.
    RoundRobin,
    /// By the flow hash: packets of a flow stay in order.
    Flow,
    /// By the flow hash, with shares in proportion to the elements' weights.
    Weighted,
}

impl Mode {
    /// Returns the mode's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Mode::RoundRobin => "round-robin",
            Mode::Flow => "flow",
            Mode::Weighted => "weighted",
        }
    }
}

/// A class of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ClassPolicy {
    /// The choice among the elements.
    pub mode: Mode,
    /// The role of the elements.
    pub role: Role,
}

/// The silence after which an element is passed over by default: three hello frames.
pub const SILENCE: Duration = Duration::from_millis(30);

/// The configured choice of elements.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Policy {
    classes: [Option<ClassPolicy>; CLASSES],
    #[serde(serialize_with = "in_sequence")]
    dscp: [u8; 64],
    /// The silence after which an element is passed over; `None` if elements send no hello frames.
    pub silence: Option<Duration>,
    /// The EtherTypes of the cluster's frames: two while the EtherType changes; 0 is none.
    pub ether_types: [u16; 2],
}

impl Default for Policy {
    /// One class, in the mode flow, to routers.
    fn default() -> Self {
        let mut classes = [None; CLASSES];
        classes[0] = Some(ClassPolicy { mode: Mode::Flow, role: Role::Router });
        Policy { classes, dscp: [0; 64], silence: Some(SILENCE), ether_types: [ETHER_TYPE, 0] }
    }
}

/// Serializes an array that is longer than serde's own.
fn in_sequence<S: Serializer>(values: &[u8; 64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values)
}

/// A reason against a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyError {
    /// The number of a class is not below [`CLASSES`].
    Number(u8),
    /// A DSCP leads to a class that does not exist.
    NoClass(u8),
    /// The DSCP is larger than 63.
    Dscp(u8),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Number(class) => write!(f, "the class {class} is larger than {}", CLASSES - 1),
            PolicyError::NoClass(class) => write!(f, "there is no class {class}"),
            PolicyError::Dscp(dscp) => write!(f, "the DSCP {dscp} is larger than 63"),
        }
    }
}

impl core::error::Error for PolicyError {}

impl Policy {
    /// Makes a policy with the default silence and EtherType, of classes with their numbers. Packets whose DSCP is not in `dscp` are of
    /// class 0, which is in the mode flow and goes to routers unless `classes` has it.
    ///
    /// # Errors
    ///
    /// If the number of a class is too large, or a DSCP or its class does not exist.
    pub fn new(
        classes: impl IntoIterator<Item = (u8, ClassPolicy)>,
        dscp: impl IntoIterator<Item = (u8, u8)>,
    ) -> Result<Self, PolicyError> {
        let mut policy = Policy::default();
        for (number, class) in classes {
            let place = policy.classes.get_mut(usize::from(number));
            *place.ok_or(PolicyError::Number(number))? = Some(class);
        }
        for (dscp, class) in dscp {
            policy.class(class.into()).ok_or(PolicyError::NoClass(class))?;
            *policy.dscp.get_mut(usize::from(dscp)).ok_or(PolicyError::Dscp(dscp))? = class;
        }
        Ok(policy)
    }

    /// Returns the class of a number, if it exists.
    pub fn class(&self, number: usize) -> Option<ClassPolicy> {
        self.classes.get(number).copied().flatten()
    }

    /// Iterates over the classes with their numbers, in order.
    pub fn classes(&self) -> impl Iterator<Item = (usize, ClassPolicy)> {
        self.classes.iter().enumerate().filter_map(|(number, class)| Some((number, (*class)?)))
    }

    /// Returns the class of each DSCP.
    pub fn dscp(&self) -> &[u8; 64] {
        &self.dscp
    }
}
