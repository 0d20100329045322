//! The compared routers, and how to start each of them: in a lab of its own, beside the peers' node.

use crate::cell::Client;
use crate::scenario::{Play, address, address_v6};
use anyhow::{Context, Result};
use bench_lab::{Device, Neighbor, Setting};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use sluice_lab::{Lab, LabOptions, Topology};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The router's node.
pub const ROUTER: &str = "router";
/// The peers' node.
pub const PEERS: &str = "peers";
/// The address of the cache with validated payloads: that of the first peer.
pub const CACHE: &str = "10.1.0.2";

/// The size of a socket's receive buffer from the start if the client is out of the way (least, initial, most; octets
/// with the system's overhead): large enough for the whole input.
const ROOMY: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 268435456 536870912");

/// A router with its setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contender {
    /// Which router.
    pub device: Device,
    /// Threads of the router's BGP, if not the default.
    pub threads: Option<usize>,
    /// The scheduling of work on the threads, if not the default.
    pub scheduling: Option<&'static str>,
    /// The number of processors for the router's processes together; absent: no limit.
    pub cores: Option<usize>,
}

impl Contender {
    /// A router with default settings.
    pub const fn new(device: Device) -> Self {
        Contender { device, threads: None, scheduling: None, cores: None }
    }

    /// The router's name in tables.
    pub fn name(self) -> String {
        let mut name = self.device.name().to_owned();
        match self.threads {
            None => {}
            Some(1) => name += ", 1 thread",
            Some(n) => name += &format!(", {n} threads"),
        }
        self.scheduling.iter().for_each(|scheduling| name += &format!(", {scheduling}"));
        self.cores.iter().for_each(|cores| name += &format!(", cores: {cores}"));
        name
    }

    /// The router's name on the command line.
    pub const fn key(self) -> &'static str {
        self.device.node()
    }

    /// Returns true if the benchmark knows how to have the router validate origins.
    pub const fn validates(self) -> bool {
        matches!(self.device, Device::Sluice | Device::Bird | Device::Frr)
    }

    /// Returns true if the benchmark knows how to have the router send several paths of a prefix, and how it helps neighbors to restart.
    pub const fn has_variants(self) -> bool {
        matches!(self.device, Device::Sluice | Device::Bird | Device::Bird3 | Device::Frr)
    }

    /// Returns true if the router itself can put routes into the kernel.
    pub const fn installs(self) -> bool {
        matches!(self.device, Device::Sluice | Device::Bird | Device::Bird3 | Device::Frr)
    }

    /// Starts the router on some processors, in a lab of its own that ends with the current process in every case. With `validates`, the
    /// router asks a cache at the first peer's address.
    pub fn up(
        self,
        play: &Play,
        sluice: &Path,
        processors: &[usize],
        client: Client,
        validates: bool,
    ) -> Result<Lab> {
        let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-bgp") };
        let topology = self.topology(play, client, validates)?;
        let processors = &processors[..self.cores.unwrap_or(usize::MAX).min(processors.len())];
        confined(processors, || {
            let mut lab = Lab::up(&topology, options)?;
            if self.device == Device::Bird3 {
                let folder = lab.dir(ROUTER);
                let mut command = lab.command(ROUTER, "bird3")?;
                command.args(["-f", "-c"]).arg(folder.join("config")).arg("-s").arg(folder.join("bird.ctl"));
                command.stdout(Stdio::null()).stderr(Stdio::null());
                lab.spawn(ROUTER, "bird3", command)?;
            }
            Ok(lab)
        })
    }

    fn topology(self, play: &Play, client: Client, validates: bool) -> Result<Topology> {
        let peers = play.neighbors().count();
        let addresses: Vec<String> =
            (0..peers).map(|n| format!("'{}/20', '{}/64'", address(n), address_v6(n))).collect();
        // What a lab does not know how to start is started by hand.
        let daemon = if self.device == Device::Bird3 { "host" } else { self.device.node() };
        let module = if validates { " -M rpki" } else { "" };
        let text = format!(
            "[nodes.{PEERS}]\n[nodes.{ROUTER}]\ndaemon = '{daemon}'\ndaemons = ['bgpd{module}']\nforwarding = true\n\
             sysctls = {{ 'net.ipv4.nexthop_compat_mode' = '0', 'net.ipv6.route.max_size' = '2147483647' }}\n\
             [[links]]\na = '{ROUTER}:peers'\nb = '{PEERS}:router'\n\
             a_addresses = ['10.1.0.1/20', '2001:db8:1::1/64']\nb_addresses = [{}]\n",
            addresses.join(", ")
        );
        let mut topology: Topology = text.parse()?;
        if client == Client::Aloof {
            let (key, value) = ROOMY;
            topology.nodes.values_mut().for_each(|n| _ = n.sysctls.insert(key.into(), value.into()));
        }
        let neighbors: Vec<(String, u32)> = play.neighbors().collect();
        let neighbors: Vec<Neighbor<'_>> =
            neighbors.iter().map(|(address, asn)| Neighbor { address, asn: *asn }).collect();
        let (threads, scheduling) = (self.threads, self.scheduling);
        let cache = validates.then_some(CACHE);
        let (installs, paths) = (play.scenario.installs(), play.workload.paths > 1);
        let setting = Setting { installs, threads, scheduling, cache, paths };
        let router = topology.nodes.get_mut(ROUTER).context("the router has a node")?;
        router.config = Some(self.device.config_with("10.1.0.1", &neighbors, setting));
        Ok(topology)
    }
}

/// The processors available to the current process.
pub fn processors() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|n| set.is_set(*n).unwrap_or(false)).collect())
}

/// Runs a closure with the current thread on some processors only; processes started meanwhile stay on these
/// processors.
fn confined<T>(processors: &[usize], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this)?;
    let mut set = CpuSet::new();
    processors.iter().try_for_each(|n| set.set(*n))?;
    sched_setaffinity(this, &set).context("the processors cannot be chosen")?;
    let done = work();
    sched_setaffinity(this, &before)?;
    done
}

/// The path of the Sluice executable, for programs without one beside them.
pub fn sluice(named: Option<&Path>) -> Result<PathBuf> {
    sluice_load::counts::sluice_program(named)
}
