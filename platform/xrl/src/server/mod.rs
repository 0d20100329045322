//! Calls received: targets, their methods, connections and their limits.

pub mod accounts;
pub mod connection;
pub mod datagrams;
pub mod guests;
pub mod listener;
pub mod refusals;
pub mod registry;
pub mod service;
pub mod target;
pub mod turns;
