//! Origins: the owners of routes. An origin is a name registered at run time, with its distance and grace time.

use crate::policy::Chain;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, Duration};

/// The registration of an origin.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OriginSettings {
    /// The origin's name.
    pub name: String,
    /// The distance of routes without a distance of their own.
    pub distance: Distance,
    /// True if the origin declares gateways unusable, and its routes that drop packets resolve no next hops.
    pub external: bool,
    /// The time for which the origin's routes outlive its process.
    pub grace: Duration,
    /// The names of the kinds of the origin's routes: the first name is of kind 1.
    pub kinds: Vec<String>,
}

/// An origin's number within its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OriginId(pub u16);

/// An origin.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The origin's name, unique in the table.
    pub name: String,
    /// The distance of routes without a distance of their own.
    pub distance: Distance,
    /// True for routes learned from other networks, such as BGP's.
    pub external: bool,
    /// True if the origin's routes are the interfaces' own subnets, which the forwarding engine installs by itself.
    pub connected: bool,
    /// The time for which the origin's routes outlive its process.
    pub grace: Duration,
    /// The names of the kinds of the origin's routes: the first name is of kind 1.
    pub kinds: Vec<String>,
    /// The life of the process with the fresh routes; a route of a different generation is stale.
    pub generation: u8,
    /// The policies that the origin's routes pass.
    pub import: Option<Arc<Chain>>,
    /// True while the origin's process is alive.
    pub alive: bool,
    /// True if the origin is removed once its routes are swept.
    pub leaving: bool,
    /// Routes, stale ones included.
    pub routes: u64,
    /// Stale routes.
    pub stale: u64,
    /// What the origin's process wants its next process to know; at most [`MAX_NOTE`] octets.
    pub note: Vec<u8>,
}

/// The largest note of an origin, in octets.
pub const MAX_NOTE: usize = 65_536;

impl Origin {
    /// Makes the present routes stale.
    pub(crate) fn begin_new_life(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.stale = self.routes;
    }
}
