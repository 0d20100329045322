//! The proof that a neighbor owns a HID: a challenge with a nonce, and a signature with the key whose hash is the HID.
//!
//! The codec carries octets only. The process computes SHA-1 and signatures.

use super::encode::put_head;
use super::{NwpError, kind, mac};
use crate::wire::Mac;
use crate::wire::hid::Hid;
use alloc::vec::Vec;
use sluice_wire::Cursor;

/// Octets of a nonce.
pub(crate) const NONCE_LEN: usize = 32;
/// The most octets of a key: an RSA key of 4,096 bits has 526.
pub(crate) const MOST_KEY: usize = 600;
/// The most octets of a signature: 4,096 bits.
pub(crate) const MOST_SIGNATURE: usize = 512;

/// A random number that is used once. Must be unpredictable, and thus comes from the process.
pub type Nonce = [u8; NONCE_LEN];

/// Begins the signed octets, so that no signature for a different purpose passes.
const CONTEXT: [u8; 20] = *b"sluice nwp hid proof";

/// Octets that are signed.
pub(crate) const SIGNED_LEN: usize = CONTEXT.len() + 2 * Mac::LEN + Hid::LEN + NONCE_LEN;

/// Returns the octets that the owner of a HID signs: a fixed context, the challenger's address, the owner's address, the HID
/// and the nonce.
///
/// The interface is not part of them: each end has a number of its own for the link. The addresses bind the proof to the link: a relay in the
/// middle would have to use the owner's address itself.
pub fn signed_octets(challenger: Mac, owner: Mac, hid: Hid, nonce: &Nonce) -> [u8; SIGNED_LEN] {
    let mut octets = [0; SIGNED_LEN];
    let parts = [&CONTEXT[..], &challenger.0, &owner.0, &hid.0, nonce];
    octets.iter_mut().zip(parts.into_iter().flatten()).for_each(|(place, octet)| *place = *octet);
    octets
}

/// A challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The challenger's address.
    pub sender: Mac,
    /// The HID to prove.
    pub hid: Hid,
    /// The nonce to sign.
    pub nonce: Nonce,
}

impl Challenge {
    pub(super) fn decode(c: &mut Cursor<'_>, hid_count: u8) -> Result<Self, NwpError> {
        if hid_count != 1 {
            return Err(NwpError::Proof);
        }
        Ok(Challenge { sender: mac(c)?, hid: Hid(c.array()?), nonce: c.array()? })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_head(kind::CHALLENGE, 1, out);
        out.extend_from_slice(&self.sender.0);
        out.extend_from_slice(&self.hid.0);
        out.extend_from_slice(&self.nonce);
    }
}

/// A proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    /// The owner's address.
    pub sender: Mac,
    /// The HID.
    pub hid: Hid,
    /// The challenge's nonce.
    pub nonce: Nonce,
    /// The public key (DER, PKCS#1 RSAPublicKey), 1 to [`MOST_KEY`] octets. Not verified.
    pub key: &'a [u8],
    /// The signature of [`signed_octets`], 1 to [`MOST_SIGNATURE`] octets. Not verified.
    pub signature: &'a [u8],
}

impl<'a> Response<'a> {
    pub(super) fn decode(c: &mut Cursor<'a>, hid_count: u8) -> Result<Self, NwpError> {
        if hid_count != 1 {
            return Err(NwpError::Proof);
        }
        let (sender, hid, nonce) = (mac(c)?, Hid(c.array()?), c.array()?);
        let mut counted = |most: usize| {
            let len = usize::from(c.u16()?);
            if (1..=most).contains(&len) { Ok(c.take(len)?) } else { Err(NwpError::Proof) }
        };
        Ok(Response { sender, hid, nonce, key: counted(MOST_KEY)?, signature: counted(MOST_SIGNATURE)? })
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_head(kind::RESPONSE, 1, out);
        out.extend_from_slice(&self.sender.0);
        out.extend_from_slice(&self.hid.0);
        out.extend_from_slice(&self.nonce);
        for (field, most) in [(self.key, MOST_KEY), (self.signature, MOST_SIGNATURE)] {
            let field = field.get(..field.len().min(most)).unwrap_or_default();
            out.extend_from_slice(&(field.len() as u16).to_be_bytes());
            out.extend_from_slice(field);
        }
    }
}
