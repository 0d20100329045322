//! Proofs that neighbors own their HIDs, and this host's proofs to neighbors.
//!
//! A neighbor is challenged when it is learned. It has 2 s to answer, and three tries. A neighbor that does not answer, such as one
//! without the extension, is challenged again when it announces itself after 30 s; a refused one after 60 s.

use super::io::{
    Event, LinkProof, Output, ProofAnswer, ProofId, ProofRequest, SignatureId, VerificationResult,
};
use super::proofs::{Outstanding, Signature, Stage};
use super::state::{Neighbors, Timer};
use super::table::{Neighbor, Origin, ProofState};
use crate::wire::nwp::{Challenge, Message, Nonce, Response, signed_octets};
use alloc::vec::Vec;
use sluice_base::{Duration, Instant, InterfaceIndex};
use sluice_machine::Outbox;

/// The most outstanding challenges, of all links.
pub const MOST_OUTSTANDING: usize = 64;
/// The most signatures that the process is asked for at the same time.
pub const MOST_SIGNATURES: usize = 16;

/// The time to answer a challenge, and the process's time for a nonce or a verification.
const ANSWER: Duration = Duration::from_secs(2);
/// Challenges without answer before the neighbor counts as unproven.
const TRIES: u8 = 3;
/// The time before a silent neighbor is challenged again.
const AFTER_SILENCE: Duration = Duration::from_secs(30);
/// The time before a refused neighbor is challenged again.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);
/// The process's time for a signature.
const SIGNATURE: Duration = Duration::from_secs(10);

impl Neighbors {
    pub(super) fn receive_answer(&mut self, now: Instant, answer: ProofAnswer, out: &mut Outbox<Output>) {
        match answer {
            ProofAnswer::Nonce(id, nonce) => self.send_challenge(now, id, nonce, out),
            ProofAnswer::Verified(id, result) => self.conclude(now, id, result, out),
            ProofAnswer::Signed { id, key, signature } => self.send_response(id, &key, &signature, out),
        }
    }

    /// Challenges a neighbor whose link wants proofs and whose last challenge is long ago.
    pub(super) fn challenge_if_due(&mut self, now: Instant, neighbor: Neighbor, out: &mut Outbox<Output>) {
        let Some(link) = self.links.get(&neighbor.interface) else { return };
        let Some(entry) = self.table.get_mut(neighbor) else { return };
        let is_due = match entry.proof {
            ProofState::Unproven(after) | ProofState::Refused(after) => now >= after,
            ProofState::Challenged | ProofState::Proven => false,
        };
        let is_outstanding = self.proofs.outstanding.iter().any(|known| known.neighbor == neighbor);
        if link.settings.proof == LinkProof::Off
            || entry.origin == Origin::Manual
            || !is_due
            || is_outstanding
        {
            return;
        }
        if self.proofs.outstanding.len() >= MOST_OUTSTANDING {
            self.drops.count("challenge-limit");
            return;
        }
        // A refused neighbor stays unusable until the new proof.
        if !matches!(entry.proof, ProofState::Refused(_)) {
            entry.proof = ProofState::Challenged;
        }
        let id = ProofId(self.proofs.next_id());
        self.proofs.outstanding.push(Outstanding { id, neighbor, stage: Stage::Nonce, tries: 1 });
        self.timers.start(now, Timer::Proof(id), ANSWER);
        out.push(Output::Proof(ProofRequest::DrawNonce(id)));
    }

    fn send_challenge(&mut self, now: Instant, id: ProofId, nonce: Nonce, out: &mut Outbox<Output>) {
        let Some(outstanding) = self.proofs.get_mut(id).filter(|known| known.stage == Stage::Nonce) else {
            return;
        };
        outstanding.stage = Stage::Sent(nonce);
        let Neighbor { interface, hid, mac } = outstanding.neighbor;
        let Some(link) = self.links.get(&interface) else { return };
        self.timers.start(now, Timer::Proof(id), ANSWER);
        let challenge = Challenge { sender: link.settings.mac, hid, nonce };
        Self::send(interface, mac, &Message::Challenge(challenge), out);
    }

    pub(super) fn receive_response(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        response: &Response<'_>,
        out: &mut Outbox<Output>,
    ) {
        let neighbor = Neighbor { interface, hid: response.hid, mac: response.sender };
        let is_answered = |known: &&mut Outstanding| {
            known.neighbor == neighbor && known.stage == Stage::Sent(response.nonce)
        };
        let (Some(link), Some(outstanding)) =
            (self.links.get(&interface), self.proofs.outstanding.iter_mut().find(is_answered))
        else {
            self.drops.count("unsolicited-proof");
            return;
        };
        outstanding.stage = Stage::Verifying;
        self.timers.start(now, Timer::Proof(outstanding.id), ANSWER);
        out.push(Output::Proof(ProofRequest::Verify {
            proof: outstanding.id,
            hid: neighbor.hid,
            key: response.key.to_vec(),
            message: signed_octets(link.settings.mac, neighbor.mac, neighbor.hid, &response.nonce),
            signature: response.signature.to_vec(),
        }));
    }

    fn conclude(&mut self, now: Instant, id: ProofId, result: VerificationResult, out: &mut Outbox<Output>) {
        if self.proofs.get_mut(id).is_none_or(|known| known.stage != Stage::Verifying) {
            return;
        }
        let Some(Outstanding { neighbor, .. }) = self.proofs.take(id) else { return };
        self.timers.stop(Timer::Proof(id));
        let Some(entry) = self.table.get_mut(neighbor) else { return };
        match result {
            VerificationResult::Verified => {
                entry.proof = ProofState::Proven;
                out.push(Output::Event(Event::Proven(neighbor)));
            }
            VerificationResult::Refused => {
                entry.proof = ProofState::Refused(now + AFTER_REFUSAL);
                self.drops.count("refused-proof");
                out.push(Output::Event(Event::Refused(neighbor)));
            }
        }
        self.refresh(neighbor, out);
    }

    pub(super) fn proof_timed_out(&mut self, now: Instant, id: ProofId, out: &mut Outbox<Output>) {
        let Some(outstanding) = self.proofs.get_mut(id) else { return };
        if outstanding.tries < TRIES {
            outstanding.tries += 1;
            outstanding.stage = Stage::Nonce;
            self.timers.start(now, Timer::Proof(id), ANSWER);
            out.push(Output::Proof(ProofRequest::DrawNonce(id)));
            return;
        }
        let neighbor = outstanding.neighbor;
        self.proofs.take(id);
        if let Some(entry) = self.table.get_mut(neighbor) {
            entry.proof = match entry.proof {
                ProofState::Refused(_) => ProofState::Refused(now + AFTER_REFUSAL),
                _ => ProofState::Unproven(now + AFTER_SILENCE),
            };
        }
        self.refresh(neighbor, out);
    }

    /// Drops the outstanding challenge of a neighbor.
    pub(super) fn forget_proof(&mut self, neighbor: Neighbor) {
        let known = self.proofs.outstanding.iter().find(|known| known.neighbor == neighbor);
        if let Some(id) = known.map(|known| known.id) {
            self.proofs.take(id);
            self.timers.stop(Timer::Proof(id));
        }
    }

    /// Drops the outstanding challenges and signatures of a link, whose address has changed: both name the old address.
    pub(super) fn forget_proofs_of(&mut self, interface: InterfaceIndex, now: Instant) {
        self.proofs.forget_signatures(interface);
        let neighbors: Vec<Neighbor> = self.table.of_link(interface).map(|(neighbor, _)| *neighbor).collect();
        for neighbor in neighbors {
            self.forget_proof(neighbor);
            if let Some(entry) = self.table.get_mut(neighbor)
                && entry.proof == ProofState::Challenged
            {
                entry.proof = ProofState::Unproven(now);
            }
        }
    }

    pub(super) fn receive_challenge(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        challenge: &Challenge,
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get(&interface) else { return };
        let Challenge { sender: challenger, hid, nonce } = *challenge;
        if !link.settings.hids.contains(&hid) {
            self.drops.count("foreign-challenge");
            return;
        }
        self.proofs.signatures.retain(|signature| now <= signature.until);
        let is_asked = |known: &Signature| known.interface == interface && known.challenger == challenger;
        let is_repeated = self.proofs.signatures.iter().any(|known| is_asked(known) && known.hid == hid);
        if is_repeated || self.proofs.signatures.len() >= MOST_SIGNATURES {
            self.drops.count("signature-limit");
            return;
        }
        let message = signed_octets(challenger, link.settings.mac, hid, &nonce);
        let id = SignatureId(self.proofs.next_id());
        let until = now + SIGNATURE;
        self.proofs.signatures.push(Signature { id, interface, challenger, hid, nonce, until });
        out.push(Output::Proof(ProofRequest::Sign { id, hid, message }));
    }

    fn send_response(&mut self, id: SignatureId, key: &[u8], signature: &[u8], out: &mut Outbox<Output>) {
        let Some(place) = self.proofs.signatures.iter().position(|known| known.id == id) else { return };
        let Signature { interface, challenger, hid, nonce, .. } = self.proofs.signatures.swap_remove(place);
        let Some(link) = self.links.get(&interface) else { return };
        let response = Response { sender: link.settings.mac, hid, nonce, key, signature };
        Self::send(interface, challenger, &Message::Response(response), out);
    }
}
