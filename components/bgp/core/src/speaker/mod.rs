//! A router's BGP: the decisions ([`Control`]), and a whole router on one thread ([`Speaker`]).
//!
//! ```text
//! octets -> Intake -+- messages -> Control (Sessions, Questions) -> octets
//!                   |                 |  ^
//!                   |          Orders v  | TableEvent
//!                   +- Batches -> Tables -> change queue -> groups -> Writer -> octets
//!                                       \-> RIB branch -> route batches
//! ```
//!
//! Every box is a separate machine, connected by values: [`Speaker`] passes values on one thread at once; a process may put
//! intakes, writers and tables on threads and pass values by channels.
//!
//! Back-pressure: the driver pulls octets ([`Speaker::fill`]) and route batches ([`Speaker::rib_batch`]) at the receiver's pace.
//! Waiting output does not grow.

mod config;
pub mod control;
mod messages;
mod neighbor;
mod one_thread;
mod peers;
mod questions;
mod rib;
mod settings;
mod sources;

pub use crate::policy::{DefaultPolicy, OriginData};
pub use config::{
    AddPath, AggregateConfig, AsSpan, AsSpanError, Config, DefaultOriginate, FamilyConfig, GracefulRestart,
    Identity, InjectionConfig, LimitAction, ListenRange, MaximumPrefixes, NeighborConfig, PrefixCount,
    Redistribute, SendPaths, Touched,
};
pub use control::Control;
pub use control::handover::SpeakerState;
pub use control::overruns::Overrun;
pub use control::view::{NeighborView, PrefixCounts, Summary};
pub use messages::Link;
pub use neighbor::{LimitStop, RoutesStay};
pub use one_thread::machine::Speaker;
pub use one_thread::messages::{Input, Output, RouterState};
pub use peers::{OPENING, RATE, RangeCounters, RangeView};
pub use rib::{PresenceQuestion, PresenceScope, Redistributed, RedistributedRoute};
pub use settings::{Owner, Scheduling, Settings, SettingsError};
pub use sources::AggregateView;
