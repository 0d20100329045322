//! The interface that BGP serves: the core's views as messages.

mod aggregates;
mod capabilities;
mod damping;
mod dump;
mod explain;
mod filter;
mod hits;
mod interface;
pub mod listing;
mod neighbor;
pub(crate) mod paths;
mod plumbing;
mod ranges;

use sluice_xrl::XrlError;
use std::pin::Pin;

/// The answer to a call, from code for the keys of a family.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, XrlError>> + 'a>>;
