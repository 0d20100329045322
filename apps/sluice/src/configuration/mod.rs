//! Commands that change the configuration.

pub mod configure;
pub mod drain;
pub mod effects;
pub mod keeping;
pub mod one_shot;
pub mod parts;
pub mod policy_test;
pub mod upgrade_check;
pub mod waiting;
