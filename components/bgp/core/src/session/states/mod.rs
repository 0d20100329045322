//! The states, one a file; each takes an event and says what follows (RFC 4271, section 8.2.2).

pub mod connecting;
pub mod established;
pub mod idle;
pub mod open_confirm;
pub mod open_sent;
