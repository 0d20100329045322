//! The process's part in proofs: nonces, signatures and verifications.

use crate::XipProcess;
use crate::keys::{HostKey, verify};
use sluice_xip::io::Input;
use sluice_xip::neighbors::{Event, ProofAnswer, ProofRequest};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// The time between two signatures. A signature takes about two milliseconds, and every host of a link can ask for a signature.
const PACE: Duration = Duration::from_millis(50);

/// The waiting questions of the core, which bounds the number.
#[derive(Default)]
pub(crate) struct Proofs {
    waiting: RefCell<VecDeque<ProofRequest>>,
    is_working: Cell<bool>,
}

impl XipProcess {
    /// Answers the core's question, in turn.
    pub(crate) fn prove(&self, request: ProofRequest) {
        self.proofs.waiting.borrow_mut().push_back(request);
        let Some(me) = self.me.upgrade() else { return };
        if !self.proofs.is_working.replace(true) {
            tokio::task::spawn_local(me.answer_questions());
        }
    }

    async fn answer_questions(self: Rc<Self>) {
        loop {
            let request = self.proofs.waiting.borrow_mut().pop_front();
            let Some(request) = request else { break };
            let is_costly = matches!(request, ProofRequest::Sign { .. });
            if let Some(answer) = self.answer(request) {
                self.input(Input::Proof(answer));
            }
            if is_costly {
                tokio::time::sleep(PACE).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        self.proofs.is_working.set(false);
    }

    /// Returns the answer; `None` without the key, and without random octets.
    fn answer(&self, request: ProofRequest) -> Option<ProofAnswer> {
        match request {
            ProofRequest::DrawNonce(id) => {
                let mut nonce = [0; 32];
                getrandom::fill(&mut nonce).ok()?;
                Some(ProofAnswer::Nonce(id, nonce))
            }
            ProofRequest::Verify { proof, hid, key, message, signature } => {
                Some(ProofAnswer::Verified(proof, verify(hid, &key, &message, &signature)))
            }
            ProofRequest::Sign { id, hid, message } => {
                let settings = self.settings.borrow();
                let keys = settings.iter().flat_map(|settings| &settings.keys);
                let key = keys.into_iter().find(|key: &&HostKey| key.hid() == hid)?;
                Some(ProofAnswer::Signed { id, key: key.public().to_vec(), signature: key.sign(&message)? })
            }
        }
    }

    /// Reports a neighbor to the operator.
    pub(crate) fn report(&self, event: Event) {
        match event {
            Event::Proven(neighbor) => {
                info!(event = "xip.neighbor.proven", hid = %neighbor.hid, mac = %neighbor.mac, "{} has proven to be {}", neighbor.mac, neighbor.hid);
            }
            Event::Refused(neighbor) => {
                warn!(event = "xip.neighbor.unproven", hid = %neighbor.hid, mac = %neighbor.mac, "{} is not {}: its proof is wrong", neighbor.mac, neighbor.hid);
            }
            Event::Failed(_, mac) => {
                info!(event = "xip.neighbor.silent", %mac, "{mac} answers nobody any more");
            }
            Event::Isolated(_, mac) => {
                warn!(event = "xip.neighbor.isolated", %mac, "neither {mac} nor any other neighbor answers: this link may be broken");
            }
            Event::Full(neighbor) => {
                warn!(event = "xip.neighbor.full", hid = %neighbor.hid, mac = %neighbor.mac, "the table of neighbors is full; {} is not kept", neighbor.hid);
            }
        }
    }
}
