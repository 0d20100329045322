//! UPDATE: the three sections with lengths (RFC 4271, section 4.3).

use super::{Expected, WireError};
use sluice_wire::Cursor;

/// The sections of an UPDATE, not looked into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update<'a> {
    /// Withdrawn IPv4 prefixes, from offset 2 of the body.
    pub withdrawn: &'a [u8],
    /// Path attributes, for [`super::attribute::Attributes`].
    pub attributes: &'a [u8],
    /// The offset of the attributes in the body.
    pub attributes_offset: usize,
    /// Announced IPv4 prefixes.
    pub nlri: &'a [u8],
    /// The offset of the prefixes in the body.
    pub nlri_offset: usize,
}

impl<'a> Update<'a> {
    /// The offset of the withdrawn prefixes in the body.
    pub(crate) const WITHDRAWN_OFFSET: usize = 2;

    /// The sections of a message body. Fails if the lengths do not fit (RFC 7606, section 3 b).
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, WireError> {
        let section = |e: WireError| WireError { offset: e.offset, expected: Expected::SectionLength };
        let mut c = Cursor::new(body);
        let len = u16::from_be_bytes(c.array()?);
        let withdrawn = c.take(len.into()).map_err(|e| section(e.into()))?;
        let len = u16::from_be_bytes(c.array()?);
        let attributes_offset = c.offset();
        let attributes = c.take(len.into()).map_err(|e| section(e.into()))?;
        Ok(Update { withdrawn, attributes, attributes_offset, nlri: c.rest(), nlri_offset: c.offset() })
    }

    /// Returns true for an empty UPDATE: the End-of-RIB marker of IPv4 unicast (RFC 4724, section 2).
    pub const fn is_empty(&self) -> bool {
        self.withdrawn.is_empty() && self.attributes.is_empty() && self.nlri.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let body = [0, 2, 8, 10, 0, 3, 1, 2, 3, 8, 11];
        let update = Update::decode(&body).unwrap();
        assert_eq!(
            (update.withdrawn, update.attributes, update.nlri),
            (&body[2..4], &body[6..9], &body[9..])
        );
        assert_eq!((update.attributes_offset, update.nlri_offset), (6, 9));
        assert!(Update::decode(&[0, 0, 0, 0]).unwrap().is_empty());
        let err = |body| Update::decode(body).unwrap_err();
        assert_eq!(err(&[0, 3, 8, 10]), WireError { offset: 2, expected: Expected::SectionLength });
        assert_eq!(err(&[0, 0, 0, 1]), WireError { offset: 4, expected: Expected::SectionLength });
        assert_eq!(
            err(&[0, 0, 0]),
            WireError { offset: 2, expected: Expected::Octets { needed: 2, left: 1 } }
        );
    }
}
