//! Origins: who has routes. An origin is a name registered at run time, with its distance and grace time.

use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{Distance, Duration};

/// An origin's number within its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OriginId(pub u16);

/// What the RIB knows of an origin.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its name, unique in the table.
    pub name: String,
    /// The distance of routes that bring none.
    pub distance: Distance,
    /// Whether its next hops are resolved through internal routes, and it resolves none itself.
    pub external: bool,
    /// Whether its routes are the interfaces' own subnets, which the forwarding engine installs by itself.
    pub connected: bool,
    /// How long its routes outlive its process.
    pub grace: Duration,
    /// The names of the kinds of its routes: the first name is of kind 1.
    pub kinds: Vec<String>,
    /// Which life of the process the fresh routes belong to; a route of another generation is stale.
    pub generation: u8,
    /// Whether its process lives.
    pub alive: bool,
    /// Whether it is to be forgotten once its routes are swept.
    pub leaving: bool,
    /// Routes, stale ones included.
    pub routes: u64,
    /// Stale routes.
    pub stale: u64,
}

impl Origin {
    /// Makes all present routes stale.
    pub fn begin_new_life(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.stale = self.routes;
    }
}
