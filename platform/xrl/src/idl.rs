//! The platform's own interfaces, generated from `idl/*.proto`.
#![allow(missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/xrl.rs"));

/// The interfaces' descriptions: an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xrl-descriptors.bin"));
