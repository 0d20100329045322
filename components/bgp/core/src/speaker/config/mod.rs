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

pub(crate) use add_path::AddPathStatements;
pub use add_path::{AddPath, SendPaths};
pub use aggregate::AggregateConfig;
pub(crate) use bindings::Bindings;
pub(crate) use change::Reconfigured;
pub use change::Touched;
pub use default_originate::DefaultOriginate;
pub use graceful_restart::GracefulRestart;
pub use identity::Identity;
pub use injection::InjectionConfig;
pub use listen_range::{AsSpan, AsSpanError, ListenRange};
pub(crate) use maximum_prefixes::Stage;
pub use maximum_prefixes::{LimitAction, MaximumPrefixes, PrefixCount};
pub use neighbor::{FamilyConfig, NeighborConfig};
pub use redistribute::Redistribute;
pub use router::Config;
