//! OPEN (RFC 4271, section 4.2) and capabilities (RFC 5492).

use super::header::{MessageType, finish, start};
use super::{Malformed, SAFI_UNICAST};
use sluice_base::{Asn, RouterId};

/// The version of the protocol.
pub const VERSION: u8 = 4;
/// The optional parameter with capabilities.
const CAPABILITIES: u8 = 2;

/// An OPEN message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The version of the protocol.
    pub version: u8,
    /// The AS in two octets, 23456 for longer numbers.
    pub as_field: u16,
    /// The proposed hold time, in seconds; 0 for none.
    pub hold_time: u16,
    /// The BGP identifier.
    pub router_id: RouterId,
    /// The capabilities of all optional parameters.
    pub capabilities: Vec<Capability>,
}

/// A capability.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Capability {
    /// An address family (RFC 4760, section 8).
    Multiprotocol {
        /// The address family.
        afi: u16,
        /// The subsequent address family.
        safi: u8,
    },
    /// Route refresh (RFC 2918).
    RouteRefresh,
    /// Messages of 65,535 octets (RFC 8654).
    ExtendedMessage,
    /// The sender's role (RFC 9234, section 4.1).
    Role(u8),
    /// Graceful restart (RFC 4724, section 3).
    GracefulRestart {
        /// Four bits, [`Capability::RESTARTING`] among them.
        flags: u8,
        /// The longest time of a restart, in seconds.
        restart_time: u16,
        /// The address families.
        families: Vec<RestartFamily>,
    },
    /// AS numbers in four octets (RFC 6793, section 3).
    FourOctetAs(Asn),
    /// Several paths of a prefix (RFC 7911, section 4).
    AddPath(Vec<PathsFamily>),
    /// A capability that no judge looks into.
    Other {
        /// The capability's code.
        code: u8,
        /// The capability's value.
        value: Vec<u8>,
    },
}

/// An address family of [`Capability::GracefulRestart`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestartFamily {
    /// The address family.
    pub afi: u16,
    /// The subsequent address family.
    pub safi: u8,
    /// [`RestartFamily::FORWARDING`] or 0.
    pub flags: u8,
}

impl RestartFamily {
    /// Forwarding state was kept.
    pub const FORWARDING: u8 = 0x80;
}

/// An address family of [`Capability::AddPath`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathsFamily {
    /// The address family.
    pub afi: u16,
    /// The subsequent address family.
    pub safi: u8,
    /// True if the sender can receive several paths.
    pub receive: bool,
    /// True if the sender can send several paths.
    pub send: bool,
}

impl Capability {
    /// The sender has restarted.
    pub const RESTARTING: u8 = 0x8;

    /// The capability of a family's unicast routes.
    pub const fn unicast(afi: u16) -> Self {
        Capability::Multiprotocol { afi, safi: SAFI_UNICAST }
    }

    fn decode(code: u8, value: &[u8]) -> Self {
        let afi = |[high, low]: [u8; 2]| u16::from_be_bytes([high, low]);
        match (code, value) {
            (1, [high, low, _, safi]) => Capability::Multiprotocol { afi: afi([*high, *low]), safi: *safi },
            (2, []) => Capability::RouteRefresh,
            (6, []) => Capability::ExtendedMessage,
            (9, [role]) => Capability::Role(*role),
            (64, [high, low, families @ ..]) if families.len() % 4 == 0 => {
                let time = afi([*high, *low]);
                let of = |c: &[u8]| RestartFamily { afi: afi([c[0], c[1]]), safi: c[2], flags: c[3] };
                Capability::GracefulRestart {
                    flags: (time >> 12) as u8,
                    restart_time: time & 0xfff,
                    families: families.chunks_exact(4).map(of).collect(),
                }
            }
            (65, [a, b, c, d]) => Capability::FourOctetAs(Asn(u32::from_be_bytes([*a, *b, *c, *d]))),
            (69, families) if families.len() % 4 == 0 => {
                let of = |c: &[u8]| PathsFamily {
                    afi: afi([c[0], c[1]]),
                    safi: c[2],
                    receive: c[3] & 1 != 0,
                    send: c[3] & 2 != 0,
                };
                Capability::AddPath(families.chunks_exact(4).map(of).collect())
            }
            _ => Capability::Other { code, value: value.to_vec() },
        }
    }

    fn encoded(&self) -> (u8, Vec<u8>) {
        match self {
            Capability::Multiprotocol { afi, safi } => (1, [&afi.to_be_bytes()[..], &[0, *safi]].concat()),
            Capability::RouteRefresh => (2, Vec::new()),
            Capability::ExtendedMessage => (6, Vec::new()),
            Capability::Role(role) => (9, vec![*role]),
            Capability::GracefulRestart { flags, restart_time, families } => {
                let time = (u16::from(*flags) << 12 | restart_time & 0xfff).to_be_bytes();
                let family = |f: &RestartFamily| [&f.afi.to_be_bytes()[..], &[f.safi, f.flags]].concat();
                (64, time.into_iter().chain(families.iter().flat_map(family)).collect())
            }
            Capability::FourOctetAs(asn) => (65, asn.0.to_be_bytes().to_vec()),
            Capability::AddPath(families) => {
                let modes = |f: &PathsFamily| u8::from(f.receive) | u8::from(f.send) << 1;
                let family = |f: &PathsFamily| [&f.afi.to_be_bytes()[..], &[f.safi, modes(f)]].concat();
                (69, families.iter().flat_map(family).collect())
            }
            Capability::Other { code, value } => (*code, value.clone()),
        }
    }
}

impl Open {
    /// Returns the sender's AS, from the capability if there is one.
    pub fn asn(&self) -> Asn {
        let long = self.capabilities.iter().find_map(|capability| match capability {
            Capability::FourOctetAs(asn) => Some(*asn),
            _ => None,
        });
        long.unwrap_or(Asn(self.as_field.into()))
    }

    /// Decodes the body of an OPEN.
    ///
    /// # Errors
    /// If a length is wrong.
    pub fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let wrong = Malformed("OPEN");
        let ([version, a, b, h, t, id @ .., length], mut parameters) =
            body.split_first_chunk::<10>().ok_or(wrong)?;
        if parameters.len() != usize::from(*length) {
            return Err(wrong);
        }
        let mut capabilities = Vec::new();
        while let [kind, rest @ ..] = parameters {
            let (value, rest) = short(rest)?;
            let mut left = if *kind == CAPABILITIES { value } else { &[] };
            while let [code, rest @ ..] = left {
                let (value, rest) = short(rest)?;
                capabilities.push(Capability::decode(*code, value));
                left = rest;
            }
            parameters = rest;
        }
        Ok(Open {
            version: *version,
            as_field: u16::from_be_bytes([*a, *b]),
            hold_time: u16::from_be_bytes([*h, *t]),
            router_id: RouterId(u32::from_be_bytes(*id)),
            capabilities,
        })
    }

    /// Appends the message, with all capabilities in one parameter.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::Open);
        out.push(self.version);
        out.extend_from_slice(&self.as_field.to_be_bytes());
        out.extend_from_slice(&self.hold_time.to_be_bytes());
        out.extend_from_slice(&self.router_id.0.to_be_bytes());
        let capability = |(code, value): (u8, Vec<u8>)| [&[code, value.len() as u8][..], &value].concat();
        let all: Vec<u8> = self.capabilities.iter().flat_map(|c| capability(c.encoded())).collect();
        match all.len() as u8 {
            0 => out.push(0),
            length => out.extend_from_slice(&[length + 2, CAPABILITIES, length]),
        }
        out.extend_from_slice(&all);
        finish(out, at);
    }
}

/// Takes a value behind its length in one octet.
fn short(octets: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (length, rest) = octets.split_first().ok_or(Malformed("OPEN"))?;
    rest.split_at_checked((*length).into()).ok_or(Malformed("OPEN"))
}

#[test]
fn opens() {
    let family = PathsFamily { afi: 1, safi: 1, receive: true, send: false };
    let kept = RestartFamily { afi: 2, safi: 1, flags: RestartFamily::FORWARDING };
    let open = Open {
        version: VERSION,
        as_field: 23456,
        hold_time: 90,
        router_id: RouterId(7),
        capabilities: vec![
            Capability::unicast(1),
            Capability::RouteRefresh,
            Capability::ExtendedMessage,
            Capability::Role(3),
            Capability::GracefulRestart { flags: 8, restart_time: 120, families: vec![kept] },
            Capability::FourOctetAs(Asn(70_000)),
            Capability::AddPath(vec![family]),
            Capability::Other { code: 200, value: vec![1] },
        ],
    };
    let mut octets = Vec::new();
    open.put(&mut octets);
    let body = super::header::frame(&octets).unwrap().unwrap().body;
    assert_eq!(Open::decode(body), Ok(open.clone()));
    assert_eq!(open.asn(), Asn(70_000));
    assert!((0..body.len()).all(|cut| Open::decode(&body[..cut]).is_err()));
}
