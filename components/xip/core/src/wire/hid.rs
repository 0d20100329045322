//! HIDs without their type, as NWP carries them.

use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::{Xid, XidType};

/// The ID of a HID: SHA-1 over the DER form (PKCS#1 RSAPublicKey) of the host's public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hid(pub [u8; 20]);

impl Hid {
    /// Octets of an ID.
    pub const LEN: usize = 20;

    /// Returns the XID of type HID.
    pub const fn xid(self) -> Xid {
        Xid { kind: XidType::HID, id: self.0 }
    }

    /// Returns the ID of an XID; `None` if the XID's type is not HID.
    pub fn of(xid: Xid) -> Option<Self> {
        (xid.kind == XidType::HID).then_some(Hid(xid.id))
    }
}

impl fmt::Display for Hid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.xid(), f)
    }
}

impl fmt::Debug for Hid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
