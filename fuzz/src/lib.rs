//! Every decoder of external octets is a function here, and must not panic for any input.
//!
//! A target is a function and a row of [`TARGETS`]. `cargo test` runs each target over its seeds, over real captures
//! if available, and over a bounded number of mutations of both. `cargo run -p sluice-fuzz -- all|TARGET [SECONDS]`
//! continues for longer (without `--release`, to find overflows). `cargo xtask fuzz-guided` runs the same functions
//! under libFuzzer (`fuzz/guided`), which follows coverage; its small inputs are in `fuzz/corpus`, a file a target.
//!
//! No target may panic, and none may take more memory than its input explains. If the reader has a writer, the result
//! of reading, writing and reading again must be the same.

pub mod bgp;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod descriptors;
pub mod files;
pub mod guard;
pub mod handover;
pub mod kept;
pub mod methods;
mod mutate;
pub mod netlink;
pub mod outputs;
pub mod policy;
pub mod rpki;
pub mod xdp;
pub mod xip;
pub mod xrl;

pub use mutate::Mutator;
use sluice_testkit::heap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

/// Octets of the heap that a target may take for any input, and for each octet of the input.
const MEMORY: (usize, usize) = (1 << 20, 256);

/// A decoder and its seeds.
#[derive(Clone, Copy)]
pub struct Target {
    /// The target's name: protocol, then decoder.
    pub name: &'static str,
    /// Runs the target. Panics if the decoder is wrong, or does not fit its encoder.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// Runs the target, and panics if the target takes more of the heap than its input explains.
    pub fn check(&self, input: &[u8]) {
        let base = heap::start();
        (self.run)(input);
        let (always, each) = MEMORY;
        let peak = heap::since(base).peak;
        assert!(
            peak <= always + each * input.len(),
            "{}: {peak} octets of heap for {}",
            self.name,
            input.len()
        );
    }

    /// Checks the target with damaged `inputs` while `more` returns true for the number of checks; returns the number
    /// of checks. The input of a panic is left in a file.
    pub fn attack(&self, inputs: &[Vec<u8>], seed: u64, mut more: impl FnMut(u64) -> bool) -> u64 {
        let (mut mutator, mut done) = (Mutator::new(seed), 0);
        while more(done) {
            let input = mutator.mutate(inputs);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.check(&input))) {
                let path = std::env::temp_dir().join(format!("sluice-fuzz-{}.input", self.name));
                match std::fs::write(&path, &input) {
                    Ok(()) => eprintln!("{} fails at {}", self.name, path.display()),
                    Err(error) => eprintln!("{} fails at {input:02x?} ({error})", self.name),
                }
                resume_unwind(panic);
            }
            done += 1;
        }
        done
    }

    /// Returns the seeds, and the inputs from a coverage-guided run (`fuzz/corpus`).
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{}.bin", self.name));
        let packed = std::fs::read(file).unwrap_or_default();
        let mut inputs = (self.seeds)();
        let mut rest = &packed[..];
        // Each input lies behind its length in two octets, high octet first.
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let (input, after) = after.split_at(usize::from(u16::from_be_bytes(*length)).min(after.len()));
            inputs.push(input.to_vec());
            rest = after;
        }
        inputs
    }

    /// Runs the target once without checks: state that is created once and kept does not count.
    pub fn warm_up(&self) {
        (self.run)(&[]);
        (self.seeds)().iter().take(1).for_each(|seed| (self.run)(seed));
    }
}

/// Returns the target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// The targets.
pub const TARGETS: &[Target] = &[
    Target { name: "bgp-frame", run: bgp::frame, seeds: bgp::messages },
    Target { name: "bgp-open", run: bgp::open, seeds: bgp::opens },
    Target { name: "bgp-notification", run: bgp::notification, seeds: bgp::notifications },
    Target { name: "bgp-route-refresh", run: bgp::route_refresh, seeds: bgp::refreshes },
    Target { name: "bgp-update", run: bgp::update, seeds: bgp::updates },
    Target { name: "bgp-session", run: bgp::session, seeds: bgp::messages },
    Target { name: "bgp-session-note", run: bgp::session_note, seeds: bgp::session_notes },
    Target { name: "bgp-first-packet", run: bgp::first_packet, seeds: bgp::first_packets },
    Target { name: "cluster-frame", run: cluster::frame, seeds: cluster::frames },
    Target { name: "rpki-pdu", run: rpki::pdu, seeds: rpki::pdus },
    Target { name: "rpki-session", run: rpki::session, seeds: rpki::pdus },
    Target { name: "rpki-records", run: rpki::records, seeds: rpki::record_lists },
    Target { name: "cluster-decision", run: cluster::decision, seeds: cluster::arrivals },
    Target { name: "cluster-stream", run: cluster::stream::value, seeds: cluster::stream::seeds },
    Target { name: "cluster-configuration", run: cluster::shared::value, seeds: cluster::shared::seeds },
    Target { name: "xrl-frame", run: xrl::frames, seeds: xrl::connections },
    Target { name: "xrl-datagram", run: xrl::datagram, seeds: xrl::datagrams },
    Target { name: "xrl-text", run: xrl::text, seeds: xrl::texts },
    Target { name: "xrl-packed-routes", run: xrl::packed, seeds: xrl::packed_batches },
    Target { name: "xrl-route-requests", run: xrl::route_requests, seeds: xrl::route_messages },
    Target { name: "xrl-methods", run: methods::bodies, seeds: methods::full_bodies },
    Target { name: "guard-arguments", run: guard::arguments, seeds: guard::seeds },
    Target { name: "descriptor-request", run: descriptors::request, seeds: descriptors::requests },
    Target { name: "descriptor-answer", run: descriptors::answer, seeds: descriptors::answers },
    Target { name: "config-text", run: config::statements, seeds: config::configurations },
    Target { name: "config-load", run: config::load, seeds: config::configurations },
    Target { name: "config-edit", run: config::edit, seeds: config::edits },
    Target { name: "config-steps", run: config::steps, seeds: config::step_texts },
    Target { name: "command-line", run: cli::line, seeds: cli::lines },
    Target { name: "command-path", run: cli::path, seeds: cli::paths },
    Target { name: "commands-toml", run: cli::commands, seeds: cli::command_files },
    Target { name: "metrics-toml", run: cli::metrics, seeds: cli::metric_files },
    Target { name: "package-toml", run: kept::manifest, seeds: kept::manifests },
    Target { name: "package-archive", run: kept::package_archive, seeds: kept::package_archives },
    Target { name: "rights-toml", run: kept::rights, seeds: kept::rights_files },
    Target { name: "revision", run: kept::revision, seeds: kept::revisions },
    Target { name: "audit", run: kept::audit, seeds: kept::audits },
    Target { name: "unconfirmed", run: kept::unconfirmed, seeds: kept::unconfirmed_files },
    Target { name: "manager-state", run: kept::state, seeds: kept::state_files },
    Target { name: "configuration-copy", run: kept::copy, seeds: kept::copy_files },
    Target { name: "kept-comments", run: kept::comments, seeds: kept::comment_files },
    Target { name: "config-change", run: kept::change, seeds: kept::changes },
    Target { name: "component-output", run: outputs::lines, seeds: outputs::texts },
    Target { name: "printable", run: outputs::printable, seeds: outputs::texts },
    Target { name: "core-pattern", run: kept::core_pattern, seeds: kept::core_patterns },
    Target { name: "hand-over", run: handover::stream, seeds: handover::streams },
    Target { name: "netlink", run: netlink::datagram, seeds: netlink::datagrams },
    Target { name: "xdp-tables", run: xdp::tables, seeds: xdp::operations },
    Target { name: "xip-header", run: xip::header, seeds: xip::packets },
    Target { name: "xip-address-text", run: xip::text, seeds: xip::texts },
    Target { name: "nwp", run: xip::nwp, seeds: xip::nwp_messages },
    Target { name: "xcmp", run: xip::xcmp, seeds: xip::xcmp_messages },
    Target { name: "policy-source", run: policy::source, seeds: policy::sources },
    Target { name: "policy-texts", run: policy::texts, seeds: policy::entries },
    Target { name: "policy-instructions", run: policy::instructions, seeds: policy::programs },
    Target { name: "mrt", run: files::mrt_trace, seeds: files::traces },
    Target { name: "mrt-recorded-messages", run: files::recorded_messages, seeds: bgp::messages },
    Target { name: "mrt-records", run: files::mrt_records, seeds: files::record_traces },
    Target { name: "mrt-injection", run: files::injected, seeds: files::record_traces },
    Target { name: "replay", run: files::captures::frames, seeds: files::captures::seeds },
    Target { name: "pcap", run: files::packets, seeds: files::captures },
    Target { name: "scenario", run: files::scenario, seeds: files::scenarios },
    Target { name: "tar", run: files::archive, seeds: files::archives },
    Target { name: "prefix-list", run: files::prefix_list, seeds: files::lists },
    Target { name: "topology", run: files::topology, seeds: files::topologies },
    Target { name: "topology-caida", run: files::graphs::text, seeds: files::graphs::caida },
    Target { name: "topology-brite", run: files::graphs::text, seeds: files::graphs::brite },
    Target { name: "topology-graphml", run: files::graphs::text, seeds: files::graphs::graphml },
    Target { name: "topology-word", run: files::graphs::word, seeds: files::graphs::words },
];
