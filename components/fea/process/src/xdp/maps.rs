//! The forwarding tables' words in the maps that the IP program reads.

use sluice_bpf::array::MappedArray;
use sluice_bpf::{BpfError, Loaded};
use sluice_fea::xdp::{Area, Words};

/// The maps of the areas, in the areas' order.
#[derive(Debug)]
pub struct Maps([MappedArray; Area::ALL.len()]);

impl Maps {
    /// Maps the areas of a loaded program into this process's memory.
    ///
    /// # Errors
    ///
    /// If a map does not exist, has another size, or cannot be mapped.
    pub fn of(program: &Loaded) -> Result<Self, BpfError> {
        let map = |area: Area| MappedArray::new(program.map(name(area))?);
        let [a, b, c, d, e, f, g] = Area::ALL;
        Ok(Maps([map(a)?, map(b)?, map(c)?, map(d)?, map(e)?, map(f)?, map(g)?]))
    }
}

fn name(area: Area) -> &'static str {
    match area {
        Area::Ipv4Root => "ipv4_root",
        Area::Ipv4Nodes => "ipv4_nodes",
        Area::Ipv6Root => "ipv6_root",
        Area::Ipv6Nodes => "ipv6_nodes",
        Area::Groups => "groups",
        Area::Buckets => "buckets",
        Area::Members => "members",
    }
}

impl Words for Maps {
    fn load(&self, area: Area, word: usize) -> u64 {
        let Maps(maps) = self;
        // A word beyond the map reads as "to the kernel".
        maps[area as usize].load_word(word).unwrap_or_default()
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        let Maps(maps) = self;
        maps[area as usize].store_word(word, value);
    }
}
