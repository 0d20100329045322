//! OPEN (RFC 4271, section 4.2; extended parameter length by RFC 9072).

use super::header::{MessageType, finish, start};
use super::{Capability, Expected, WireError};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, RouterId};
use sluice_wire::{Cursor, Truncated};

/// The only version there is.
pub const VERSION: u8 = 4;

const PARAMETER_CAPABILITIES: u8 = 2;
const PARAMETER_EXTENDED: u8 = 255;

/// The contents of an OPEN message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open {
    /// Protocol version.
    pub version: u8,
    /// "My Autonomous System": AS_TRANS where the number does not fit.
    pub as_field: u16,
    /// Proposed hold time in seconds; 0: disabled.
    pub hold_time: u16,
    /// BGP Identifier.
    pub router_id: RouterId,
    /// The capabilities, in order.
    pub capabilities: Vec<Capability>,
}

impl Open {
    /// The sender's AS number: from the capability, if present (RFC 6793, section 4.1).
    pub fn asn(&self) -> Asn {
        self.four_octet_as().unwrap_or(Asn(self.as_field.into()))
    }

    /// The AS number of the 4-octet capability.
    pub fn four_octet_as(&self) -> Option<Asn> {
        self.capabilities.iter().find_map(|c| match c {
            Capability::FourOctetAs(asn) => Some(*asn),
            _ => None,
        })
    }

    /// Reads a message body.
    ///
    /// # Errors
    /// [`Expected::Parameter`] for an unknown parameter (RFC 4271, section 6.2: Unsupported Optional Parameter); anything else
    /// is malformed. A version other than 4 is not an error here, but nothing after it is read.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut c = Cursor::new(body);
        let (version, as_field, hold_time) = (c.u8()?, c.u16()?, c.u16()?);
        let mut open =
            Open { version, as_field, hold_time, router_id: RouterId(c.u32()?), capabilities: Vec::new() };
        if version != VERSION {
            return Ok(open);
        }
        let len = c.u8()?;
        let extended = len == PARAMETER_EXTENDED && c.rest().first() == Some(&PARAMETER_EXTENDED);
        let len = if extended {
            c.u8()?;
            c.u16()?
        } else {
            len.into()
        };
        let mut parameters = c.sub(len.into())?;
        while !parameters.is_empty() {
            let offset = parameters.offset();
            let kind = parameters.u8()?;
            let len = if extended { parameters.u16()?.into() } else { usize::from(parameters.u8()?) };
            let mut value = parameters.sub(len)?;
            if kind != PARAMETER_CAPABILITIES {
                return Err(WireError { offset, expected: Expected::Parameter(kind) });
            }
            while !value.is_empty() {
                let offset = value.offset();
                let capability = Capability::decode(&mut value)
                    .map_err(|_| WireError { offset, expected: Expected::Capability })?;
                open.capabilities.push(capability);
            }
        }
        if !c.is_empty() {
            let surplus = Truncated { offset: c.offset(), needed: 0, left: c.len() };
            return Err(surplus.into());
        }
        Ok(open)
    }

    /// Appends the message. Capabilities that do not fit in the parameter's 253 octets are left out, last first: this
    /// side's own never come near.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::Open);
        out.push(self.version);
        out.extend_from_slice(&self.as_field.to_be_bytes());
        out.extend_from_slice(&self.hold_time.to_be_bytes());
        out.extend_from_slice(&self.router_id.0.to_be_bytes());
        let lengths = out.len();
        out.extend_from_slice(&[0, PARAMETER_CAPABILITIES, 0]);
        let begin = out.len();
        for capability in &self.capabilities {
            let before = out.len();
            capability.put(out);
            if out.len() - begin > 253 {
                out.truncate(before);
                break;
            }
        }
        let len = (out.len() - begin) as u8;
        if len == 0 {
            out.truncate(lengths + 1);
        } else {
            out[lengths] = len + 2;
            out[lengths + 2] = len;
        }
        finish(out, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::capability::{LongLivedFamily, PathsFamily, RestartFamily};
    use crate::wire::{AFI_IPV4, AFI_IPV6, header};
    use alloc::vec;

    fn sample() -> Open {
        Open {
            version: VERSION,
            as_field: 23456,
            hold_time: 90,
            router_id: RouterId(0x0a00_0001),
            capabilities: vec![
                Capability::unicast(AFI_IPV4),
                Capability::unicast(AFI_IPV6),
                Capability::RouteRefresh,
                Capability::FourOctetAs(Asn(70_000)),
                Capability::GracefulRestart { flags: 0, restart_time: 0, families: vec![] },
                Capability::GracefulRestart {
                    flags: 0b1100,
                    restart_time: 4095,
                    families: vec![RestartFamily { afi: AFI_IPV6, safi: 1, flags: 0x80 }],
                },
                Capability::AddPath(vec![
                    PathsFamily { afi: AFI_IPV4, safi: 1, receive: true, send: false },
                    PathsFamily { afi: AFI_IPV6, safi: 1, receive: true, send: true },
                ]),
                Capability::LongLivedRestart(vec![]),
                Capability::LongLivedRestart(vec![LongLivedFamily {
                    afi: AFI_IPV6,
                    safi: 1,
                    flags: 0x80,
                    stale_time: 0xff_ffff,
                }]),
                Capability::Other { code: 71, value: vec![1, 2, 3] },
            ],
        }
    }

    #[test]
    fn comes_back() {
        for open in [sample(), Open { capabilities: vec![], ..sample() }] {
            let mut out = vec![];
            open.put(&mut out);
            let frame = header::frame(&out).unwrap().unwrap();
            assert_eq!(frame.kind, MessageType::Open);
            assert_eq!(Open::decode(frame.body), Ok(open));
        }
        assert_eq!(sample().asn(), Asn(70_000));
    }

    #[test]
    fn extended_parameters() {
        let body = [4, 0, 1, 0, 90, 10, 0, 0, 1, 255, 255, 0, 5, 2, 0, 2, 2, 0];
        assert_eq!(Open::decode(&body).unwrap().capabilities, [Capability::RouteRefresh]);
    }

    #[test]
    fn errors() {
        let base = [4, 0, 1, 0, 90, 10, 0, 0, 1];
        let check = |tail: &[u8], expected: WireError| {
            assert_eq!(Open::decode(&[&base, tail].concat()), Err(expected), "{tail:?}");
        };
        check(&[4, 1, 2, 0, 0], WireError { offset: 10, expected: Expected::Parameter(1) });
        check(&[4, 2, 2, 2, 1], WireError { offset: 12, expected: Expected::Capability });
        check(&[4, 2, 3, 2, 0], WireError { offset: 12, expected: Expected::Octets { needed: 3, left: 2 } });
        check(&[9], WireError { offset: 10, expected: Expected::Octets { needed: 9, left: 0 } });
        assert_eq!(Open::decode(&[3, 0, 1, 0, 90, 10, 0, 0, 1, 77]).unwrap().version, 3);
    }

    #[test]
    fn a_known_capability_with_a_wrong_length_is_kept_as_it_came() {
        let paths =
            [vec![], vec![0, 1, 1], vec![0, 1, 1, 0], vec![0, 1, 1, 3, 0, 2, 1, 4], vec![0, 1, 1, 3, 0]];
        let others = [(65, vec![9]), (64, vec![0]), (64, vec![0, 0, 0, 1, 1])];
        for (code, value) in paths.into_iter().map(|value| (69, value)).chain(others) {
            let len = value.len() as u8;
            let mut body = vec![4, 0, 1, 0, 90, 10, 0, 0, 1, 4 + len, 2, 2 + len, code, len];
            body.extend_from_slice(&value);
            assert_eq!(Open::decode(&body).unwrap().capabilities, [Capability::Other { code, value }]);
        }
    }
}
