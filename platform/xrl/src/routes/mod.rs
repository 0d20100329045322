//! Batches of routes, packed and as readable messages, and the vocabulary of `base` as messages.

pub mod convert;
mod messages;
mod packed;

pub use convert::Gateway;
pub use messages::{
    fib_from_messages, fib_of, fib_to_messages, routes_from_messages, routes_of, routes_to_messages,
};
pub use packed::{
    OLDEST_VERSION, UnpackError, VERSION, decode_fib, decode_routes, encode_fib, encode_routes,
};
