//! Tables as tasks: what they are told and tell, and listings of their routes for operators.

pub mod table;
