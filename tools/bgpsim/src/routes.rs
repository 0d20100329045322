//! The prefixes of an UPDATE, for counting.

use crate::wire::attribute::{Attributes, code};
use crate::wire::{AFI_IPV6, Malformed, MpReach, MpUnreach, Nlri, SAFI_UNICAST, Update, path_ids};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix};

/// Calls `each` with every prefix of an UPDATE's body, and true for an announcement or false for a withdrawal. Skips
/// families that the client does not support.
pub fn each(body: &[u8], mut each: impl FnMut(IpPrefix, bool)) -> Result<(), Malformed> {
    fields(body, |field| {
        if field.is_v4 {
            for prefix in Nlri::<Ipv4Prefix>::new(field.octets) {
                each(prefix?.into(), field.announced);
            }
        } else {
            for prefix in Nlri::<Ipv6Prefix>::new(field.octets) {
                each(prefix?.into(), field.announced);
            }
        }
        Ok(())
    })
}

/// Calls `each` as [`each`] does, in a session with path identifiers (RFC 7911, section 3): with the identifier behind the prefix.
pub fn each_path(body: &[u8], mut each: impl FnMut(IpPrefix, u32, bool)) -> Result<(), Malformed> {
    fields(body, |field| {
        if field.is_v4 {
            for path in path_ids::<Ipv4Prefix>(field.octets) {
                let (id, prefix) = path?;
                each(prefix.into(), id, field.announced);
            }
        } else {
            for path in path_ids::<Ipv6Prefix>(field.octets) {
                let (id, prefix) = path?;
                each(prefix.into(), id, field.announced);
            }
        }
        Ok(())
    })
}

/// A field of prefixes in an UPDATE.
struct Field<'a> {
    octets: &'a [u8],
    /// True for IPv4, false for IPv6.
    is_v4: bool,
    /// True for announcements, false for withdrawals.
    announced: bool,
}

/// Calls `take` with every field of prefixes of an UPDATE's body.
fn fields<'a>(
    body: &'a [u8],
    mut take: impl FnMut(Field<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let update = Update::decode(body)?;
    take(Field { octets: update.withdrawn, is_v4: true, announced: false })?;
    // Without IPv4 prefixes the routes, if any, are in the attributes; with them there are hardly ever any others, but they
    // might be there.
    for attribute in Attributes::new(update.attributes) {
        let attribute = attribute?;
        let (octets, announced) = match attribute.code {
            code::MP_REACH_NLRI => {
                let reach = MpReach::decode(attribute.value)?;
                if (reach.afi, reach.safi) != (AFI_IPV6, SAFI_UNICAST) {
                    continue;
                }
                (reach.nlri, true)
            }
            code::MP_UNREACH_NLRI => {
                let unreach = MpUnreach::decode(attribute.value)?;
                if (unreach.afi, unreach.safi) != (AFI_IPV6, SAFI_UNICAST) {
                    continue;
                }
                (unreach.withdrawn, false)
            }
            _ => continue,
        };
        take(Field { octets, is_v4: false, announced })?;
    }
    take(Field { octets: update.nlri, is_v4: true, announced: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Attributes, Voice};
    use crate::stream::Stream;
    use proptest::prelude::*;
    use sluice_base::prefix::Prefix;
    use sluice_base::{Asn, RouterId};
    use sluice_bgp::attributes::{ReceiveRules, Scan, Verdict};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn prefixes() -> impl Strategy<Value = Vec<IpPrefix>> {
        let v4 = (any::<u32>(), 0u8..=32).prop_map(|(b, l)| Ipv4Prefix::from_parts(b, l).unwrap().into());
        let v6 = (any::<u128>(), 0u8..=128).prop_map(|(b, l)| Ipv6Prefix::from_parts(b, l).unwrap().into());
        prop_oneof![prop::collection::vec(v4, 1..1500), prop::collection::vec(v6, 1..500)]
    }

    /// The messages of a stream of so many paths, looked into as the router would: prefixes with their path identifiers, 1 if there are
    /// none.
    fn read(stream: &Stream, paths: u32) -> (Vec<(IpPrefix, u32, bool)>, Vec<usize>) {
        let (mut all, mut counts) = (Vec::new(), Vec::new());
        let mut rest = stream.octets(0..stream.len());
        while let Some(frame) = crate::wire::header::frame(rest).unwrap() {
            let before = all.len();
            if paths > 1 {
                each_path(frame.body, |prefix, id, announced| all.push((prefix, id, announced))).unwrap();
            } else {
                each(frame.body, |prefix, announced| all.push((prefix, 1, announced))).unwrap();
            }
            counts.push(all.len() - before);
            rest = &rest[frame.len()..];
        }
        assert!(rest.is_empty());
        (all, counts)
    }

    proptest! {
        #[test]
        fn what_is_said_is_read(
            prefixes in prefixes(),
            path in prop::collection::vec(1u32.., 0..600),
            per_message in 1usize..700,
            internal in any::<bool>(),
            withdraw in any::<bool>(),
            paths in 1u32..4,
        ) {
            let path: Vec<Asn> = path.into_iter().map(Asn).collect();
            let voice = Voice {
                asn: Asn(70_000), internal, per_message, paths,
                next_hop_v4: Ipv4Addr::new(10, 0, 0, 2), next_hop_v6: "2001:db8::2".parse::<Ipv6Addr>().unwrap(),
            };
            let mut stream = Stream::default();
            if withdraw {
                voice.withdraw(&prefixes, &mut stream);
            } else {
                prop_assert_eq!(voice.announce(&Attributes::of_path(&path), &prefixes, &mut stream), 0);
            }
            let (all, counts) = read(&stream, paths);
            let of_path = |path| prefixes.iter().map(move |p| (*p, path, !withdraw));
            let expected: Vec<_> = (1..=paths).flat_map(of_path).collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(counts.len(), stream.len());
            for (message, count) in counts.iter().enumerate() {
                prop_assert!(*count <= per_message);
                prop_assert_eq!(stream.prefixes(message..message + 1), *count);
            }
        }
    }

    #[test]
    fn attributes_that_leave_no_room() {
        let voice = Voice {
            asn: Asn(1),
            internal: false,
            per_message: 9,
            next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
            next_hop_v6: Ipv6Addr::UNSPECIFIED,
            paths: 1,
        };
        let long = Attributes { rest: vec![0; 4060], ..Attributes::default() };
        let mut stream = Stream::default();
        assert_eq!(voice.announce(&long, &["10.0.0.0/8".parse().unwrap()], &mut stream), 1);
        assert!(stream.is_empty());
    }

    /// The target's parser finds no error in the message.
    #[test]
    fn well_formed_by_the_rules() {
        let voice = Voice {
            asn: Asn(70_000),
            internal: false,
            per_message: 500,
            next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
            next_hop_v6: "2001:db8::2".parse().unwrap(),
            paths: 1,
        };
        let local = Ipv4Addr::new(10, 0, 0, 1).into();
        let rules = ReceiveRules::new(Asn(64500), RouterId(1), voice.asn, local);
        for prefix in ["20.0.0.0/8", "2001:db8::/32"] {
            let mut stream = Stream::default();
            voice.announce(&Attributes::of_path(&[Asn(5), Asn(6)]), &[prefix.parse().unwrap()], &mut stream);
            let frame = sluice_bgp::wire::header::frame(stream.octets(0..1)).unwrap().unwrap();
            let update = sluice_bgp::wire::Update::decode(frame.body).unwrap();
            let scan = Scan::new(&update, &rules);
            assert_eq!((scan.verdict(&update), scan.error), (Verdict::Accept, None), "{prefix}");
        }
    }
}
