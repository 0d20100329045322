//! The cluster's key, and the keys derived from the cluster's key for each kind of frame.

use crate::frames::sip::SipKey;
use core::fmt;
use hmac::{Hmac, Mac as _};
use serde::{Serialize, Serializer};
use sha2::Sha256;

/// Octets of a key.
pub const KEY_LEN: usize = 32;
/// Octets of a tag of HMAC-SHA-256.
pub const TAG_LEN: usize = 32;

/// A key of the cluster, from the key file.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey(pub [u8; KEY_LEN]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// A recording of inputs names keys and has none: by the first octets of the HMAC-SHA-256 of "sluice name 1".
impl Serialize for ClusterKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.derive(b"sluice name 1");
        serializer.serialize_u32(name.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets)))
    }
}

impl ClusterKey {
    /// Returns the key of hello frames: the first 16 octets of the HMAC-SHA-256 (RFC 2104) of "sluice hello 1".
    pub fn hello(&self) -> SipKey {
        let derived = self.derive(b"sluice hello 1");
        let (words, _) = derived.as_chunks::<8>();
        [words[0], words[1]].map(u64::from_le_bytes)
    }

    /// Returns the tag of an announcement: HMAC-SHA-256 under the HMAC-SHA-256 of "sluice announce 1".
    pub fn tag(&self, octets: &[u8]) -> [u8; TAG_LEN] {
        self.announce(octets).finalize().into_bytes().into()
    }

    /// Returns true if `tag` is the tag of `octets`. The time does not depend on the tag.
    pub fn verifies(&self, octets: &[u8], tag: &[u8]) -> bool {
        self.announce(octets).verify_slice(tag).is_ok()
    }

    /// Returns the seed of the hashes by which balancers choose elements.
    pub fn seed(&self) -> u64 {
        let derived = self.derive(b"sluice flows 1");
        derived.first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets))
    }

    /// Returns the tag of a value in the store.
    pub(crate) fn stream_tag(&self, name: &str, content: &[u8]) -> [u8; TAG_LEN] {
        self.stream(name, content).finalize().into_bytes().into()
    }

    /// Returns true if `tag` is the tag of a value in the store. The time does not depend on the tag.
    pub(crate) fn verifies_stream(&self, name: &str, content: &[u8], tag: &[u8]) -> bool {
        self.stream(name, content).verify_slice(tag).is_ok()
    }

    fn stream(&self, name: &str, content: &[u8]) -> Hmac<Sha256> {
        let mut hmac = keyed(&self.derive(b"sluice stream 1"));
        hmac.update(name.as_bytes());
        hmac.update(&[0]);
        hmac.update(content);
        hmac
    }

    fn announce(&self, octets: &[u8]) -> Hmac<Sha256> {
        let mut hmac = keyed(&self.derive(b"sluice announce 1"));
        hmac.update(octets);
        hmac
    }

    fn derive(&self, label: &[u8]) -> [u8; TAG_LEN] {
        let mut hmac = keyed(&self.0);
        hmac.update(label);
        hmac.finalize().into_bytes().into()
    }
}

/// Returns HMAC-SHA-256 under a key of 32 octets, padded to the block of 64.
fn keyed(key: &[u8; KEY_LEN]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..KEY_LEN].copy_from_slice(key);
    Hmac::new(&block.into())
}

/// The keys that the cluster accepts: two while the key changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeyRing {
    /// The key of frames that this element sends.
    pub current: ClusterKey,
    /// The key before, or after.
    pub other: Option<ClusterKey>,
}

impl KeyRing {
    /// Makes a ring of one key.
    pub fn of(current: ClusterKey) -> Self {
        KeyRing { current, other: None }
    }

    /// Iterates over the keys.
    pub fn iter(&self) -> impl Iterator<Item = &ClusterKey> {
        core::iter::once(&self.current).chain(&self.other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, section 4.3 with the key of 4 octets padded by zeros, as HMAC pads.
    #[test]
    fn hmac_has_the_value_of_the_rfc() {
        let mut key = [0; KEY_LEN];
        key[..4].copy_from_slice(b"Jefe");
        let mut hmac = keyed(&key);
        hmac.update(b"what do ya want for nothing?");
        let tag: [u8; TAG_LEN] = hmac.finalize().into_bytes().into();
        assert_eq!(tag[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(tag[28..], [0x64, 0xec, 0x38, 0x43]);
    }

    #[test]
    fn keys_and_kinds_have_other_tags() {
        let (one, other) = (ClusterKey([1; 32]), ClusterKey([2; 32]));
        assert!(one.verifies(b"octets", &one.tag(b"octets")));
        assert!(!one.verifies(b"octets", &other.tag(b"octets")));
        assert!(!one.verifies(b"octet", &one.tag(b"octets")) && !one.verifies(b"octets", &[]));
        assert_ne!(one.hello(), other.hello());
        assert_eq!(std::format!("{one:?}"), "ClusterKey");
    }

    #[test]
    fn a_recording_has_no_key() {
        let recorded = |octet| postcard::to_allocvec(&KeyRing::of(ClusterKey([octet; KEY_LEN]))).unwrap();
        assert_ne!(recorded(1), recorded(2));
        // A name in at most five octets, and the absence of another key.
        assert!(recorded(1).len() <= 6, "{:?}", recorded(1));
    }
}
