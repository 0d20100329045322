//! What differs between two configurations, for operators and for components: comparisons, shares, steps, and refusals.

pub mod change;
pub mod compare;
pub mod comparison;
pub mod effective;
pub mod kept;
pub mod local;
pub mod mark_changes;
pub mod ports;
pub mod refusal;
pub mod steps;
pub mod upgrade;
