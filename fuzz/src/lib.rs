//! Every decoder of octets from outside is a function here that must not panic, whatever it gets.
//!
//! A target is one function and one row of [`TARGETS`]. `cargo test` runs each over its seeds, real captures where they are
//! at hand, and a bounded number of mutations of both; `cargo run --release -p sluice-fuzz -- TARGET [SECONDS]`
//! goes on for longer, and any fuzzer that can call a Rust function or feed a file can drive the same functions.

pub mod bgp;
mod mutate;

pub use mutate::Mutator;

/// A decoder, and what to start from.
#[derive(Clone, Copy)]
pub struct Target {
    /// What it is called: protocol, then decoder.
    pub name: &'static str,
    /// Runs it. Panics if the decoder, or what must hold between it and its encoder, is wrong.
    pub run: fn(&[u8]),
    /// Inputs that it understands.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "bgp-frame", run: bgp::frame, seeds: bgp::messages },
    Target { name: "bgp-open", run: bgp::open, seeds: bgp::opens },
    Target { name: "bgp-notification", run: bgp::notification, seeds: bgp::notifications },
    Target { name: "bgp-route-refresh", run: bgp::route_refresh, seeds: bgp::refreshes },
    Target { name: "bgp-update", run: bgp::update, seeds: bgp::updates },
    Target { name: "bgp-session", run: bgp::session, seeds: bgp::messages },
];
