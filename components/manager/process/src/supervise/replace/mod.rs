//! Processes replaced, restarted and started again.

pub mod error;
pub mod handover;
pub mod restart;
pub mod start_again;
pub mod succession;
