//! The configuration shared by all elements: the newest configuration is a value in the store, and a commit on any element is decided by a single
//! write of the value.
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
//! * The shared part is the whole configuration except local statements, which each element keeps.
//! * The write replaces the value only if the value is unchanged since the commit began: of two commits at a time, the second is refused.
//! * Each element takes the newest value at once, or after a return. An element that fails in between has the old
//!   configuration and takes the newest later.
//! * A commit with a confirmation carries the old text. Without a confirmation in time, the first element to notice writes the old text.
//!
//! The modules have no I/O: the process makes calls and writes.

pub mod decision;
pub mod keeper;
pub mod offer;
pub mod shared;

/// The key of the shared configuration in the store.
pub const KEY: &str = "configuration";
/// The beginning of the keys with the numbers of the elements' running configurations.
pub const TAKEN: &str = "taken/";
