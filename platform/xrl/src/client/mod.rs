//! Calls: endpoints, the ways to targets, and the link to the Finder.

pub mod call;
pub mod channel;
pub mod connect;
pub mod connection;
pub mod directory;
pub mod endpoint;
pub mod keeper;
pub mod link;
pub mod lives;
pub mod options;
pub mod registered;
pub mod relay;
pub mod route;
pub mod targets;
pub mod udp;
pub mod watch;
