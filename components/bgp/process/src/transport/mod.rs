//! Sockets and connections: opened by the FEA, read and written by tasks of their own.

pub mod connection;
pub mod listeners;
pub mod reader;
pub mod sockets;
pub mod writer;
