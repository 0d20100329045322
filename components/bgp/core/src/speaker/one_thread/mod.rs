//! A router's BGP on one thread: control, tables, intakes and writers, with function calls in place of messages.

mod injection;
pub(super) mod machine;
pub(super) mod messages;
mod views;
