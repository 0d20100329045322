//! Threads in the namespaces of a lab's nodes.

pub mod balancer;
pub mod ffi;
pub mod frame;
pub mod model;
pub mod mutation;
pub mod routes;
pub mod tables;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use sluice_lab::{Lab, LabOptions};
use std::path::Path;

/// Two nodes with one link: `r:eth0` 10.0.0.1 and `a:eth0` 10.0.0.2.
const PAIR: &str = "
[nodes.r]
[nodes.a]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
a_addresses = ['10.0.0.1/24', 'fd00::1/64']
b_addresses = ['10.0.0.2/24', 'fd00::2/64']
";

/// Makes the pair of nodes, or records why the test is skipped.
pub fn pair(name: &str) -> Option<Lab> {
    usable().then(|| Lab::up(&PAIR.parse().unwrap(), LabOptions::unique(name)).unwrap())
}

/// Returns false, and prints the reason, if this host cannot run XDP programs.
pub fn usable() -> bool {
    if !nix::unistd::geteuid().is_root() {
        sluice_testkit::skipped("not root");
        return false;
    }
    if let Err(error) = sluice_bpf::probe::require(sluice_bpf::probe::Feature::NativeXdp) {
        sluice_testkit::skipped(error);
        return false;
    }
    true
}

/// Runs `work` on a thread in the network namespace of `node` and in a mount namespace of its own.
pub fn in_node<T: Send>(lab: &Lab, node: &str, work: impl FnOnce() -> T + Send) -> T {
    let alone = || {
        private_mounts();
        work()
    };
    lab.inside(node, alone).unwrap()
}

/// Gives this thread a mount namespace of its own, in which nothing of the host changes.
pub fn private_mounts() {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, Path::new("/"), none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
}
