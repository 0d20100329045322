//! Commands about the life of the router and of its components.

pub mod confine;
pub mod process;
mod refresh;
pub mod restart;
pub mod status;
pub mod stop;
