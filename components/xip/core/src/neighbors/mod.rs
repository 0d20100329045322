//! Neighbors: HIDs and the link-layer addresses that reach them, learned by NWP (`docs/xia/wire.md`).
//!
//! [`Neighbors`] is a pure machine. The process passes NWP frames, links and the time in; the machine asks for frames to be
//! sent, and reports each neighbor that becomes usable or unusable as a route. A neighbor is usable if it is alive and,
//! where its link requires a proof, has proven to own its HID ([`proof`]). The process draws nonces, signs and verifies.

mod exchange;
mod io;
mod link;
mod links;
mod machine;
mod monitor;
mod proof;
mod proofs;
mod receive;
mod state;
mod table;

pub use io::{
    DROP_NAMES, Drops, Event, Input, Link, LinkProof, Output, ProofAnswer, ProofId, ProofRequest,
    SignatureId, VerificationResult,
};
pub use proof::{MOST_OUTSTANDING, MOST_SIGNATURES};
pub use state::{Limits, Neighbors, Settings, State};
pub use table::{Entry, Liveness, Neighbor, Origin, ProofState};
