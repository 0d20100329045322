//! The attributes of a route in words, for comparisons: without anything that differs between correct routers, such as the
//! order of attributes and communities, the form of lengths, and the routers' own addresses.

use crate::policies::network::{Role, Router};
use sluice_bgpsim::wire::as_path::{AS_SEQUENCE, Width, segments};
use sluice_bgpsim::wire::attribute::{Attribute, Attributes, code};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// A neighbor's view of a router.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub router: Router,
    pub width: Width,
}

impl View {
    /// Describes the attributes of an UPDATE.
    pub fn describe(self, attributes: &[u8]) -> String {
        let all = Attributes::new(attributes).map(|attribute| attribute.unwrap());
        let mut texts: Vec<(u8, String)> = all.map(|a| (a.code, self.attribute(&a))).collect();
        texts.sort();
        texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    }

    fn attribute(self, attribute: &Attribute<'_>) -> String {
        let value = attribute.value;
        match attribute.code {
            code::ORIGIN => format!("origin {value:?}"),
            code::AS_PATH => format!("path {}", path(value, self.width)),
            code::AS4_PATH => format!("AS4_PATH {}", path(value, Width::Four)),
            code::NEXT_HOP => self.next_hop(value),
            code::MULTI_EXIT_DISC => format!("med {}", number(value)),
            code::LOCAL_PREF => format!("local-preference {}", number(value)),
            code::COMMUNITIES => format!("communities {}", set(value, 4)),
            code::EXTENDED_COMMUNITIES => format!("extended {}", set(value, 8)),
            code::LARGE_COMMUNITY => format!("large {}", set(value, 12)),
            code => format!("attribute {code} flags {:#x} {value:?}", attribute.flags & 0xe0),
        }
    }

    fn next_hop(self, value: &[u8]) -> String {
        let octets: [u8; 4] = value.try_into().unwrap();
        let address = Ipv4Addr::from(octets);
        match self.router.role(address) {
            Some(role) => format!("next-hop {role:?}"),
            None if Role::ALL.into_iter().any(|role| self.router.address(role) == address) => {
                "next-hop self".into()
            }
            None => format!("next-hop {address}"),
        }
    }
}

fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value.try_into().unwrap())
}

fn path(value: &[u8], width: Width) -> String {
    let mut words = Vec::new();
    for segment in segments(value, width).unwrap() {
        let asns = segment.asns.iter().map(|asn| asn.0.to_string());
        if segment.kind == AS_SEQUENCE {
            words.extend(asns);
        } else {
            words.push(format!("{{{}}}", asns.collect::<Vec<_>>().join(" ")));
        }
    }
    words.join(" ")
}

/// Communities are a set (RFC 1997; RFC 4360, section 2; RFC 8092, section 3).
fn set(value: &[u8], width: usize) -> String {
    let field = match width {
        4 => 2,
        _ => 4,
    };
    let all: BTreeSet<&[u8]> = value.chunks(width).collect();
    let one = |octets: &&[u8]| {
        let fields =
            octets.chunks(field).map(|field| field.iter().fold(0_u32, |n, o| n << 8 | u32::from(*o)));
        fields.map(|n| n.to_string()).collect::<Vec<_>>().join(":")
    };
    all.iter().map(one).collect::<Vec<_>>().join(" ")
}
