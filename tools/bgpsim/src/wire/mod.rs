//! A codec of BGP for programs that judge the router, written apart from the router's own.
//!
//! A fault that the router's decoder and encoder share would go unseen by a judge with the same code. The codec is
//! lenient where a judge has to be: malformed messages can be written, and attributes are passed on as octets.

pub mod as_path;
pub mod attribute;
pub mod header;
mod nlri;
mod notification;
mod open;
mod update;

pub use header::{HEADER_LEN, MAX_MESSAGE_LEN, MessageType};
pub use nlri::{Nlri, PATH_ID_LEN, WirePrefix, is_routable, path_ids};
pub use notification::Notification;
pub use open::{Capability, Open, PathsFamily, RestartFamily, VERSION};
pub use update::{MpReach, MpUnreach, Update};

/// Address family: IPv4 (RFC 4760).
pub const AFI_IPV4: u16 = 1;
/// Address family: IPv6.
pub const AFI_IPV6: u16 = 2;
/// Subsequent address family: unicast.
pub const SAFI_UNICAST: u8 = 1;

/// Octets that are not the named part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// Takes a field behind its length in two octets.
fn counted<'a>(octets: &'a [u8], what: &'static str) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    let (length, rest) = octets.split_first_chunk().ok_or(Malformed(what))?;
    rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(Malformed(what))
}
