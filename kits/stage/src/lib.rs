//! Routing tables as networks of stages.
#![no_std]
