//! The chain of programs on the router's bpffs: the root program with its slots, counters and ports, and the links that attach
//! it to interfaces.
//!
//! The pins of a chain lie in a folder named by the root program's hash. A process whose root program has a different hash
//! makes a new chain beside, and moves the links there when the new chain forwards.

use sluice_base::{InterfaceIndex, Mac};
use sluice_bpf::array::MappedArray;
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::{PORTS, Slot};
use sluice_bpf::slots::Slots;
use sluice_bpf::{BpfError, Embedded, Link, Loaded, Loader, Mode, Pins};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The maps shared by the programs of a chain.
const SHARED: [&str; 3] = ["slots", "counts", "ports"];

/// The digits of the hash in the folder's name.
const DIGITS: usize = 16;

/// A link, and the pins of the former chain.
#[derive(Debug)]
struct Attached {
    link: Link,
    /// True if the link still runs an older chain's root program.
    is_old: bool,
}

/// The chain.
#[derive(Debug)]
pub struct Chain {
    pins: Pins,
    root: OwnedFd,
    slots: Slots,
    counters: Counters,
    ports: MappedArray,
    links: BTreeMap<InterfaceIndex, Attached>,
    numbers: BTreeMap<InterfaceIndex, u16>,
    /// The written entries of ports.
    entries: BTreeMap<InterfaceIndex, [u64; 2]>,
    old: Vec<PathBuf>,
}

/// The reason for which an interface has no port.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel or a foreign program is in the way.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The driver has no native XDP. The generic form costs more than the kernel's forwarding.
    #[error("{0}")]
    NotNative(String),
    /// No number of a port is free.
    #[error("{} interfaces are ports already", PORTS - 1)]
    Numbers,
}

impl Chain {
    /// Takes up the chain pinned below `folder`, or makes a new chain.
    ///
    /// # Errors
    ///
    /// If the folder is not on a bpffs, or the kernel refuses the program.
    pub fn open(folder: &Path) -> Result<Self, BpfError> {
        let loader = Loader::new(Embedded::Root);
        let hash = loader.hash();
        let own = folder.join(format!("chain-{}", &hash[..DIGITS]));
        let pins = Pins::open(&own)?;
        let shares = |loader: Loader| {
            SHARED.into_iter().fold(loader, |loader, map| loader.share(map, &pins.map_path(map)))
        };
        let pinned = pins.program(Embedded::Root.name(), &hash)?;
        let root = match pinned {
            Some(root) => root,
            None => {
                let loaded = shares(loader).load()?;
                pins.pin_program(Embedded::Root.name(), &loaded)?;
                loaded.program().try_clone_to_owned().map_err(|source| own_error(&own, source))?
            }
        };
        let map = |name: &str| {
            pins.map(name)?
                .ok_or_else(|| own_error(&pins.map_path(name), std::io::ErrorKind::NotFound.into()))
        };
        let slots = Slots::new(map("slots")?.as_fd())?;
        let counters = Counters::new(map("counts")?.as_fd())?;
        let ports = MappedArray::new(map("ports")?.as_fd())?;
        let (links, numbers, entries) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut chain =
            Chain { pins, root, slots, counters, ports, links, numbers, entries, old: Vec::new() };
        chain.take_over_links(folder)?;
        Ok(chain)
    }

    fn take_over_links(&mut self, folder: &Path) -> Result<(), BpfError> {
        for path in chains_below(folder)? {
            let Some(pins) = Pins::open_old(&path)? else { continue };
            let is_old = path != self.pins.folder();
            for link in pins.links()? {
                if let Some(index) = InterfaceIndex::new(link.interface_index()?) {
                    self.links.insert(index, Attached { link, is_old });
                }
            }
            if is_old {
                self.old.push(path);
            }
        }
        let indices: Vec<_> = self.links.keys().copied().collect();
        for index in indices {
            // The counters of an interface go on under its number, if the entry has one.
            let word = self.ports.load64(index.number() as usize, 0).unwrap_or_default();
            let number = (word >> 48) as u16;
            let is_free = number != 0 && !self.numbers.values().any(|used| *used == number);
            self.numbers.extend(is_free.then_some((index, number)));
        }
        Ok(())
    }

    /// Loads the IP program with empty tables of its own. It forwards nothing before [`Chain::go_live`].
    ///
    /// # Errors
    ///
    /// If the kernel refuses the program or has no memory for its maps.
    pub(crate) fn load_ip(&self, flow_seed: u64) -> Result<Loaded, BpfError> {
        self.shared(Loader::new(Embedded::Ip).constant_u64("flow_seed", flow_seed)).load()
    }

    fn shared(&self, loader: Loader) -> Loader {
        SHARED.into_iter().fold(loader, |loader, map| loader.share(map, &self.pins.map_path(map)))
    }

    /// Loads a component's program. Its maps `maps` are pinned, or taken up as they were pinned before.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the program, or a pinned map has another shape.
    pub fn load(&self, program: Embedded, maps: &[&str]) -> Result<Loaded, BpfError> {
        let loader = self.shared(Loader::new(program));
        maps.iter().fold(loader, |loader, map| loader.share(map, &self.pins.map_path(map))).load()
    }

    /// Loads a program for copies, with the pinned maps `maps` of a program of the chain.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the program, or a pinned map has another shape.
    pub(crate) fn load_copies(&self, program: Embedded, maps: &[&str]) -> Result<Loaded, BpfError> {
        let loader = Loader::new(program);
        maps.iter().fold(loader, |loader, map| loader.share(map, &self.pins.map_path(map))).load()
    }

    /// Puts a program into a slot, in the place of an earlier one.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn fill(&self, slot: Slot, program: &Loaded) -> Result<(), BpfError> {
        self.slots.set(slot, program.program())
    }

    /// Returns true if a program stands in the slot.
    pub(crate) fn is_filled(&self, slot: Slot) -> bool {
        self.slots.program_id(slot).is_ok_and(|id| id.is_some())
    }

    /// Empties a slot, and removes the pins of its program's maps.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn empty(&self, slot: Slot, maps: &[&str]) -> Result<(), BpfError> {
        self.slots.clear(slot)?;
        for map in maps {
            let path = self.pins.map_path(map);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(own_error(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts the IP program into its slot, in the place of an earlier one, and moves the links of older chains here.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn go_live(&mut self, ip: &Loaded) -> Result<(), BpfError> {
        self.slots.set(Slot::Ip, ip.program())?;
        for attached in self.links.values_mut().filter(|attached| attached.is_old) {
            attached.link.update(self.root.as_fd())?;
            self.pins.pin_link(&attached.link)?;
            attached.is_old = false;
        }
        for path in self.old.drain(..) {
            if let Some(pins) = Pins::open_old(&path)? {
                pins.remove_all()?;
            }
        }
        Ok(())
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of an interface's counters.
    pub fn number(&self, interface: InterfaceIndex) -> Option<u16> {
        self.numbers.get(&interface).copied()
    }

    /// Attaches the root program to an interface, unless it is attached.
    ///
    /// # Errors
    ///
    /// If another program is attached, the driver has no native XDP, or all numbers of ports are in use.
    pub fn attach(&mut self, interface: InterfaceIndex, name: &str) -> Result<(), AttachError> {
        if !self.numbers.contains_key(&interface) {
            let used: Vec<u16> = self.numbers.values().copied().collect();
            let free = (1..PORTS as u16).find(|number| !used.contains(number)).ok_or(AttachError::Numbers)?;
            self.numbers.insert(interface, free);
        }
        let attached = match self.links.contains_key(&interface) {
            true => Ok(()),
            false => self.attach_new(interface, name),
        };
        if attached.is_err() {
            self.numbers.remove(&interface);
        }
        attached
    }

    fn attach_new(&mut self, interface: InterfaceIndex, name: &str) -> Result<(), AttachError> {
        let link = Link::attach(name, self.root.as_fd())?;
        if let Mode::Generic { because } = link.mode() {
            return Err(AttachError::NotNative(because.clone()));
        }
        self.pins.pin_link(&link)?;
        self.links.insert(interface, Attached { link, is_old: false });
        Ok(())
    }

    /// Detaches the root program from an interface.
    ///
    /// # Errors
    ///
    /// If the pin cannot be removed.
    pub fn detach(&mut self, interface: InterfaceIndex) -> Result<(), BpfError> {
        self.set_port(interface, Mac([0; 6]), 0, 0);
        self.numbers.remove(&interface);
        match self.links.remove(&interface) {
            Some(attached) => self.pins.remove_link(attached.link.interface()),
            None => Ok(()),
        }
    }

    /// Writes an interface's entry: its link-layer address, and the families for which the fast path is on
    /// (`PORT_IPV4`, `PORT_IPV6`), and the slots whose programs do not see its frames (bit `1 << slot`).
    pub fn set_port(&mut self, interface: InterfaceIndex, mac: Mac, flags: u32, skipped: u32) {
        let number = self.number(interface).unwrap_or_default().to_ne_bytes();
        let [a, b, c, d, e, f] = mac.0;
        let address = u64::from_ne_bytes([a, b, c, d, e, f, number[0], number[1]]);
        let entry = [address, u64::from(flags) | u64::from(skipped) << 32];
        self.entries.insert(interface, entry);
        self.write_entry(interface, entry);
    }

    fn write_entry(&self, interface: InterfaceIndex, [address, flags]: [u64; 2]) {
        let entry = interface.number() as usize;
        if self.ports.load64(entry, 0) != Some(address) {
            // Flags are on only while the address is right.
            self.ports.store64(entry, 1, 0);
            self.ports.store64(entry, 0, address);
        }
        self.ports.store64(entry, 1, flags);
    }

    /// Compares the entries of ports with the written entries, and mends differences. Returns a description of each.
    pub(crate) fn audit_ports(&self) -> Vec<String> {
        let mut mended = Vec::new();
        for (interface, expected) in &self.entries {
            let entry = interface.number() as usize;
            // Entries beyond the map hold nothing.
            let found = [0, 1].map(|word| self.ports.load64(entry, word));
            for (word, (found, expected)) in found.into_iter().zip(*expected).enumerate() {
                if let Some(found) = found.filter(|found| *found != expected) {
                    mended.push(format!(
                        "word {word} of the entry of port {entry} was {found:#x} instead of {expected:#x}"
                    ));
                }
            }
            if found
                .into_iter()
                .zip(*expected)
                .any(|(found, expected)| found.is_some_and(|found| found != expected))
            {
                self.write_entry(*interface, *expected);
            }
        }
        mended
    }

    /// Returns the families for which an interface's entry has the fast path on, written by this process or a predecessor; 0 if the
    /// link-layer address differs.
    pub fn flags(&self, interface: InterfaceIndex, mac: Mac) -> u32 {
        let entry = interface.number() as usize;
        let address = self.ports.load64(entry, 0).unwrap_or_default().to_ne_bytes();
        let flags = self.ports.load64(entry, 1).unwrap_or_default();
        if address.starts_with(&mac.0) { flags as u32 } else { 0 }
    }

    /// Detaches the root program from the interfaces and removes the pins below `folder`.
    ///
    /// # Errors
    ///
    /// If a pin cannot be removed.
    pub fn remove(folder: &Path) -> Result<(), BpfError> {
        for path in chains_below(folder)? {
            if let Some(pins) = Pins::open_old(&path)? {
                pins.remove_all()?;
            }
        }
        Ok(())
    }
}

fn own_error(path: &Path, source: std::io::Error) -> BpfError {
    BpfError::Pin { path: path.into(), source }
}

/// Returns the folders of chains; none if `folder` does not exist.
fn chains_below(folder: &Path) -> Result<Vec<PathBuf>, BpfError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|source| own_error(folder, source))?,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_chain =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chain-"));
    Ok(paths.filter(is_chain).collect())
}
