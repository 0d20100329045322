//! Tables as tasks: what they are sent and send, and listings of their routes for operators.

pub mod table;
