//! The router manager: the pure core.
//!
//! Decides which component is started, configured, restarted or stopped, and when. The core spawns nothing and waits
//! for nothing: the manager's process reports the events of processes as inputs, and carries out the outputs.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod backoff;
pub mod commit;
pub mod component;
pub mod confirmation;
pub mod crash_budget;
pub mod editors;
pub mod event;
pub mod handover;
pub mod machine;
pub mod output;
pub mod roles;
pub mod shares;
pub mod watchdog;

pub use component::{Phase, Spec};
pub use crash_budget::CrashBudget;
pub use event::Event;
pub use machine::{End, Input, Manager, Output};

/// The reason given by a process, in its own words. The manager reports the reason and bases no decision on the text.
pub type Reason = alloc::string::String;
