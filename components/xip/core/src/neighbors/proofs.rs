//! Challenges under way.

use super::io::{ProofId, SignatureId};
use super::table::Neighbor;
use crate::wire::nwp::{NONCE_LEN, Nonce};
use crate::wire::{Hid, Mac};
use alloc::vec::Vec;
use sluice_base::{Instant, InterfaceIndex};

/// The step of a challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The process draws a nonce.
    Nonce,
    /// The neighbor has the nonce.
    Sent(Nonce),
    /// The process verifies the answer.
    Verifying,
}

/// A challenge of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outstanding {
    pub(super) id: ProofId,
    pub(super) neighbor: Neighbor,
    pub(super) stage: Stage,
    pub(super) tries: u8,
}

/// A signature that a neighbor asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signature {
    pub(super) id: SignatureId,
    pub(super) interface: InterfaceIndex,
    pub(super) challenger: Mac,
    pub(super) hid: Hid,
    pub(super) nonce: [u8; NONCE_LEN],
    pub(super) until: Instant,
}

/// Challenges under way, in both directions.
#[derive(Clone, Debug, Default)]
pub(super) struct Proofs {
    pub(super) outstanding: Vec<Outstanding>,
    pub(super) signatures: Vec<Signature>,
    last_id: u64,
}

impl Proofs {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn get_mut(&mut self, id: ProofId) -> Option<&mut Outstanding> {
        self.outstanding.iter_mut().find(|outstanding| outstanding.id == id)
    }

    pub(super) fn take(&mut self, id: ProofId) -> Option<Outstanding> {
        let place = self.outstanding.iter().position(|outstanding| outstanding.id == id)?;
        Some(self.outstanding.swap_remove(place))
    }

    pub(super) fn forget_signatures(&mut self, interface: InterfaceIndex) {
        self.signatures.retain(|signature| signature.interface != interface);
    }
}
