//! The compared routers: the same network, the same neighbors, the same job.

use crate::processes;
use anyhow::{Context, Result, ensure};
use sluice_lab::Lab;
use std::fmt::Write;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A router under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// The whole Sluice router, by `sluice start`.
    Sluice,
    /// BIRD 2 with its kernel protocol.
    Bird,
    /// BIRD 3, by a program called `bird3`.
    Bird3,
    /// FRRouting: zebra and bgpd.
    Frr,
    /// OpenBGPD.
    Openbgpd,
    /// GoBGP.
    Gobgp,
}

/// A router's settings besides accepting and announcing routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// True if routes go into the kernel's tables.
    pub installs: bool,
    /// Threads of Sluice's BGP; `None` for the default.
    pub threads: Option<usize>,
    /// The scheduling of work on Sluice's threads; `None` for the default.
    pub scheduling: Option<&'static str>,
    /// The address of a cache with validated ROA payloads, at [`CACHE_PORT`]. Invalid routes get a lower LOCAL_PREF; no route is rejected, so
    /// that neighbors receive the same.
    pub cache: Option<&'static str>,
    /// True if neighbors may send several paths of a prefix, and are sent all of them (ADD-PATH, RFC 7911).
    pub paths: bool,
}

/// The port of caches with validated ROA payloads.
pub const CACHE_PORT: u16 = 3323;

impl Default for Setting {
    fn default() -> Self {
        Setting { installs: true, threads: None, scheduling: None, cache: None, paths: false }
    }
}

/// A neighbor of the router under test, which waits for the router's connection.
#[derive(Clone, Copy, Debug)]
pub struct Neighbor<'a> {
    /// The neighbor's address.
    pub address: &'a str,
    /// The neighbor's AS.
    pub asn: u32,
}

/// The longest time until a router or a link is up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The router's own AS.
pub const LOCAL_AS: u32 = 64500;

impl Device {
    /// The name of the router's node in the lab, and of its daemon in a topology.
    pub const fn node(self) -> &'static str {
        match self {
            Device::Sluice => "sluice",
            Device::Bird => "bird",
            Device::Bird3 => "bird3",
            Device::Frr => "frr",
            Device::Openbgpd => "openbgpd",
            Device::Gobgp => "gobgp",
        }
    }

    /// The router's name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Sluice => "Sluice",
            Device::Bird => "BIRD 2",
            Device::Bird3 => "BIRD 3",
            Device::Frr => "FRR",
            Device::Openbgpd => "OpenBGPD",
            Device::Gobgp => "GoBGP",
        }
    }

    /// Returns true if the daemon's program is installed; Sluice's own is built with the benchmark.
    pub fn is_here(self) -> bool {
        let program = match self {
            Device::Sluice => return true,
            Device::Bird => "bird",
            Device::Bird3 => "bird3",
            Device::Frr => "/usr/lib/frr/bgpd",
            Device::Openbgpd => "bgpd",
            Device::Gobgp => "gobgpd",
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    }

    /// The hold time that peers propose, in seconds. With 0, no timer runs during a measurement; but GoBGP then gives
    /// each write no time at all.
    pub const fn hold_time(self) -> u16 {
        if matches!(self, Device::Gobgp) { 240 } else { 0 }
    }

    /// A configuration that accepts and installs the routes of every neighbor and announces them to the remaining
    /// neighbors, in both families.
    pub fn config(self, router_id: &str, neighbors: &[Neighbor<'_>]) -> String {
        self.config_with(router_id, neighbors, Setting::default())
    }

    /// A configuration with the given setting. OpenBGPD and GoBGP install no routes in any setting: on Linux they
    /// cannot, or not by themselves.
    pub fn config_with(self, router_id: &str, neighbors: &[Neighbor<'_>], setting: Setting) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Device::Sluice => sluice(&mut text, router_id, neighbors, setting),
            Device::Bird | Device::Bird3 => bird(&mut text, router_id, neighbors, setting),
            Device::Frr => frr(&mut text, router_id, neighbors, setting),
            Device::Openbgpd => openbgpd(&mut text, router_id, neighbors),
            Device::Gobgp => gobgp(&mut text, router_id, neighbors),
        };
        text
    }

    /// Ends the router and empties its kernel's tables: the links go down, which removes every route, and up again.
    /// Addresses stay, if the node keeps IPv6 addresses (`keep_addr_on_down`).
    pub fn reset(self, lab: &mut Lab, interfaces: &[&str]) -> Result<()> {
        let node = self.node();
        let left = processes::of_node(lab, node);
        lab.stop(node, true)?;
        processes::end(&left);
        for direction in ["down", "up"] {
            for interface in interfaces {
                lab.exec(node, "ip", ["link", "set", interface, direction])?;
            }
        }
        for interface in interfaces {
            await_link(lab, node, interface)?;
        }
        // A router's output from its earlier life is of no interest to the next.
        let run = lab.dir(node).join("run");
        if run.exists() {
            fs::remove_dir_all(&run).with_context(|| format!("cannot remove {}", run.display()))?;
        }
        Ok(())
    }

    /// Starts the router; returns after the router answers and has its BGP port open, with the number of a process of
    /// the router.
    pub fn start(self, lab: &mut Lab) -> Result<u32> {
        lab.start(self.node())?;
        let pid = processes::within(lab, self.node())?;
        let begin = Instant::now();
        while !listens(pid)? {
            ensure!(begin.elapsed() < PATIENCE, "{} does not listen to BGP", self.name());
            sleep(Duration::from_millis(5));
        }
        Ok(pid)
    }
}

/// Waits until a link is up for IPv6 too: the kernel processes a link's carrier up to a second later.
fn await_link(lab: &Lab, node: &str, interface: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let addresses = lab.exec(node, "ip", ["-6", "address", "show", "dev", interface, "scope", "link"])?;
        if addresses.contains("fe80:") && !addresses.contains("tentative") {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{interface} of {node} does not come up");
        sleep(Duration::from_millis(20));
    }
}

/// Returns true if a process in the namespace of `pid` listens for BGP's connections over TCP.
fn listens(pid: u32) -> Result<bool> {
    // Local address and port in hexadecimal, then the remote one, then the state: 0A is LISTEN.
    let is_bgp = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(":00B3")) && words.nth(1) == Some("0A")
    };
    for file in ["tcp", "tcp6"] {
        if fs::read_to_string(format!("/proc/{pid}/net/{file}"))?.lines().any(is_bgp) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sluice(
    text: &mut String,
    router_id: &str,
    neighbors: &[Neighbor<'_>],
    setting: Setting,
) -> std::fmt::Result {
    if !setting.installs {
        writeln!(text, "interfaces {{\n  forwarding {{\n    install-routes false;\n  }}\n}}")?;
    }
    if let Some(cache) = setting.cache {
        writeln!(
            text,
            "rpki {{\n  cache bench {{ address {cache}; port {CACHE_PORT}; retry-interval 1; }}\n}}\n\
             policy {{\n  policy-statement rov {{\n    term invalid {{ from {{ validation invalid; }} \
             then {{ local-preference 90; accept; }} }}\n    term others {{ then {{ accept; }} }}\n  }}\n}}"
        )?;
    }
    let import = if setting.cache.is_some() { "import rov; " } else { "" };
    let paths = if setting.paths { "add-path { receive true; send all; } " } else { "" };
    writeln!(
        text,
        "protocols {{\n  bgp {{\n    local-as {LOCAL_AS};\n    router-id {router_id};\n    default-policy accept;"
    )?;
    if let Some(threads) = setting.threads {
        writeln!(text, "    threads {threads};")?;
    }
    if let Some(scheduling) = setting.scheduling {
        writeln!(text, "    scheduling {scheduling};")?;
    }
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "    neighbor {address} {{ peer-as {asn}; passive true; {import}{paths}ipv6-unicast {{ enabled true; }} }}"
        )?;
    }
    writeln!(text, "  }}\n}}")
}

fn bird(
    text: &mut String,
    router_id: &str,
    neighbors: &[Neighbor<'_>],
    setting: Setting,
) -> std::fmt::Result {
    writeln!(text, "router id {router_id};\nprotocol device {{}}")?;
    if setting.installs {
        writeln!(text, "protocol kernel {{ ipv4 {{ export all; }}; }}")?;
        writeln!(text, "protocol kernel {{ ipv6 {{ export all; }}; }}")?;
    }
    let mut imports = ["all", "all"].map(String::from);
    if let Some(cache) = setting.cache {
        writeln!(
            text,
            "roa4 table payloads4;\nroa6 table payloads6;\nprotocol rpki {{ roa4 {{ table payloads4; }}; \
             roa6 {{ table payloads6; }}; remote {cache} port {CACHE_PORT}; retry keep 1; }}"
        )?;
        for (import, table) in imports.iter_mut().zip(["payloads4", "payloads6"]) {
            *import = format!(
                "filter {{ if roa_check({table}, net, bgp_path.last) = ROA_INVALID then bgp_local_pref = 90; accept; }}"
            );
        }
    }
    let [ipv4, ipv6] = imports;
    let paths = if setting.paths { "add paths on; " } else { "" };
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "protocol bgp {{\n  local as {LOCAL_AS};\n  neighbor {address} as {asn};\n  passive;\n  \
             ipv4 {{ {paths}import {ipv4}; export all; }};\n  ipv6 {{ {paths}import {ipv6}; export all; }};\n}}"
        )?;
    }
    Ok(())
}

fn frr(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>], setting: Setting) -> std::fmt::Result {
    writeln!(text, "frr defaults datacenter")?;
    if !setting.installs {
        writeln!(text, "bgp no-rib")?;
    }
    if let Some(cache) = setting.cache {
        writeln!(text, "rpki\n rpki retry_interval 1\n rpki cache {cache} {CACHE_PORT} preference 1\n exit")?;
        writeln!(
            text,
            "route-map rov permit 10\n match rpki invalid\n set local-preference 90\nroute-map rov permit 20"
        )?;
    }
    let of_family = |text: &mut String, address: &str, indent: &str| {
        if setting.cache.is_some() {
            writeln!(text, "{indent}neighbor {address} route-map rov in")?;
        }
        if setting.paths {
            writeln!(text, "{indent}neighbor {address} addpath-tx-all-paths")?;
        }
        Ok(())
    };
    writeln!(text, "router bgp {LOCAL_AS}\n bgp router-id {router_id}\n no bgp ebgp-requires-policy")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(text, " neighbor {address} remote-as {asn}\n neighbor {address} passive")?;
        of_family(text, address, " ")?;
    }
    writeln!(text, " address-family ipv6 unicast")?;
    for Neighbor { address, .. } in neighbors {
        writeln!(text, "  neighbor {address} activate")?;
        of_family(text, address, "  ")?;
    }
    writeln!(text, " exit-address-family")
}

fn openbgpd(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>]) -> std::fmt::Result {
    writeln!(text, "AS {LOCAL_AS}\nrouter-id {router_id}\nfib-update no\nlisten on 0.0.0.0")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "neighbor {address} {{\n  remote-as {asn}\n  passive\n  announce IPv4 unicast\n  announce IPv6 unicast\n}}"
        )?;
    }
    writeln!(text, "allow from any\nallow to any")
}

fn gobgp(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>]) -> std::fmt::Result {
    writeln!(text, "[global.config]\nas = {LOCAL_AS}\nrouter-id = '{router_id}'")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = '{address}'\npeer-as = {asn}\n\
             [neighbors.transport.config]\npassive-mode = true\n[neighbors.timers.config]\nhold-time = 240\n\
             keepalive-interval = 80"
        )?;
        for family in ["ipv4-unicast", "ipv6-unicast"] {
            writeln!(
                text,
                "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = '{family}'"
            )?;
        }
    }
    Ok(())
}
