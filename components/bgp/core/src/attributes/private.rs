//! Private properties of a route, written by policy and not sent to neighbors: weight, tags, distance at the RIB, flap damping, and more.
//!
//! The properties are one attribute at the front of a canonical set, so sets differ where these properties differ. The
//! attribute's flags octet has a bit never present in canonical attributes from outside ([`put_header`] clears unused flags).
//! A set without properties lacks the attribute.
//!
//! [`put_header`]: crate::wire::attribute::put_header

use alloc::vec::Vec;
use core::fmt;
use sluice_policy::source::{Damping, NO_DAMPING};
use smallvec::SmallVec;

/// The flags octet and the code of the attribute (code 0 is reserved by IANA).
const HEADER: [u8; 2] = [0x01, 0];
/// Octets before the properties: flags, code, length.
const HEADER_LEN: usize = 3;

/// Kinds of properties: kind, length, value.
mod kind {
    pub(crate) const WEIGHT: u8 = 1;
    pub const TAG: u8 = 2;
    pub(crate) const RIB_DISTANCE: u8 = 3;
    pub const BLACKHOLE: u8 = 4;
    pub const METRIC: u8 = 5;
    pub(crate) const DAMPING: u8 = 6;
}

/// Octets of the parameters of flap damping before their name.
const DAMPING_LEN: usize = 10;
/// Octets of a name of parameters, at most.
const LONGEST_NAME: usize = 64;

/// Tags of a route, at most.
pub const MOST_TAGS: usize = 16;

/// The private properties of a route.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Private {
    /// The first criterion of the decision; the highest weight wins.
    pub weight: u16,
    /// Marks for policies, here and at the RIB (XORP, section 5.1: the tag list).
    pub tags: SmallVec<[u32; 2]>,
    /// The distance of the route at the RIB, if not BGP's own.
    pub rib_distance: Option<u8>,
    /// True if packets to the prefix are dropped.
    pub is_blackhole: bool,
    /// The metric of a redistributed route.
    pub metric: Option<u32>,
    /// The flap damping chosen by policy; `None` for the router's.
    pub damping: Option<RouteDamping>,
}

/// The flap damping (RFC 2439) of a route, chosen by policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteDamping {
    /// Flaps are not counted.
    Off,
    /// Damping with these parameters.
    By(Damping),
}

impl fmt::Display for RouteDamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RouteDamping::Off => NO_DAMPING,
            RouteDamping::By(damping) => &damping.name,
        })
    }
}

impl RouteDamping {
    /// Reads the value of the property; `None` for a wrong form.
    fn read(value: &[u8]) -> Option<Self> {
        let Some((&[half_life, max_suppress_time, a, b, c, d, e, f, g, h], name)) =
            value.split_first_chunk::<DAMPING_LEN>()
        else {
            return value.is_empty().then_some(RouteDamping::Off);
        };
        Some(RouteDamping::By(Damping {
            name: str::from_utf8(name).ok()?.into(),
            half_life,
            reuse: u32::from_be_bytes([a, b, c, d]),
            suppress: u32::from_be_bytes([e, f, g, h]),
            max_suppress_time,
        }))
    }

    fn value(&self) -> Vec<u8> {
        let RouteDamping::By(damping) = self else { return Vec::new() };
        let mut value = Vec::from([damping.half_life, damping.max_suppress_time]);
        value.extend(damping.reuse.to_be_bytes());
        value.extend(damping.suppress.to_be_bytes());
        value.extend(damping.name.bytes().take(LONGEST_NAME));
        value
    }
}

impl Private {
    /// Returns the private properties of a canonical set.
    pub fn of(canonical: &[u8]) -> Self {
        let mut private = Private::default();
        let mut rest = split(canonical).0;
        while let [kind, len, after @ ..] = rest
            && let Some((value, behind)) = after.split_at_checked(usize::from(*len))
        {
            match (*kind, value) {
                (kind::WEIGHT, &[a, b]) => private.weight = u16::from_be_bytes([a, b]),
                (kind::TAG, &[a, b, c, d]) => private.tags.push(u32::from_be_bytes([a, b, c, d])),
                (kind::RIB_DISTANCE, &[distance]) => private.rib_distance = Some(distance),
                (kind::BLACKHOLE, _) => private.is_blackhole = true,
                (kind::DAMPING, value) => private.damping = RouteDamping::read(value),
                (kind::METRIC, &[a, b, c, d]) => private.metric = Some(u32::from_be_bytes([a, b, c, d])),
                _ => {}
            }
            rest = behind;
        }
        private
    }

    /// Appends the attribute, or nothing without properties. To be called before any other attribute is appended. Tags beyond
    /// [`MOST_TAGS`] are left out.
    pub fn put(&self, out: &mut Vec<u8>) {
        if *self == Private::default() {
            return;
        }
        let begin = out.len() + HEADER_LEN;
        out.extend_from_slice(&HEADER);
        out.push(0);
        if self.weight > 0 {
            put_property(kind::WEIGHT, &self.weight.to_be_bytes(), out);
        }
        for tag in self.tags.iter().take(MOST_TAGS) {
            put_property(kind::TAG, &tag.to_be_bytes(), out);
        }
        if let Some(distance) = self.rib_distance {
            put_property(kind::RIB_DISTANCE, &[distance], out);
        }
        if self.is_blackhole {
            put_property(kind::BLACKHOLE, &[], out);
        }
        if let Some(metric) = self.metric {
            put_property(kind::METRIC, &metric.to_be_bytes(), out);
        }
        if let Some(damping) = &self.damping {
            put_property(kind::DAMPING, &damping.value(), out);
        }
        // At most 4 + 16 * 6 + 3 + 2 + 6 + 76 octets.
        out[begin - 1] = (out.len() - begin) as u8;
    }
}

fn put_property(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, value.len() as u8]);
    out.extend_from_slice(value);
}

/// Returns true if a canonical set has private properties.
#[inline]
pub fn is_in(canonical: &[u8]) -> bool {
    canonical.starts_with(&HEADER)
}

/// Returns the private properties of a canonical set as octets, and the set's attributes.
#[inline]
pub fn split(canonical: &[u8]) -> (&[u8], &[u8]) {
    match canonical {
        [first, code, len, rest @ ..] if [*first, *code] == HEADER => {
            rest.split_at_checked(usize::from(*len)).unwrap_or_default()
        }
        _ => (&[], canonical),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn damping() -> impl Strategy<Value = RouteDamping> {
        let parameters = ("[a-z]{1,64}", any::<[u8; 2]>(), any::<[u32; 2]>());
        let by = parameters.prop_map(|(name, [half_life, max_suppress_time], [reuse, suppress])| {
            RouteDamping::By(Damping { name, half_life, reuse, suppress, max_suppress_time })
        });
        prop_oneof![Just(RouteDamping::Off), by]
    }

    proptest! {
        #[test]
        fn properties_are_read_as_written(
            weight in any::<u16>(),
            tags in prop::collection::vec(any::<u32>(), 0..MOST_TAGS),
            rib_distance in prop::option::of(any::<u8>()),
            is_blackhole in any::<bool>(),
            metric in prop::option::of(any::<u32>()),
            damping in prop::option::of(damping()),
        ) {
            let private = Private { weight, tags: tags.into(), rib_distance, is_blackhole, metric, damping };
            let mut octets = Vec::new();
            private.put(&mut octets);
            prop_assert_eq!(octets.is_empty(), private == Private::default());
            octets.extend_from_slice(&[0x40, 1, 1, 0]);
            prop_assert_eq!(Private::of(&octets), private);
            prop_assert_eq!(split(&octets).1, &[0x40, 1, 1, 0][..]);
        }

        #[test]
        fn any_octets_are_read(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            let octets = [&HEADER[..], &octets].concat();
            Private::of(&octets);
        }
    }
}
