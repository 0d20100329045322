//! Attributes that change on the way, like the export policy of a different router, so that decisions have differing
//! input.

use serde::{Deserialize, Serialize};
use sluice_bgp::wire::attribute::{Flags, code};
use std::net::Ipv4Addr;

/// The rewriting of UPDATEs on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rewrite {
    /// The new ORIGIN (RFC 4271, section 4.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<u8>,
    /// The new MULTI_EXIT_DISC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub med: Option<u32>,
    /// The first AS of the path comes so many times more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prepend: u8,
    /// NO_EXPORT is added (RFC 1997).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_export: bool,
    /// The new NEXT_HOP of IPv4 routes: a third party's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<Ipv4Addr>,
    /// The code of the mandatory attribute that is omitted: ORIGIN, AS_PATH or NEXT_HOP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omits: Option<u8>,
    /// The new ONLY_TO_CUSTOMER (RFC 9234): a router that passes the route on leaks it. 0 removes the attribute, as a
    /// router without RFC 9234 would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_to_customer: Option<u32>,
}

fn is_zero(n: &u8) -> bool {
    *n == 0
}

/// The community NO_EXPORT (RFC 1997).
pub const NO_EXPORT: u32 = 0xffff_ff01;
const HEADER: usize = 19;
/// The longest message.
const MOST: usize = 4096;
const UPDATE: u8 = 2;

fn word(octets: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([*octets.get(at)?, *octets.get(at + 1)?])))
}

/// The octets of the leading prefixes in `nlri` that fit in `room`.
fn whole_prefixes(nlri: &[u8], room: usize) -> usize {
    let mut at = 0;
    while let Some(len) = nlri.get(at) {
        let next = at + 1 + usize::from(*len).div_ceil(8);
        if next > room {
            break;
        }
        at = next;
    }
    at.min(nlri.len())
}

impl Rewrite {
    /// Rewrites whole messages.
    pub fn apply(&self, octets: Vec<u8>) -> Vec<u8> {
        if *self == Rewrite::default() {
            return octets;
        }
        let mut out = Vec::with_capacity(octets.len() + 64);
        let mut rest = &octets[..];
        while let Some(len) = word(rest, 16).filter(|len| (HEADER..=rest.len()).contains(len)) {
            let (message, tail) = rest.split_at(len);
            match (message[18] == UPDATE).then(|| self.update(message)).flatten() {
                Some(update) => out.extend_from_slice(&update),
                None => out.extend_from_slice(message),
            }
            rest = tail;
        }
        out.extend_from_slice(rest);
        out
    }

    /// The UPDATE rewritten; `None` if it has no announcement.
    fn update(&self, message: &[u8]) -> Option<Vec<u8>> {
        let withdrawn = word(message, HEADER)?;
        let at = HEADER + 2 + withdrawn;
        let len = word(message, at)?;
        let attributes = message.get(at + 2..at + 2 + len)?;
        let rewritten = self.attributes(attributes)?;
        let mut out = Vec::new();
        let (mut head, mut nlri) = (message[..at].to_vec(), &message[at + 2 + len..]);
        // What no longer fits in one message goes in two.
        loop {
            let room = MOST.saturating_sub(head.len() + 2 + rewritten.len());
            let (now, later) = nlri.split_at(whole_prefixes(nlri, room));
            let total = head.len() + 2 + rewritten.len() + now.len();
            head[16..18].copy_from_slice(&(total as u16).to_be_bytes());
            out.extend_from_slice(&head);
            out.extend_from_slice(&(rewritten.len() as u16).to_be_bytes());
            out.extend_from_slice(&rewritten);
            out.extend_from_slice(now);
            if later.is_empty() || now.is_empty() {
                return Some(out);
            }
            nlri = later;
            head.truncate(HEADER);
            head.extend_from_slice(&[0, 0]);
        }
    }

    fn attributes(&self, mut octets: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut announces = false;
        while let [flags, kind, ..] = *octets {
            let (len, start) =
                if flags & 0x10 != 0 { (word(octets, 2)?, 4) } else { (usize::from(*octets.get(2)?), 3) };
            let value = octets.get(start..start + len)?;
            announces |= kind == code::ORIGIN;
            match kind {
                _ if self.omits == Some(kind) => {}
                // Added below.
                code::ONLY_TO_CUSTOMER if self.only_to_customer.is_some() => {}
                code::MULTI_EXIT_DISC if self.med.is_some() => {}
                code::COMMUNITIES if self.no_export => {}
                code::ORIGIN => {
                    out.extend_from_slice(&[flags, kind, 1, self.origin.unwrap_or(*value.first()?)]);
                }
                code::NEXT_HOP if len == 4 => {
                    out.extend_from_slice(&[flags, kind, 4]);
                    match self.next_hop {
                        Some(hop) => out.extend_from_slice(&hop.octets()),
                        None => out.extend_from_slice(value),
                    }
                }
                code::AS_PATH if self.prepend > 0 && value.len() >= 6 => {
                    let more = usize::from(self.prepend);
                    out.extend_from_slice(&[flags & !0x10, kind, (len + 4 * more) as u8]);
                    out.extend_from_slice(&[value[0], value[1] + self.prepend]);
                    (0..more).for_each(|_| out.extend_from_slice(&value[2..6]));
                    out.extend_from_slice(&value[2..]);
                }
                _ => out.extend_from_slice(&octets[..start + len]),
            }
            octets = &octets[start + len..];
        }
        if let Some(med) = self.med {
            out.extend_from_slice(&[Flags::OPTIONAL, code::MULTI_EXIT_DISC, 4]);
            out.extend_from_slice(&med.to_be_bytes());
        }
        if self.no_export {
            out.extend_from_slice(&[Flags::OPTIONAL | Flags::TRANSITIVE, code::COMMUNITIES, 4]);
            out.extend_from_slice(&NO_EXPORT.to_be_bytes());
        }
        if let Some(asn) = self.only_to_customer.filter(|asn| *asn > 0) {
            out.extend_from_slice(&[Flags::OPTIONAL | Flags::TRANSITIVE, code::ONLY_TO_CUSTOMER, 4]);
            out.extend_from_slice(&asn.to_be_bytes());
        }
        announces.then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_rewritten_and_nothing_else() {
        let keepalive = [&[0xff; 16][..], &[0, 19, 4]].concat();
        let body = [
            &[0, 0, 0, 20][..],
            &[0x40, 1, 1, 0],
            &[0x40, 2, 6, 2, 1, 0, 0, 0, 7],
            &[0x40, 3, 4, 10, 0, 0, 1],
        ];
        let update = [&[0xff; 16][..], &[0, 43 + 4, 2], &body.concat(), &[24, 192, 0, 2]].concat();
        let next_hop = Some(Ipv4Addr::new(10, 0, 0, 9));
        let rewrite = Rewrite {
            origin: Some(2),
            med: Some(9),
            prepend: 1,
            next_hop,
            no_export: false,
            ..Rewrite::default()
        };
        let out = rewrite.apply([&keepalive[..], &update].concat());
        let expected_body = [
            &[0, 0, 0, 31][..],
            &[0x40, 1, 1, 2],
            &[0x40, 2, 10, 2, 2, 0, 0, 0, 7, 0, 0, 0, 7],
            &[0x40, 3, 4, 10, 0, 0, 9],
            &[0x80, 4, 4, 0, 0, 0, 9],
            &[24, 192, 0, 2],
        ];
        let expected = [&keepalive[..], &[0xff; 16], &[0, 58, 2], &expected_body.concat()].concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn what_gets_too_long_is_split() {
        let attributes = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0, 7, 0x40, 3, 4, 10, 0, 0, 1];
        let nlri: Vec<u8> = (0..1013u16).flat_map(|n| [24, 20, (n >> 8) as u8, n as u8]).collect();
        let len = (HEADER + 4 + attributes.len() + nlri.len()) as u16;
        let head = [&[0xff; 16][..], &len.to_be_bytes(), &[2, 0, 0, 0, 20]];
        let message = [&head.concat()[..], &attributes, &nlri].concat();
        let (mut whole, mut parts) = (crate::wire::Wire::default(), crate::wire::Wire::default());
        whole.read(&message);
        let out = Rewrite { prepend: 1, ..Rewrite::default() }.apply(message);
        assert!(out.len() > MOST);
        parts.read(&out);
        assert!(whole.wrong.is_empty() && parts.wrong.is_empty(), "{whole:?} {parts:?}");
        assert_eq!(whole.routes.len(), 1013);
        assert!(parts.routes.keys().eq(whole.routes.keys()));
    }
}
