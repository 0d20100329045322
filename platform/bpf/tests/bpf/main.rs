//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod balance;
mod balance_lab;
mod balance_live;
mod balance_random;
mod btf;
mod frames;
mod ip;
mod ip_kernel;
mod ip_random;
mod kernel;
mod layout;
mod live;
mod support;
