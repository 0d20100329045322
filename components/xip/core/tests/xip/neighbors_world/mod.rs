//! Hosts with a link, driven by hand.

use sluice_base::{Instant, InterfaceIndex};
use sluice_machine::{Machine, Outbox};
use sluice_xip::neighbors::{Input, Limits, Link, LinkProof, Neighbor, Neighbors, Output, Settings};
use sluice_xip::wire::nwp::Form;
use sluice_xip::wire::{Hid, Mac};

/// The interface of every host.
pub const LINK: InterfaceIndex = InterfaceIndex::new(1).unwrap();

/// Returns the address of host `n`.
pub fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

/// Returns the HID of host `n`, and the stand-in for its key.
pub fn hid(n: u8) -> Hid {
    Hid([n; 20])
}

/// Returns host `n` as a neighbor.
pub fn neighbor(n: u8) -> Neighbor {
    Neighbor { interface: LINK, hid: hid(n), mac: mac(n) }
}

/// Returns the link of host `n`.
pub fn link(n: u8, form: Form, proof: LinkProof) -> Link {
    Link { interface: LINK, mac: mac(n), mtu: 1500, form, hids: vec![hid(n)], proof }
}

/// A host without link.
pub fn host(n: u8, limits: Limits) -> Neighbors {
    Neighbors::new(Settings { limits, clock_base: 1_000_000, seed: n.into() })
}

/// Passes one input, and returns the outputs.
pub fn handle(host: &mut Neighbors, now: Instant, input: Input) -> Vec<Output> {
    let mut out = Outbox::new();
    host.handle(now, input, &mut out);
    out.drain().collect()
}

/// Passes a frame, and returns the outputs.
pub fn frame(host: &mut Neighbors, now: Instant, source: Mac, octets: &[u8]) -> Vec<Output> {
    handle(host, now, Input::Frame { interface: LINK, source, octets: octets.to_vec() })
}
