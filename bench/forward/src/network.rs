//! The network: a source, the router, and two sinks. Each end of a link polls on a thread of its own (threaded NAPI), so that the
//! router's processor time is that of its ports' threads.

use anyhow::{Context, Result, ensure};
use sluice_base::InterfaceIndex;
use sluice_lab::{Lab, LabOptions, Topology};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The router's port to the source.
pub const IN: &str = "rin";
/// The router's ports to the sinks.
pub const OUT: [&str; 2] = ["rout0", "rout1"];
/// The nodes of the sinks, and their interfaces.
pub const SINKS: [(&str, &str); 2] = [("b", "bin"), ("c", "cin")];
/// The source's interface.
pub const SOURCE: &str = "aout";

/// The most ways of a network: the router's ports to the sinks, and the sinks' nodes with their interfaces. The first two are those of
/// [`OUT`] and [`SINKS`].
pub const WAYS: [(&str, &str, &str); 8] = [
    (OUT[0], SINKS[0].0, SINKS[0].1),
    (OUT[1], SINKS[1].0, SINKS[1].1),
    ("rout2", "d", "din"),
    ("rout3", "e", "ein"),
    ("rout4", "f", "fin"),
    ("rout5", "g", "gin"),
    ("rout6", "h", "hin"),
    ("rout7", "i", "iin"),
];

/// Describes the network with a source and `ways` sinks.
fn topology(ways: usize) -> String {
    let mut text = "[nodes.a]\n[nodes.r]\nforwarding = true\n\
         sysctls = { 'net.ipv4.nexthop_compat_mode' = '0', 'net.ipv6.route.max_size' = '2147483647' }\n"
        .to_owned();
    let mut links = link(&format!("a:{SOURCE}"), &format!("r:{IN}"), 0, (2, 1));
    for (number, (port, node, interface)) in (1..).zip(WAYS.iter().take(ways)) {
        text += &format!("[nodes.{node}]\n");
        links += &link(&format!("r:{port}"), &format!("{node}:{interface}"), number, (1, 2));
    }
    text + &links
}

/// Describes a link with the network `number` and the last parts of the addresses of both ends.
fn link(a: &str, b: &str, number: usize, (own, other): (u8, u8)) -> String {
    let addresses = |host: u8| format!("['10.0.{number}.{host}/24', 'fd00:{number}::{host}/64']");
    format!(
        "[[links]]\na = '{a}'\nb = '{b}'\na_addresses = {}\nb_addresses = {}\nxdp = true\n",
        addresses(own),
        addresses(other)
    )
}

/// The processor of the router's threads; the source and the sinks share the other one.
const ROUTER_CPU: usize = 1;
const OTHER_CPU: usize = 0;

/// The longest wait for a thread of the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// Brings the network with two sinks up.
pub fn up() -> Result<Lab> {
    up_with(OUT.len())
}

/// Brings the network with `ways` sinks up, at most those of [`WAYS`].
pub fn up_with(ways: usize) -> Result<Lab> {
    let lab = Lab::up(&topology(ways).parse::<Topology>()?, LabOptions::unique("bench-forward"))?;
    let polled =
        WAYS.iter().take(ways).flat_map(|(port, node, interface)| [("r", *port), (*node, *interface)]);
    for (node, interface) in polled.chain([("r", IN)]) {
        poll_by_thread(&lab, node, interface)?;
    }
    Ok(lab)
}

/// Has the kernel poll an interface of a node on a thread of its own.
pub fn poll_by_thread(lab: &Lab, node: &str, interface: &str) -> Result<()> {
    // `/sys` is the host's: a sysfs of the node's own is mounted for the one store.
    let switch = format!("mount -t sysfs none /sys && echo 1 > /sys/class/net/{interface}/threaded");
    lab.exec(node, "unshare", ["-m", "sh", "-c", &switch])?;
    Ok(())
}

/// Waits for the polling threads of a new lab's interfaces, which did not exist before, and returns their numbers by interface.
pub fn new_threads(before: &[u32], interfaces: &[&str]) -> Result<BTreeMap<String, Vec<u32>>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let new: Vec<_> = all().into_iter().filter(|(pid, _)| !before.contains(pid)).collect();
        let of = |interface: &str| -> Vec<u32> {
            let name = format!("napi/{interface}-");
            new.iter().filter(|(_, thread)| thread.starts_with(&name)).map(|(pid, _)| *pid).collect()
        };
        let threads: BTreeMap<String, Vec<u32>> =
            interfaces.iter().map(|interface| ((*interface).to_owned(), of(interface))).collect();
        if threads.values().all(|pids| !pids.is_empty()) {
            return Ok(threads);
        }
        ensure!(Instant::now() < deadline, "the kernel has no polling threads: {new:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The kernel's threads that poll the router's ports in one lab. Their numbers are found once: threads of several labs have the
/// same names.
pub struct Threads {
    router: Vec<u32>,
}

impl Threads {
    /// Finds the threads of a network with `ways` sinks that exist now and did not exist before, and pins them.
    pub fn of_new_lab(before: &[u32], ways: usize) -> Result<Self> {
        let used = || WAYS.iter().take(ways);
        let ports: Vec<&str> = used().map(|(port, _, _)| *port).chain([IN]).collect();
        let ends: Vec<&str> = used().map(|(_, _, interface)| *interface).collect();
        let router: Vec<u32> = new_threads(before, &ports)?.into_values().flatten().collect();
        let sinks = new_threads(before, &ends)?.into_values().flatten();
        router.iter().try_for_each(|pid| pin(*pid, ROUTER_CPU))?;
        sinks.into_iter().try_for_each(|pid| pin(pid, OTHER_CPU))?;
        Ok(Threads { router })
    }

    /// Returns the processor time of the router's threads.
    pub fn router_cpu(&self) -> Result<Duration> {
        cpu_of(&self.router)
    }
}

/// Returns the processor time of threads.
pub fn cpu_of(threads: &[u32]) -> Result<Duration> {
    threads.iter().map(|pid| cpu(*pid)).sum()
}

/// Returns the numbers of all polling threads.
pub fn polling_threads() -> Vec<u32> {
    all().into_iter().map(|(pid, _)| pid).collect()
}

fn all() -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let named =
        |pid: u32| Some((pid, fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned()));
    numbers.filter_map(named).filter(|(_, name)| name.starts_with("napi/")).collect()
}

/// Reads a thread's processor time (/proc/PID/schedstat, first field, in nanoseconds).
fn cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok()).context("no schedstat")?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn pin(pid: u32, cpu: usize) -> Result<()> {
    let mut set = nix::sched::CpuSet::new();
    let processors = std::thread::available_parallelism()?.get();
    set.set(cpu.min(processors - 1))?;
    Ok(nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(pid.cast_signed()), &set)?)
}

/// Pins the calling thread, and those that it starts, to the source's processor.
pub fn pin_to_source() -> Result<()> {
    pin(0, OTHER_CPU)
}

/// Returns the index and the link-layer address of an interface.
pub fn interface(lab: &Lab, node: &str, name: &str) -> Result<(InterfaceIndex, [u8; 6])> {
    let text = lab.exec(node, "ip", ["-o", "link", "show", "dev", name])?;
    let index = text.split(':').next().and_then(|n| n.parse().ok()).and_then(InterfaceIndex::new);
    let mac = text.split_once("link/ether ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
    let octets: Vec<u8> = mac.split(':').filter_map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    let mac = octets.try_into().ok().with_context(|| format!("no link-layer address: {text}"))?;
    Ok((index.with_context(|| format!("no interface {name}"))?, mac))
}
