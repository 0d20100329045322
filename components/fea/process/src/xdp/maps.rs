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
        let map = |area: Area| {
            let map = MappedArray::new(program.map(name(area))?)?;
            if map.words() == area.words() {
                return Ok(map);
            }
            Err(BpfError::Shape {
                map: name(area).into(),
                found: format!("{} words", map.words()),
                expected: format!("{} words", area.words()),
            })
        };
        let [a, b, c, d, e, f, g, h] = Area::ALL;
        Ok(Maps([map(a)?, map(b)?, map(c)?, map(d)?, map(e)?, map(f)?, map(g)?, map(h)?]))
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
        Area::Sources => "ipv4_sources",
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

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::InterfaceIndex;
    use sluice_bpf::layout as program;
    use sluice_fea::xdp::{Action, Way, layout as core};

    /// The program's layout, which a test of `sluice-bpf` compares with the compiled programs, is the core's.
    #[test]
    fn the_core_writes_what_the_program_reads() {
        let octets = |area: Area| match area {
            Area::Ipv4Root => program::IPV4_ROOT_WORDS as usize * 8,
            Area::Ipv4Nodes => program::IPV4_NODES as usize * size_of::<program::Ipv4Node>(),
            Area::Ipv6Root => program::IPV6_ROOT_WORDS as usize * 8,
            Area::Ipv6Nodes => program::IPV6_NODES as usize * size_of::<program::Ipv6Node>(),
            Area::Groups => program::GROUPS as usize * 8,
            Area::Buckets => program::BUCKET_BLOCKS as usize * size_of::<program::BucketBlock>(),
            Area::Members => program::MEMBERS as usize * size_of::<program::Member>(),
            Area::Sources => program::IPV4_SOURCE_WORDS as usize * 8,
        };
        for area in Area::ALL {
            assert_eq!(area.words() * 8, octets(area), "{area}");
        }
        assert_eq!(
            [core::IPV4_DEFAULT, core::IPV6_DEFAULT, core::KERNEL_GROUP],
            [program::GROUP_IPV4_DEFAULT, program::GROUP_IPV6_DEFAULT, program::GROUP_KERNEL]
        );
        assert_eq!(core::BUCKETS, program::BUCKETS as usize);
        let actions = [
            (Action::Kernel, program::MemberAction::Kernel),
            (Action::Forward, program::MemberAction::Forward),
            (Action::Drop, program::MemberAction::Drop),
            (Action::Unresolved, program::MemberAction::Unresolved),
        ];
        for (action, of_program) in actions {
            assert_eq!(action as u32, of_program as u32);
        }
    }

    #[test]
    fn a_member_has_its_fields_where_the_program_reads_them() {
        let way = Way {
            action: Action::Forward,
            interface: InterfaceIndex::new(0x0102_0304),
            mtu: 1500,
            destination: sluice_base::Mac([1, 2, 3, 4, 5, 6]),
            source: sluice_base::Mac([7, 8, 9, 10, 11, 12]),
        };
        let octets: Vec<u8> = way.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let at = |offset: usize, length: usize| &octets[offset..offset + length];
        let field = |offset: usize, value: u32| assert_eq!(at(offset, 4), value.to_ne_bytes());
        field(std::mem::offset_of!(program::Member, action), program::MemberAction::Forward as u32);
        field(std::mem::offset_of!(program::Member, interface), 0x0102_0304);
        field(std::mem::offset_of!(program::Member, mtu), 1500);
        assert_eq!(at(std::mem::offset_of!(program::Member, destination), 6), way.destination.0);
        assert_eq!(at(std::mem::offset_of!(program::Member, source), 6), way.source.0);
    }
}
