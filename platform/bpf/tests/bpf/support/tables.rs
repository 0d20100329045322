//! Root and ip program with tables filled by hand.

use super::{private_mounts, usable};
use sluice_bpf::array::MappedArray;
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::*;
use sluice_bpf::run::{Run, Verdict, run};
use sluice_bpf::slots::Slots;
use sluice_bpf::{Embedded, Loaded, Loader, Pins};

/// The interface from which the frames of test runs come: the loopback interface.
pub const INCOMING: u32 = 1;
/// The MAC address of the incoming port.
pub const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
/// The number of the incoming port.
pub const PORT: u16 = 9;

/// Options of a chain.
#[derive(Clone, Copy)]
pub struct Options {
    /// Entries of both maps of nodes.
    pub nodes: u32,
    /// The constant `flow_seed`.
    pub flow_seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { nodes: 256, flow_seed: 0 }
    }
}

/// Root and ip program, sharing their maps.
pub struct Chain {
    pub root: Loaded,
    _ip: Loaded,
    pub slots: Slots,
    pub counters: Counters,
    pub tables: Tables,
    // Descriptors keep the maps: the pins are only needed while more programs are loaded.
    folder: tempfile::TempDir,
}

impl Chain {
    /// Runs `work` with a chain in a mount namespace of its own, or records why the test is skipped.
    pub fn with<T: Send>(options: Options, work: impl FnOnce(Chain) -> T + Send) -> Option<T> {
        let alone = || {
            private_mounts();
            work(Chain::load(options))
        };
        usable().then(|| std::thread::scope(|threads| threads.spawn(alone).join().unwrap()))
    }

    /// Loads both programs, fills the slot `ip` and switches the port [`INCOMING`] on. The mount namespace gets a bpffs.
    pub fn load(options: Options) -> Chain {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("bpf");
        Pins::mount(&point).unwrap();
        let pins = Pins::open(&point.join("sluice")).unwrap();
        let load = |program| {
            let maps = ["slots", "counts", "ports"];
            let loader = Loader::new(program);
            let loader = maps.iter().fold(loader, |loader, map| loader.share(map, &pins.map_path(map)));
            match program {
                Embedded::Ip => loader
                    .entries("ipv4_nodes", options.nodes)
                    .entries("ipv6_nodes", options.nodes)
                    .constant_u64("flow_seed", options.flow_seed),
                _ => loader,
            }
            .load()
            .unwrap()
        };
        let (root, ip) = (load(Embedded::Root), load(Embedded::Ip));
        let slots = Slots::new(root.map("slots").unwrap()).unwrap();
        slots.set(Slot::Ip, ip.program()).unwrap();
        let counters = Counters::new(root.map("counts").unwrap()).unwrap();
        let tables = Tables::of(&ip);
        let port = Port { mac: ROUTER, number: PORT, flags: PORT_IPV4 | PORT_IPV6, skipped: 0 };
        tables.set_port(INCOMING, port);
        Chain { root, _ip: ip, slots, counters, tables, folder }
    }

    /// Loads one more program of the chain, and fills a slot with it.
    pub fn add(&self, program: Embedded, slot: Slot) -> Loaded {
        let pins = Pins::open(&self.folder.path().join("bpf").join("sluice")).unwrap();
        let maps = ["slots", "counts", "ports"];
        let share = |loader: Loader, map: &str| loader.share(map, &pins.map_path(map));
        let loaded = maps.into_iter().fold(Loader::new(program), share).load().unwrap();
        self.slots.set(slot, loaded.program()).unwrap();
        loaded
    }

    /// Runs the chain once on a frame from [`INCOMING`].
    pub fn run(&self, frame: &[u8]) -> Run {
        run(self.root.program(), frame, 1).unwrap()
    }

    /// Runs the chain once and returns the reason by which the frame was counted.
    ///
    /// Panics unless the frame was counted once, and unless the verdict is that of the reason's outcome.
    pub fn reason(&self, frame: &[u8]) -> (Reason, Run) {
        let counts = || self.counters.read_ports(PORT..PORT + 1).unwrap();
        let before = counts();
        let ran = self.run(frame);
        let after = counts();
        let grown = |reason: &&Reason| after.count(PORT, **reason) != before.count(PORT, **reason);
        let reasons: Vec<Reason> = Reason::ALL.iter().filter(grown).copied().collect();
        let [reason] = reasons[..] else { panic!("counted by {reasons:?}: {frame:02x?}") };
        let (then, now) = (before.count(PORT, reason), after.count(PORT, reason));
        assert_eq!((now.packets - then.packets, now.octets - then.octets), (1, frame.len() as u64));
        let verdict = match reason.outcome() {
            Outcome::Forwarded => Verdict::Redirect,
            Outcome::Dropped => Verdict::Drop,
            Outcome::Passed => Verdict::Pass,
        };
        assert_eq!(ran.verdict, verdict, "{reason:?}");
        assert!(verdict == Verdict::Redirect || ran.frame == frame, "only a frame that is sent may change");
        (reason, ran)
    }
}

/// The maps of the ip program as user space writes them.
pub struct Tables {
    pub ports: MappedArray,
    pub ipv4_root: MappedArray,
    pub ipv4_nodes: MappedArray,
    pub ipv6_root: MappedArray,
    pub ipv6_nodes: MappedArray,
    pub groups: MappedArray,
    pub buckets: MappedArray,
    pub members: MappedArray,
    pub ipv4_sources: MappedArray,
}

impl Tables {
    /// Maps the tables of a loaded ip program.
    pub fn of(ip: &Loaded) -> Tables {
        let array = |name| MappedArray::new(ip.map(name).unwrap()).unwrap();
        Tables {
            ports: array("ports"),
            ipv4_root: array("ipv4_root"),
            ipv4_nodes: array("ipv4_nodes"),
            ipv6_root: array("ipv6_root"),
            ipv6_nodes: array("ipv6_nodes"),
            groups: array("groups"),
            buckets: array("buckets"),
            members: array("members"),
            ipv4_sources: array("ipv4_sources"),
        }
    }

    /// Returns all maps.
    pub fn all(&self) -> [&MappedArray; 9] {
        let Tables {
            ports,
            ipv4_root,
            ipv4_nodes,
            ipv6_root,
            ipv6_nodes,
            groups,
            buckets,
            members,
            ipv4_sources,
        } = self;
        [ports, ipv4_root, ipv4_nodes, ipv6_root, ipv6_nodes, groups, buckets, members, ipv4_sources]
    }

    /// Leaves packets with a source to the kernel.
    pub fn set_own(&self, source: std::net::Ipv4Addr) {
        let bit = ipv4_source_bit(source.to_bits());
        set_part(&self.ipv4_sources, bit >> 6, bit & 63, 1, 1);
    }

    pub fn set_port(&self, interface: u32, port: Port) {
        let [a, b, c, d, e, f] = port.mac;
        let first = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) | u64::from(port.number) << 48;
        assert!(self.ports.store64(interface as usize, 0, first));
        assert!(self.ports.store64(interface as usize, 1, port.flags.into()));
    }

    pub fn set_member(&self, index: u32, member: Member) {
        let [a, b, c, d, e, f] = member.destination;
        let [g, h, i, j, k, l] = member.source;
        let words = [member.action, member.interface, member.mtu];
        let macs = [[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes);
        for (word, value) in words.into_iter().chain(macs).enumerate() {
            assert!(self.members.store32(index as usize, word, value));
        }
    }

    /// Makes a group of one member.
    pub fn set_group(&self, group: u32, member: u32) {
        assert!(self.groups.store64(group as usize, 0, member.into()));
    }

    /// Makes a group of a block of buckets.
    pub fn set_buckets(&self, group: u32, block: u32, member: impl Fn(u32) -> u32) {
        for bucket in 0..BUCKETS {
            assert!(self.buckets.store32(block as usize, bucket as usize, member(bucket)));
        }
        assert!(self.groups.store64(group as usize, 0, 1 << 32 | u64::from(block)));
    }

    /// Sets the entry of the IPv4 prefix of 24 bits with the number `prefix`.
    pub fn set_ipv4(&self, prefix: u32, entry: u16) {
        set_part(&self.ipv4_root, prefix >> 2, (prefix & 3) * 16, 16, entry.into());
    }

    /// Returns the entry of an IPv4 prefix of 24 bits.
    pub fn ipv4(&self, prefix: u32) -> u16 {
        (self.ipv4_root.load64(prefix as usize >> 2, 0).unwrap() >> ((prefix & 3) * 16)) as u16
    }

    /// Sets the entry of an octet in an IPv4 node.
    pub fn set_ipv4_node(&self, node: u16, octet: u8, entry: u16) {
        let octet = usize::from(octet);
        let word = self.ipv4_nodes.load64(node.into(), octet / 4).unwrap();
        let shift = octet % 4 * 16;
        let word = word & !(0xffff << shift) | u64::from(entry) << shift;
        assert!(self.ipv4_nodes.store64(node.into(), octet / 4, word));
    }

    /// Sets the entry of the IPv6 prefix of 24 bits with the number `prefix`.
    pub fn set_ipv6(&self, prefix: u32, entry: u32) {
        set_part(&self.ipv6_root, prefix >> 1, (prefix & 1) * 32, 32, entry.into());
    }

    /// Returns the entry of an IPv6 prefix of 24 bits.
    pub fn ipv6(&self, prefix: u32) -> u32 {
        (self.ipv6_root.load64(prefix as usize >> 1, 0).unwrap() >> ((prefix & 1) * 32)) as u32
    }

    /// Sets the entry of an octet in an IPv6 node.
    pub fn set_ipv6_node(&self, node: u32, octet: u8, entry: u32) {
        assert!(self.ipv6_nodes.store32(node as usize, octet.into(), entry));
    }
}

fn set_part(map: &MappedArray, index: u32, shift: u32, bits: u32, value: u64) {
    let word = map.load64(index as usize, 0).unwrap();
    let mask = ((1u64 << bits) - 1) << shift;
    assert!(map.store64(index as usize, 0, word & !mask | value << shift));
}
