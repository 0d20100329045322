//! Tables as tasks, with their messages.

pub mod table;
