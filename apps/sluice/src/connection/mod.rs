//! The connection to the running router, and refusals of its configuration service.

pub mod connect;
pub mod flags;
pub mod refusal;
pub mod session;
pub mod unmanaged;
