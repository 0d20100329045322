//! Capabilities (RFC 5492) of an OPEN message.

use super::orf::{self, FilterFamily};
use super::{SAFI_UNICAST, WireError};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::Asn;
use sluice_wire::Cursor;

/// A capability of the sender of an OPEN.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Capability {
    /// Routes of a family (RFC 4760, section 8).
    Multiprotocol {
        /// Address family identifier.
        afi: u16,
        /// Subsequent address family identifier.
        safi: u8,
    },
    /// Answers ROUTE-REFRESH (RFC 2918).
    RouteRefresh,
    /// Takes messages of up to 65,535 octets (RFC 8654).
    ExtendedMessage,
    /// Marks the beginning and the end of a route refresh (RFC 7313).
    EnhancedRefresh,
    /// Outbound route filters by address prefix (RFC 5291, section 5).
    RouteFilter(Vec<FilterFamily>),
    /// AS numbers of 4 octets, with the sender's (RFC 6793, section 3).
    FourOctetAs(Asn),
    /// The sender's role (RFC 9234, section 4.1).
    Role(u8),
    /// Graceful restart (RFC 4724, section 3). The sender promises End-of-RIB markers, with or without families.
    GracefulRestart {
        /// The 4 restart flags.
        flags: u8,
        /// The longest duration of the sender's restart, in seconds; meaningless without families.
        restart_time: u16,
        /// Families whose forwarding state the sender can preserve over a restart.
        families: Vec<RestartFamily>,
    },
    /// Long-lived graceful restart (RFC 9494, section 3). Without families the sender understands long-lived stale routes, no more.
    LongLivedRestart(Vec<LongLivedFamily>),
    /// Several paths of a prefix (ADD-PATH, RFC 7911, section 4).
    AddPath(Vec<PathsFamily>),
    /// An unknown capability, or a known capability with an invalid value: kept unchanged.
    Other {
        /// The capability code.
        code: u8,
        /// The value.
        value: Vec<u8>,
    },
}

/// A family in the graceful restart capability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RestartFamily {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The flags of the family.
    pub flags: u8,
}

impl RestartFamily {
    /// Flag: the forwarding state survived the sender's last restart.
    pub const FORWARDING: u8 = 0x80;
}

/// A family in the capability of long-lived graceful restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct LongLivedFamily {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The flags of the family: [`RestartFamily::FORWARDING`].
    pub flags: u8,
    /// Long-lived Stale Time: the seconds for which routes stay after the time of a restart, below 2^24.
    pub stale_time: u32,
}

/// A family in the ADD-PATH capability, and the directions in which the sender can have several paths of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PathsFamily {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The sender can receive several paths.
    pub receive: bool,
    /// The sender can send several paths.
    pub send: bool,
}

impl PathsFamily {
    /// Reads a family. `None` for an invalid Send/Receive field: the capability counts as not understood.
    fn decode(octets: [u8; 4]) -> Option<Self> {
        let [a, b, safi, mode] = octets;
        (1..=3).contains(&mode).then_some(PathsFamily {
            afi: u16::from_be_bytes([a, b]),
            safi,
            receive: mode & 1 != 0,
            send: mode & 2 != 0,
        })
    }

    fn put(self, out: &mut Vec<u8>) {
        let [a, b] = self.afi.to_be_bytes();
        out.extend_from_slice(&[a, b, self.safi, u8::from(self.receive) | u8::from(self.send) << 1]);
    }
}

const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const ROUTE_FILTER: u8 = 3;
const EXTENDED_MESSAGE: u8 = 6;
const ROLE: u8 = 9;
const ENHANCED_REFRESH: u8 = 70;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTET_AS: u8 = 65;
const ADD_PATH: u8 = 69;
const LONG_LIVED_RESTART: u8 = 71;
/// The mask of the restart time in the graceful restart capability's first 2 octets.
const RESTART_TIME: u16 = 0x0fff;
/// The most families of a graceful restart capability, and of an ADD-PATH capability.
const MOST_FAMILIES: usize = 63;
/// The most families of a capability of long-lived graceful restart.
const MOST_LONG_LIVED_FAMILIES: usize = 36;
/// The most families of a capability for route filters.
const MOST_FILTER_FAMILIES: usize = 36;

impl Capability {
    /// Flag of graceful restart: the sender restarts (RFC 4724, section 3).
    pub const RESTARTING: u8 = 0x8;
    /// Flag of graceful restart: the sender keeps routes after NOTIFICATIONs too (RFC 8538, section 2).
    pub const GRACEFUL_NOTIFICATION: u8 = 0x4;

    /// Returns the capability of unicast routes of `afi`.
    pub const fn unicast(afi: u16) -> Self {
        Capability::Multiprotocol { afi, safi: SAFI_UNICAST }
    }

    /// The code (IANA "Capability Codes").
    pub const fn code(&self) -> u8 {
        match self {
            Capability::Multiprotocol { .. } => MULTIPROTOCOL,
            Capability::RouteRefresh => ROUTE_REFRESH,
            Capability::ExtendedMessage => EXTENDED_MESSAGE,
            Capability::RouteFilter(_) => ROUTE_FILTER,
            Capability::EnhancedRefresh => ENHANCED_REFRESH,
            Capability::FourOctetAs(_) => FOUR_OCTET_AS,
            Capability::Role(_) => ROLE,
            Capability::GracefulRestart { .. } => GRACEFUL_RESTART,
            Capability::AddPath(_) => ADD_PATH,
            Capability::LongLivedRestart(_) => LONG_LIVED_RESTART,
            Capability::Other { code, .. } => *code,
        }
    }

    /// Reads the next capability.
    pub fn decode(c: &mut Cursor<'_>) -> Result<Self, WireError> {
        let (code, len) = (c.u8()?, c.u8()?);
        let value = c.take(len.into())?;
        Ok(match (code, value) {
            (MULTIPROTOCOL, &[a, b, _, safi]) => {
                Capability::Multiprotocol { afi: u16::from_be_bytes([a, b]), safi }
            }
            (ROUTE_REFRESH, []) => Capability::RouteRefresh,
            (EXTENDED_MESSAGE, []) => Capability::ExtendedMessage,
            (ROUTE_FILTER, value) => match orf::decode_capability(value) {
                // What could not be written again stays as it came.
                Some(families) if families.len() <= MOST_FILTER_FAMILIES => Capability::RouteFilter(families),
                _ => Capability::Other { code, value: value.to_vec() },
            },
            (ENHANCED_REFRESH, []) => Capability::EnhancedRefresh,
            (ROLE, &[role]) => Capability::Role(role),
            (GRACEFUL_RESTART, &[a, b, ref families @ ..]) if families.len() % 4 == 0 => {
                graceful_restart(u16::from_be_bytes([a, b]), families)
            }
            (LONG_LIVED_RESTART, families) if families.len() % 7 == 0 => {
                let families = families.as_chunks::<7>().0.iter().map(long_lived_family);
                Capability::LongLivedRestart(families.collect())
            }
            (FOUR_OCTET_AS, &[a, b, c, d]) => Capability::FourOctetAs(Asn(u32::from_be_bytes([a, b, c, d]))),
            (ADD_PATH, families) => {
                let other = || Capability::Other { code, value: families.to_vec() };
                paths_families(families).map_or_else(other, Capability::AddPath)
            }
            _ => Capability::Other { code, value: value.to_vec() },
        })
    }

    /// Appends code, length and value.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Capability::Multiprotocol { afi, safi } => {
                let [a, b] = afi.to_be_bytes();
                out.extend_from_slice(&[MULTIPROTOCOL, 4, a, b, 0, *safi]);
            }
            Capability::RouteRefresh => out.extend_from_slice(&[ROUTE_REFRESH, 0]),
            Capability::ExtendedMessage => out.extend_from_slice(&[EXTENDED_MESSAGE, 0]),
            Capability::RouteFilter(families) => {
                let mut value = Vec::new();
                orf::put_capability(&families[..families.len().min(MOST_FILTER_FAMILIES)], &mut value);
                out.extend_from_slice(&[ROUTE_FILTER, value.len() as u8]);
                out.append(&mut value);
            }
            Capability::EnhancedRefresh => out.extend_from_slice(&[ENHANCED_REFRESH, 0]),
            Capability::Role(role) => out.extend_from_slice(&[ROLE, 1, *role]),
            Capability::GracefulRestart { flags, restart_time, families } => {
                let families = &families[..families.len().min(MOST_FAMILIES)];
                out.extend_from_slice(&[GRACEFUL_RESTART, 2 + 4 * families.len() as u8]);
                let first = u16::from(*flags) << 12 | restart_time & RESTART_TIME;
                out.extend_from_slice(&first.to_be_bytes());
                for family in families {
                    let [a, b] = family.afi.to_be_bytes();
                    out.extend_from_slice(&[a, b, family.safi, family.flags]);
                }
            }
            Capability::LongLivedRestart(families) => {
                let families = &families[..families.len().min(MOST_LONG_LIVED_FAMILIES)];
                out.extend_from_slice(&[LONG_LIVED_RESTART, 7 * families.len() as u8]);
                for family in families {
                    let ([a, b], [_, x, y, z]) = (family.afi.to_be_bytes(), family.stale_time.to_be_bytes());
                    out.extend_from_slice(&[a, b, family.safi, family.flags, x, y, z]);
                }
            }
            Capability::FourOctetAs(asn) => {
                out.extend_from_slice(&[FOUR_OCTET_AS, 4]);
                out.extend_from_slice(&asn.0.to_be_bytes());
            }
            Capability::AddPath(families) => {
                let families = &families[..families.len().min(MOST_FAMILIES)];
                out.extend_from_slice(&[ADD_PATH, 4 * families.len() as u8]);
                families.iter().for_each(|family| family.put(out));
            }
            Capability::Other { code, value } => {
                let value = &value[..value.len().min(u8::MAX.into())];
                out.extend_from_slice(&[*code, value.len() as u8]);
                out.extend_from_slice(value);
            }
        }
    }
}

/// Reads an ADD-PATH capability: 4 octets for each of one or more families. `None` for an invalid value.
fn paths_families(octets: &[u8]) -> Option<Vec<PathsFamily>> {
    let (families, rest) = octets.as_chunks::<4>();
    let is_whole = rest.is_empty() && !families.is_empty();
    families.iter().map(|octets| PathsFamily::decode(*octets)).collect::<Option<_>>().filter(|_| is_whole)
}

/// Reads a family of long-lived graceful restart.
fn long_lived_family(&[a, b, safi, flags, x, y, z]: &[u8; 7]) -> LongLivedFamily {
    let stale_time = u32::from_be_bytes([0, x, y, z]);
    LongLivedFamily { afi: u16::from_be_bytes([a, b]), safi, flags, stale_time }
}

/// Reads a graceful restart capability: flags and restart time, then 4 octets a family.
fn graceful_restart(first: u16, families: &[u8]) -> Capability {
    let family = |octets: &[u8]| RestartFamily {
        afi: u16::from_be_bytes([octets[0], octets[1]]),
        safi: octets[2],
        flags: octets[3],
    };
    Capability::GracefulRestart {
        flags: (first >> 12) as u8,
        restart_time: first & RESTART_TIME,
        families: families.chunks_exact(4).map(family).collect(),
    }
}
