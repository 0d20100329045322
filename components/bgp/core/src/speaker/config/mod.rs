//! The configuration of a router's BGP, as control takes it. Every value has been validated by the schema.

pub(super) mod add_path;
pub(super) mod aggregate;
pub(super) mod bindings;
pub(super) mod change;
pub(super) mod default_originate;
pub(super) mod graceful_restart;
pub(super) mod identity;
pub(super) mod injection;
pub(super) mod listen_range;
pub(super) mod maximum_prefixes;
pub(super) mod neighbor;
pub(super) mod redistribute;
pub(super) mod router;

#[cfg(test)]
mod tests;
