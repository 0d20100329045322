//! An element: its machine, what the machine shares with other elements, and its parts beside the machine.

pub mod console;
pub mod event;
pub mod front;
pub mod io;
pub mod machine;
pub mod membership;
pub mod publisher;
pub mod replica;
pub mod requests;
pub mod roster;
pub mod server;
pub mod totals;
