//! Inputs, outputs and counters of the neighbor machine.

use super::table::Neighbor;
use crate::wire::nwp::{Form, Nonce, NwpError, SIGNED_LEN};
use crate::wire::{Hid, Mac};
use alloc::vec::Vec;
use serde::Serialize;
use sluice_base::InterfaceIndex;

/// The proof that neighbors of a link have to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub enum LinkProof {
    /// Neighbors are not challenged.
    #[default]
    Off,
    /// Neighbors are challenged. A refused neighbor is not used; a neighbor that does not answer is.
    Optional,
    /// Neighbors are challenged, and used once they have proven their HID.
    Required,
}

/// A link on which NWP runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Link {
    /// The interface.
    pub interface: InterfaceIndex,
    /// The interface's address.
    pub mac: Mac,
    /// The largest frame payload in octets.
    pub mtu: usize,
    /// The form of NWP.
    pub form: Form,
    /// This host's HIDs on the link; HIDs beyond 255, or beyond the MTU, are not announced.
    pub hids: Vec<Hid>,
    /// The proof that neighbors have to give.
    pub proof: LinkProof,
}

/// The number of a challenge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct ProofId(pub u64);

/// The number of a signature that the machine asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct SignatureId(pub u64);

/// The result of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum VerificationResult {
    /// The key's hash is the HID, and the signature fits.
    Verified,
    /// The key has a different hash, or the signature does not fit.
    Refused,
}

/// A question of the machine to the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProofRequest {
    /// Draw an unpredictable nonce for a challenge.
    DrawNonce(ProofId),
    /// Verify that SHA-1 of `key` is the HID and that `signature` is one of `message` by `key` (RSA, PKCS#1 v1.5, SHA-256).
    Verify {
        /// The number of the challenge.
        proof: ProofId,
        /// The HID.
        hid: Hid,
        /// The public key (DER, PKCS#1 RSAPublicKey).
        key: Vec<u8>,
        /// The signed octets.
        message: [u8; SIGNED_LEN],
        /// The signature.
        signature: Vec<u8>,
    },
    /// Sign `message` with the key of a local HID.
    Sign {
        /// The number of the request.
        id: SignatureId,
        /// The HID.
        hid: Hid,
        /// The octets to sign.
        message: [u8; SIGNED_LEN],
    },
}

/// An answer of the process to the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum ProofAnswer {
    /// Answers [`ProofRequest::DrawNonce`].
    Nonce(ProofId, Nonce),
    /// Answers [`ProofRequest::Verify`].
    Verified(ProofId, VerificationResult),
    /// Answers [`ProofRequest::Sign`].
    Signed {
        /// The number of the request.
        id: SignatureId,
        /// The public key (DER, PKCS#1 RSAPublicKey).
        key: Vec<u8>,
        /// The signature.
        signature: Vec<u8>,
    },
}

/// An input of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum Input {
    /// Adds a link, or replaces its settings.
    SetLink(Link),
    /// Removes a link and its neighbors.
    RemoveLink(InterfaceIndex),
    /// Adds a neighbor by the operator's order: not monitored, not challenged, not listed to others. The link need not exist.
    AddManual(Neighbor),
    /// Removes a neighbor, manual or learned.
    Remove(Neighbor),
    /// A frame of type 0xC0DF.
    Frame {
        /// The interface.
        interface: InterfaceIndex,
        /// The frame's source address.
        source: Mac,
        /// The frame's payload.
        octets: Vec<u8>,
    },
    /// An answer to [`Output::Proof`].
    Proof(ProofAnswer),
}

/// An effect that the machine asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a frame of type 0xC0DF.
    Send {
        /// The interface.
        interface: InterfaceIndex,
        /// The frame's destination address.
        destination: Mac,
        /// The frame's payload.
        octets: Vec<u8>,
    },
    /// A neighbor is usable from now on.
    Learned(Neighbor),
    /// A neighbor is not usable any more.
    Lost(Neighbor),
    /// A part of a proof that the machine leaves to the process: it knows no keys and draws nothing unpredictable.
    Proof(ProofRequest),
    /// An event for the operator.
    Event(Event),
}

/// An event for the operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A neighbor has proven to own its HID.
    Proven(Neighbor),
    /// A neighbor's proof was refused: the address claims a HID of a different host.
    Refused(Neighbor),
    /// A neighbor did not answer probes, while investigators did.
    Failed(InterfaceIndex, Mac),
    /// Neither a neighbor nor any investigator answered: this host's link may be broken.
    Isolated(InterfaceIndex, Mac),
    /// A neighbor was not added: the link or the table is full.
    Full(Neighbor),
}

/// The names of all reasons for dropped frames and refused neighbors.
pub const DROP_NAMES: [&str; 22] = [
    "truncated",
    "version",
    "unknown-type",
    "no-hids",
    "address-length",
    "malformed-proof",
    "unknown-link",
    "own-address",
    "group-address",
    "forged-sender",
    "misdirected",
    "replayed",
    "unsolicited-ack",
    "unsolicited-proof",
    "refused-proof",
    "foreign-challenge",
    "signature-limit",
    "challenge-limit",
    "investigation-limit",
    "answer-limit",
    "link-limit",
    "table-limit",
];

/// Counts of dropped frames and refused neighbors by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drops([u64; DROP_NAMES.len()]);

impl Drops {
    /// Returns the count of a reason; 0 for unknown names.
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
    }

    /// Returns all reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DROP_NAMES.into_iter().zip(self.0)
    }

    pub(super) fn count(&mut self, name: &'static str) {
        for (count, _) in self.0.iter_mut().zip(DROP_NAMES).filter(|(_, known)| *known == name) {
            *count += 1;
        }
    }

    pub(super) fn count_malformed(&mut self, error: NwpError) {
        self.count(error.name());
    }
}
