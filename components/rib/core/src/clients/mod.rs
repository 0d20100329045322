//! Clients of the RIB: subscribers, watchers, and owners of origins.

pub mod announced;
pub mod interest;
pub mod presence;
pub mod registrations;
pub mod subscriber;
pub mod subscription;
