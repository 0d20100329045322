//! Values in the store are sealed: whoever reaches the store without the cluster's key can remove routes, but not make any.
//!
//! A sealed value is the tag, HMAC-SHA-256 of the key's text, an octet 0 and the content, and then the content. The key is
//! HMAC-SHA-256 of `sluice stream 1` under the cluster's key.

use crate::frames::key::{ClusterKey, KeyRing, TAG_LEN};
use alloc::vec::Vec;

/// Returns the sealed form of the content of a key in the store.
pub fn seal(name: &str, content: &[u8], key: &ClusterKey) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(TAG_LEN + content.len());
    sealed.extend_from_slice(&key.stream_tag(name, content));
    sealed.extend_from_slice(content);
    sealed
}

/// Returns the content of a sealed value; `None` if no key gives its tag.
pub fn open<'a>(name: &str, sealed: &'a [u8], keys: &KeyRing) -> Option<&'a [u8]> {
    let (tag, content) = sealed.split_at_checked(TAG_LEN)?;
    keys.iter().any(|key| key.verifies_stream(name, content, tag)).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clusters_keys_open_a_value_and_only_under_its_name() {
        let [old, new] = [1, 2].map(|octet| ClusterKey([octet; 32]));
        let sealed = seal("head", b"content", &old);
        let ring = KeyRing { current: new.clone(), other: Some(old) };
        assert_eq!(open("head", &sealed, &ring), Some(&b"content"[..]));
        assert_eq!(open("log", &sealed, &ring), None);
        assert_eq!(open("head", &sealed, &KeyRing::of(new)), None);
        for length in 0..sealed.len() {
            assert_eq!(open("head", &sealed[..length], &ring), None);
        }
    }
}
