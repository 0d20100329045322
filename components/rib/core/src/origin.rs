//! Origins: who has routes. An origin is a name registered at run time, with its distance and grace time.

use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{Distance, Duration};

/// An origin's number within its table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OriginId(pub u16);

/// An origin.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its name, unique in the table.
    pub name: String,
    /// The distance of routes that bring none.
    pub distance: Distance,
    /// True if its next hops are resolved through internal routes, and its routes resolve none.
    pub external: bool,
    /// True if its routes are the interfaces' own subnets, which the forwarding engine installs by itself.
    pub connected: bool,
    /// The time for which its routes outlive its process.
    pub grace: Duration,
    /// The names of the kinds of its routes: the first name is of kind 1.
    pub kinds: Vec<String>,
    /// Which life of the process the fresh routes belong to; a route of another generation is stale.
    pub generation: u8,
    /// True while its process is alive.
    pub alive: bool,
    /// True if the origin is removed once its routes are swept.
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
