//! The decision: families of a table, their entries on the way to the receivers, and the table.

pub mod any_family;
pub mod candidate;
pub mod candidates;
pub mod export;
pub mod family;
pub mod fib;
pub mod import;
pub mod outcome;
pub mod plugged;
pub mod selected;
pub mod sweep;
pub mod table;
pub mod view;
pub mod walk;
