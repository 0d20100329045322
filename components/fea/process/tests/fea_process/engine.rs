//! The kernel follows the rules of engines.

use sluice_base::*;
use sluice_fea::Engine;
use sluice_fea_conformance::Subject;
use sluice_fea_process::linux::LinuxEngine;
use sluice_lab::{Lab, LabOptions};

const TOPOLOGY: &str = "
[nodes.r]
[nodes.a]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
a_addresses = ['10.0.0.1/24']
[[links]]
a = 'r:eth1'
b = 'a:eth1'
a_addresses = ['10.0.1.1/24']
";

struct Kernel<'a> {
    lab: &'a Lab,
    engine: LinuxEngine,
}

impl Subject for Kernel<'_> {
    fn engine(&mut self) -> &mut dyn Engine {
        &mut self.engine
    }

    fn interface(&self, n: usize) -> InterfaceIndex {
        InterfaceIndex::new(nix::net::if_::if_nametoindex(format!("eth{n}").as_str()).unwrap()).unwrap()
    }

    fn wait(&mut self) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut descriptors = [PollFd::new(self.engine.descriptor(), PollFlags::POLLIN)];
        assert_ne!(poll(&mut descriptors, PollTimeout::from(20_000u16)).unwrap(), 0, "the kernel is silent");
    }

    fn delete_as_outsider(&mut self, prefix: IpPrefix) {
        self.lab.exec("r", "ip", ["route", "del", &prefix.to_string()]).unwrap();
    }
}

#[test]
fn the_kernel_conforms() {
    if !nix::unistd::geteuid().is_root() {
        return sluice_testkit::skipped("not root");
    }
    let lab = Lab::up(&TOPOLOGY.parse().unwrap(), LabOptions::unique("engine")).unwrap();
    lab.inside("r", || {
        sluice_fea_conformance::check(Kernel { lab: &lab, engine: LinuxEngine::open().unwrap() })
    })
    .unwrap();
}
