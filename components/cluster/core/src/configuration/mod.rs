//! The configuration that all elements share: the newest one is a value in the store, and a commit on any element is decided by one write of
//! that value.
//!
//! ```text
//! element with the editor                    other elements
//!   prepare own components
//!   [`offer`] ------------ check ----------->  can the configuration run here?
//!   apply on own components
//!   [`decision`] -- one write -> the store --- watch --> [`keeper`]: take the newest
//!   store the revision
//! ```
//!
//! * The shared part is all of the configuration but the statements that each element keeps for itself.
//! * The write replaces the value only if nobody has replaced the value since the commit began: of two commits one is refused.
//! * Each element takes the newest value, when it is written or when the element returns. An element that fails in between has the old
//!   configuration and takes the newest later.
//! * A commit that has to be confirmed carries the text before. The first element whose wait for a confirmation is over writes that text.
//!
//! The modules have no I/O: the process makes calls and writes.

pub mod decision;
pub mod keeper;
pub mod offer;
pub mod shared;

/// The key of the shared configuration in the store.
pub const KEY: &str = "configuration";
/// The beginning of the keys by which elements report the number of the configuration that they run.
pub const TAKEN: &str = "taken/";
