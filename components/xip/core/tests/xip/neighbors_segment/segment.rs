//! Hosts on one Ethernet segment, driven in virtual time.

use crate::neighbors_world::{handle, hid, host, link, mac};
use sluice_base::{Duration, Instant};
use sluice_machine::{Machine, Outbox};
use sluice_xip::neighbors::{
    Input, Limits, LinkProof, Neighbors, Output, ProofAnswer, ProofRequest, VerificationResult,
};
use sluice_xip::wire::Mac;
use sluice_xip::wire::nwp::Form;
use std::collections::VecDeque;

/// Hosts on a segment; host `n` is at place `n - 1`.
pub struct World {
    /// The hosts.
    pub hosts: Vec<Neighbors>,
    /// Hosts that are cut off.
    pub dead: Vec<u8>,
    /// Frames sent so far.
    pub frames: usize,
    /// All other outputs, with the host.
    pub reports: Vec<(u8, Output)>,
    /// The time.
    pub now: Instant,
    nonces: u8,
}

impl World {
    /// Starts hosts 1 to `count`.
    pub fn new(count: u8, form: Form, proof: LinkProof) -> Self {
        let hosts = (1..=count).map(|n| host(n, Limits::default())).collect();
        let mut world =
            World { hosts, dead: vec![], frames: 0, reports: vec![], now: Instant::ZERO, nonces: 0 };
        for n in 1..=count {
            world.input(n, Input::SetLink(link(n, form, proof)));
        }
        world
    }

    /// Passes an input to host `n`, and carries out all that follows at once.
    pub fn input(&mut self, n: u8, input: Input) {
        let mut queue = VecDeque::from([(n, input)]);
        while let Some((n, input)) = queue.pop_front() {
            let outputs = handle(&mut self.hosts[usize::from(n) - 1], self.now, input);
            outputs.into_iter().for_each(|output| self.carry_out(n, output, &mut queue));
        }
    }

    fn carry_out(&mut self, n: u8, output: Output, queue: &mut VecDeque<(u8, Input)>) {
        match output {
            Output::Send { interface, destination, octets } => {
                self.frames += 1;
                assert!(octets.len() <= 1500);
                for to in 1..=self.hosts.len() as u8 {
                    let is_reached = to != n && (destination == Mac::BROADCAST || destination == mac(to));
                    if is_reached && !self.dead.contains(&to) && !self.dead.contains(&n) {
                        queue.push_back((
                            to,
                            Input::Frame { interface, source: mac(n), octets: octets.clone() },
                        ));
                    }
                }
            }
            Output::Proof(ProofRequest::DrawNonce(id)) => {
                self.nonces += 1;
                queue.push_back((n, Input::Proof(ProofAnswer::Nonce(id, [self.nonces; 32]))));
            }
            // A key is the HID's octets, a signature the key and the message: enough for a world of honest arithmetic.
            Output::Proof(ProofRequest::Sign { id, message, .. }) => {
                let key = hid(n).0.to_vec();
                let signature = [&key[..], &message].concat();
                queue.push_back((n, Input::Proof(ProofAnswer::Signed { id, signature, key })));
            }
            Output::Proof(ProofRequest::Verify { proof, hid, key, message, signature }) => {
                let fits = key == hid.0 && signature == [&key[..], &message].concat();
                let result = if fits { VerificationResult::Verified } else { VerificationResult::Refused };
                queue.push_back((n, Input::Proof(ProofAnswer::Verified(proof, result))));
            }
            report => self.reports.push((n, report)),
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next =
                (1_u8..).zip(&self.hosts).filter_map(|(n, host)| Some((host.next_deadline()?, n))).min();
            let Some((at, n)) = next.filter(|(at, _)| *at <= end) else { break };
            self.now = self.now.max(at);
            let mut out = Outbox::new();
            self.hosts[usize::from(n) - 1].on_deadline(self.now, &mut out);
            let mut queue = VecDeque::new();
            out.drain()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|output| self.carry_out(n, output, &mut queue));
            while let Some((n, input)) = queue.pop_front() {
                self.input(n, input);
            }
        }
        self.now = end;
    }

    /// Returns the hosts that host `n` may use as routes.
    pub fn usable(&self, n: u8) -> Vec<u8> {
        let usable = self.hosts[usize::from(n) - 1].iter().filter(|(_, entry)| entry.is_usable);
        usable.map(|(neighbor, _)| neighbor.hid.0[0]).collect()
    }
}
