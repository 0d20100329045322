//! ROUTE-REFRESH (RFC 2918, section 3; RFC 7313, section 3.2).

use super::WireError;
use super::header::{MessageType, finish, start};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_wire::Cursor;

/// Values of [`RouteRefresh::subtype`].
pub mod subtype {
    /// A request for the routes of the family.
    pub const REQUEST: u8 = 0;
    /// The sender begins to announce the routes of the family again (BoRR).
    pub const BEGIN: u8 = 1;
    /// The sender has announced the routes of the family again (EoRR).
    pub const END: u8 = 2;
}

/// A request for the routes of a family, or a mark in the stream of routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteRefresh {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The message subtype; has no meaning between speakers without the capability for enhanced route refresh.
    pub subtype: u8,
    /// The octets behind the family: outbound route filters (RFC 5291).
    pub rest: Vec<u8>,
}

impl RouteRefresh {
    /// Makes a message of a subtype without filters.
    pub const fn new(afi: u16, safi: u8, subtype: u8) -> Self {
        RouteRefresh { afi, safi, subtype, rest: Vec::new() }
    }

    /// Reads a message body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut c = Cursor::new(body);
        let (afi, subtype, safi) = (c.u16()?, c.u8()?, c.u8()?);
        Ok(RouteRefresh { afi, safi, subtype, rest: c.rest().to_vec() })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::RouteRefresh);
        let [a, b] = self.afi.to_be_bytes();
        out.extend_from_slice(&[a, b, self.subtype, self.safi]);
        out.extend_from_slice(&self.rest);
        finish(out, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header;

    #[test]
    fn comes_back() {
        for rest in [&[][..], &[1, 64, 0, 1, 0x80]] {
            let refresh = RouteRefresh { rest: rest.to_vec(), ..RouteRefresh::new(2, 1, subtype::END) };
            let mut out = Vec::new();
            refresh.put(&mut out);
            assert_eq!(RouteRefresh::decode(header::frame(&out).unwrap().unwrap().body), Ok(refresh));
        }
        assert!(RouteRefresh::decode(&[0, 1, 0]).is_err());
    }
}
