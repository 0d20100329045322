//! Keys of the router's own HIDs: proofs to neighbors, and the verification of neighbors' proofs (`docs/xia/wire.md`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey, EncodeRsaPublicKey};
use rsa::pkcs1v15::{Signature, SigningKey, VerifyingKey};
use rsa::pkcs8::DecodePrivateKey;
use rsa::rand_core::OsRng;
use rsa::sha2::Sha256;
use rsa::signature::{RandomizedSigner, SignatureEncoding, Verifier};
use rsa::traits::PublicKeyParts;
use rsa::{RsaPrivateKey, RsaPublicKey};
use sha1::{Digest, Sha1};
use sluice_xip::neighbors::VerificationResult;
use sluice_xip::wire::Hid;
use std::fmt;

/// The sizes of keys in bits. Larger keys would cost more time than a challenge is worth.
const BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// The reason why a key cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not base64.
    #[error(
        "the private key is not base64; give the DER form, as of `openssl rsa -outform DER | base64 -w0`"
    )]
    Base64,
    /// The octets are not a key.
    #[error("the private key is no RSA key in DER (PKCS#1 or PKCS#8)")]
    Key,
    /// The key has another size.
    #[error("the private key has {0} bits; 2048 to 4096 are used")]
    Size(usize),
}

/// The key of a HID.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey {
    hid: Hid,
    public: Vec<u8>,
    private: RsaPrivateKey,
}

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
        let private = RsaPrivateKey::from_pkcs1_der(&octets)
            .or_else(|_| RsaPrivateKey::from_pkcs8_der(&octets))
            .map_err(|_| KeyError::Key)?;
        let bits = private.n().bits();
        if !BITS.contains(&bits) {
            return Err(KeyError::Size(bits));
        }
        let public = private.to_public_key().to_pkcs1_der().map_err(|_| KeyError::Key)?.into_vec();
        Ok(HostKey { hid: hid_of(&public), public, private })
    }

    /// Returns the HID: the hash of the public key.
    pub const fn hid(&self) -> Hid {
        self.hid
    }

    /// Returns the public key (PKCS#1, DER).
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Signs octets (RSA, PKCS#1 v1.5, SHA-256). Random blinding hides the key from observers of the time.
    pub fn sign(&self, octets: &[u8]) -> Vec<u8> {
        SigningKey::<Sha256>::new(self.private.clone()).sign_with_rng(&mut OsRng, octets).to_vec()
    }
}

fn hid_of(public: &[u8]) -> Hid {
    Hid(Sha1::digest(public).into())
}

/// Verifies a proof: the HID is the hash of the public key (PKCS#1, DER), and the signature of the octets is by the key.
pub fn verify(hid: Hid, public: &[u8], octets: &[u8], signature: &[u8]) -> VerificationResult {
    let fits = || {
        let key = RsaPublicKey::from_pkcs1_der(public).ok()?;
        let signature = Signature::try_from(signature).ok()?;
        let is_of_hid = hid_of(public) == hid && BITS.contains(&key.n().bits());
        (is_of_hid && VerifyingKey::<Sha256>::new(key).verify(octets, &signature).is_ok()).then_some(())
    };
    match fits() {
        Some(()) => VerificationResult::Verified,
        None => VerificationResult::Refused,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rsa::pkcs1::EncodeRsaPrivateKey;
    use rsa::pkcs8::EncodePrivateKey;

    /// A key as the configuration has it.
    pub(crate) fn key(bits: usize) -> RsaPrivateKey {
        RsaPrivateKey::new(&mut OsRng, bits).expect("a key")
    }

    #[test]
    fn a_proof_is_for_its_key_and_its_octets() {
        let private = key(2048);
        let pkcs1 = STANDARD.encode(private.to_pkcs1_der().expect("DER").as_bytes());
        let pkcs8 = STANDARD.encode(private.to_pkcs8_der().expect("DER").as_bytes());
        let own = HostKey::parse(&pkcs1).expect("a key");
        assert_eq!(HostKey::parse(&pkcs8).expect("a key"), own);
        let signature = own.sign(b"challenge");
        let result = |hid, octets: &[u8], signature: &[u8]| verify(hid, own.public(), octets, signature);
        assert_eq!(result(own.hid(), b"challenge", &signature), VerificationResult::Verified);
        assert_eq!(result(own.hid(), b"another", &signature), VerificationResult::Refused);
        assert_eq!(result(Hid([1; 20]), b"challenge", &signature), VerificationResult::Refused);
        assert_eq!(result(own.hid(), b"challenge", &signature[1..]), VerificationResult::Refused);
        assert_eq!(verify(own.hid(), b"", b"challenge", &signature), VerificationResult::Refused);
        assert!(!format!("{own:?}").contains(&pkcs1[..16]), "no key in a log");
    }

    #[test]
    fn bad_keys_are_refused_with_their_reason() {
        assert_eq!(HostKey::parse("?"), Err(KeyError::Base64));
        assert_eq!(HostKey::parse("AAAA"), Err(KeyError::Key));
        let small = STANDARD.encode(key(1024).to_pkcs1_der().expect("DER").as_bytes());
        assert_eq!(HostKey::parse(&small), Err(KeyError::Size(1024)));
    }
}
