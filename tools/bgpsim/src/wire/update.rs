//! UPDATE (RFC 4271, section 4.3) and the attributes with routes of further families (RFC 4760).

use super::{Malformed, counted};

/// The fields of an UPDATE, in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update<'a> {
    /// Withdrawn IPv4 prefixes.
    pub withdrawn: &'a [u8],
    /// Path attributes.
    pub attributes: &'a [u8],
    /// Announced IPv4 prefixes.
    pub nlri: &'a [u8],
}

impl<'a> Update<'a> {
    /// Divides the body of an UPDATE.
    ///
    /// # Errors
    /// If a field is longer than the body.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let (withdrawn, rest) = counted(body, "UPDATE")?;
        let (attributes, nlri) = counted(rest, "UPDATE")?;
        Ok(Update { withdrawn, attributes, nlri })
    }

    /// Returns true for the End-of-RIB marker of IPv4 (RFC 4724, section 2).
    pub const fn is_empty(&self) -> bool {
        self.withdrawn.is_empty() && self.attributes.is_empty() && self.nlri.is_empty()
    }
}

/// The value of MP_REACH_NLRI, in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpReach<'a> {
    /// The address family.
    pub afi: u16,
    /// The subsequent address family.
    pub safi: u8,
    /// The octets of the next hop.
    pub next_hop: &'a [u8],
    /// Announced prefixes.
    pub nlri: &'a [u8],
}

impl<'a> MpReach<'a> {
    /// Divides the value.
    ///
    /// # Errors
    /// If the value is too short.
    pub fn decode(value: &'a [u8]) -> Result<Self, Malformed> {
        let wrong = Malformed("MP_REACH_NLRI");
        let [high, low, safi, length, rest @ ..] = value else { return Err(wrong) };
        let (next_hop, rest) = rest.split_at_checked((*length).into()).ok_or(wrong)?;
        let [_, nlri @ ..] = rest else { return Err(wrong) };
        Ok(MpReach { afi: u16::from_be_bytes([*high, *low]), safi: *safi, next_hop, nlri })
    }
}

/// The value of MP_UNREACH_NLRI, in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpUnreach<'a> {
    /// The address family.
    pub afi: u16,
    /// The subsequent address family.
    pub safi: u8,
    /// Withdrawn prefixes.
    pub withdrawn: &'a [u8],
}

impl<'a> MpUnreach<'a> {
    /// Divides the value.
    ///
    /// # Errors
    /// If the value is too short.
    pub fn decode(value: &'a [u8]) -> Result<Self, Malformed> {
        let [high, low, safi, withdrawn @ ..] = value else { return Err(Malformed("MP_UNREACH_NLRI")) };
        Ok(MpUnreach { afi: u16::from_be_bytes([*high, *low]), safi: *safi, withdrawn })
    }
}

#[test]
fn updates() {
    let body = [0, 2, 8, 10, 0, 3, 0x40, 6, 0, 8, 20];
    let update = Update::decode(&body).unwrap();
    assert_eq!((update.withdrawn, update.attributes, update.nlri), (&body[2..4], &body[6..9], &body[9..]));
    assert!((0..9).all(|cut| Update::decode(&body[..cut]).is_err()));
    let reach = MpReach::decode(&[0, 2, 1, 2, 9, 9, 0, 8, 32]).unwrap();
    assert_eq!((reach.afi, reach.safi, reach.next_hop, reach.nlri), (2, 1, &[9, 9][..], &[8, 32][..]));
    assert!(MpReach::decode(&[0, 2, 1, 2, 9, 9]).is_err());
    assert!(MpUnreach::decode(&[0, 2]).is_err());
}
