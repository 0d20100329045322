//! ROUTE-REFRESH (RFC 2918, section 3).

use super::WireError;
use super::header::{MessageType, finish, start};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_wire::Cursor;

/// A request for all routes of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteRefresh {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
}

impl RouteRefresh {
    /// Reads a message body; what follows the family (RFC 5291) is ignored.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut c = Cursor::new(body);
        let afi = c.u16()?;
        c.u8()?;
        Ok(RouteRefresh { afi, safi: c.u8()? })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::RouteRefresh);
        let [a, b] = self.afi.to_be_bytes();
        out.extend_from_slice(&[a, b, 0, self.safi]);
        finish(out, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header;

    #[test]
    fn comes_back() {
        let refresh = RouteRefresh { afi: 2, safi: 1 };
        let mut out = Vec::new();
        refresh.put(&mut out);
        assert_eq!(RouteRefresh::decode(header::frame(&out).unwrap().unwrap().body), Ok(refresh));
        assert!(RouteRefresh::decode(&[0, 1, 0]).is_err());
    }
}
