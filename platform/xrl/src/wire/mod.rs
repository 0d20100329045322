//! Octets and values: frames and their streams, families, keys, errors, reasons of refusals.

pub mod denied;
pub mod dial;
pub mod error;
pub mod family;
pub mod frame;
pub mod kill;
pub mod listen;
pub mod octets;
pub mod seal;
pub mod stream;
