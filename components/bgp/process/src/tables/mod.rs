//! Tables as tasks: what they are sent and tell, and listings of their routes for operators.

pub mod table;
