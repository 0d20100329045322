//! Octets to values and back: BGP messages and path attributes (RFC 4271, section 4).
//!
//! A decoder here returns what is there. The meaning of an error (a reset, a withdrawal, a discarded attribute) is decided in
//! [`crate::attributes`] and [`crate::session`]. Nothing here allocates on the way in, except for OPEN and
//! NOTIFICATION, which come once a session.

pub mod as_path;
pub mod attribute;
pub mod capability;
mod error;
mod family_code;
pub mod header;
pub mod multiprotocol;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod orf;
pub mod route_refresh;
pub mod update;

pub use capability::{Capability, LongLivedFamily, PathsFamily, RestartFamily};
pub use error::{Expected, WireError};
pub use family_code::FamilyCode;
pub use header::{Frame, HEADER_LEN, HeaderError, MAX_EXTENDED_LEN, MAX_MESSAGE_LEN, MessageType};
pub use nlri::{FamilyKey, Nlri, PATH_ID_LEN};
pub use notification::Notification;
pub use open::Open;
pub use route_refresh::RouteRefresh;
pub use update::Update;

/// Address family identifier of IPv4 (IANA "Address Family Numbers").
pub const AFI_IPV4: u16 = 1;
/// Address family identifier of IPv6.
pub const AFI_IPV6: u16 = 2;
/// Address family identifier of XIDs (`docs/xia/bgp.md`): the EtherType of XIP. Nobody has assigned one.
pub const AFI_XID: u16 = 0xc0de;
/// Subsequent address family identifier of XIDs, of those for private use (RFC 4760, section 6).
pub const SAFI_XID: u8 = 241;
/// Subsequent address family identifier of unicast forwarding (RFC 4760, section 6).
pub const SAFI_UNICAST: u8 = 1;
