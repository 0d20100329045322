//! Keys of the router's own HIDs: proofs to neighbors, and the verification of neighbors' proofs (`docs/xia/wire.md`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::SystemRandom;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey};
use sluice_xip::neighbors::VerificationResult;
use sluice_xip::wire::Hid;
use std::fmt;
use std::sync::Arc;

/// The reason why a key cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not base64.
    #[error(
        "the private key is not base64; give the DER form, as of `openssl rsa -outform DER | base64 -w0`"
    )]
    Base64,
    /// The octets are not a key of a supported size.
    #[error("the private key is no RSA key of 2048 to 4096 bits in DER (PKCS#1 or PKCS#8): {0}")]
    Key(String),
}

/// The key of a HID.
#[derive(Clone)]
pub struct HostKey {
    hid: Hid,
    private: Arc<RsaKeyPair>,
}

impl PartialEq for HostKey {
    /// Compares the HIDs: hashes of the keys.
    fn eq(&self, other: &Self) -> bool {
        self.hid == other.hid
    }
}

impl Eq for HostKey {}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKey({})", self.hid)
    }
}

impl HostKey {
    /// Reads a private key: PKCS#1 or PKCS#8 in DER, in base64.
    ///
    /// # Errors
    /// The text is not a key, or the key's size is not supported.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let octets = STANDARD.decode(text).map_err(|_| KeyError::Base64)?;
        let private = RsaKeyPair::from_pkcs8(&octets)
            .or_else(|_| RsaKeyPair::from_der(&octets))
            .map_err(|error| KeyError::Key(error.to_string()))?;
        Ok(HostKey { hid: hid_of(private.public_key().as_ref()), private: Arc::new(private) })
    }

    /// Returns the HID: the hash of the public key.
    pub const fn hid(&self) -> Hid {
        self.hid
    }

    /// Returns the public key (PKCS#1, DER).
    pub fn public(&self) -> &[u8] {
        self.private.public_key().as_ref()
    }

    /// Signs octets (RSA, PKCS#1 v1.5, SHA-256). `None` without random octets for blinding.
    pub fn sign(&self, octets: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.private.public().modulus_len()];
        self.private.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), octets, &mut signature).ok()?;
        Some(signature)
    }
}

/// Returns the SHA-1 hash: 20 octets, the length of an ID.
fn hid_of(public: &[u8]) -> Hid {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, public);
    Hid(std::array::from_fn(|at| hash.as_ref().get(at).copied().unwrap_or_default()))
}

/// Verifies a proof: the HID is the hash of the public key (PKCS#1, DER), and the signature of the octets is by the key.
pub fn verify(hid: Hid, public: &[u8], octets: &[u8], signature: &[u8]) -> VerificationResult {
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
    if hid_of(public) == hid && key.verify(octets, signature).is_ok() {
        VerificationResult::Verified
    } else {
        VerificationResult::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: &str = include_str!("../tests/keys/near.txt");
    const NEAR_PKCS8: &str = include_str!("../tests/keys/near-pkcs8.txt");
    const SHORT: &str = include_str!("../tests/keys/short.txt");

    #[test]
    fn a_proof_is_for_its_key_and_its_octets() {
        let own = HostKey::parse(NEAR).expect("a key");
        assert_eq!(own.hid().to_string(), "hid-5fa7ef4dce0d5897826aec13bdbc3d8970d59343");
        assert_eq!(HostKey::parse(NEAR_PKCS8).expect("a key"), own);
        let signature = own.sign(b"challenge").expect("random octets");
        let result = |hid, octets: &[u8], signature: &[u8]| verify(hid, own.public(), octets, signature);
        assert_eq!(result(own.hid(), b"challenge", &signature), VerificationResult::Verified);
        assert_eq!(result(own.hid(), b"another", &signature), VerificationResult::Refused);
        assert_eq!(result(Hid([1; 20]), b"challenge", &signature), VerificationResult::Refused);
        assert_eq!(result(own.hid(), b"challenge", &signature[1..]), VerificationResult::Refused);
        assert_eq!(verify(own.hid(), b"", b"challenge", &signature), VerificationResult::Refused);
        assert!(!format!("{own:?}").contains(&NEAR[..16]), "no key in a log");
    }

    #[test]
    fn bad_keys_are_refused_with_their_reason() {
        assert_eq!(HostKey::parse("?"), Err(KeyError::Base64));
        assert!(matches!(HostKey::parse("AAAA"), Err(KeyError::Key(_))));
        let short = HostKey::parse(SHORT).expect_err("too short").to_string();
        assert!(short.contains("2048"), "{short}");
    }
}
