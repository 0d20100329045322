//! Groups: the targets of entries. A group is one word, which leads to a member or to a block of buckets.
//!
//! A store of the word moves all prefixes of the group. A block of a group that stays a group of several members is
//! changed in place: each flow sees its old or its new member.

use super::layout::{
    Area, BLOCK_WORDS, BUCKETS, GroupWord, IPV4_DEFAULT, IPV6_DEFAULT, KERNEL_GROUP, KERNEL_MEMBER,
};
use super::limits::{Full, Limits, first_number};
use super::lookup::bucket;
use super::members::{MemberSlot, Members};
use super::numbers::Numbers;
use super::shares::{Weighted, assign};
use super::words::Words;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// A group's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupSlot(pub(super) u32);

impl GroupSlot {
    /// Returns the number in the area of groups.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The group's members with their weights, each member once.
type Ways = SmallVec<[Weighted; 2]>;

/// A group in use.
#[derive(Debug, Default)]
struct Group {
    ways: Ways,
    block: Option<u32>,
    /// Prefixes whose entries lead to the group.
    routes: u32,
    /// True if the group is to be retired when no prefix leads to it.
    removed: bool,
}

/// The groups and the blocks of buckets.
#[derive(Debug)]
pub(super) struct Groups {
    pub(super) numbers: Numbers,
    pub(super) blocks: Numbers,
    groups: Vec<Option<Group>>,
    /// The groups of the default routes, by the numbers of their copies.
    defaults: [Option<u32>; 2],
    /// Groups that lead to the kernel because no block was free.
    waiting: BTreeSet<u32>,
}

impl Groups {
    pub(super) fn new(limits: &Limits) -> Self {
        let numbers = |area| Numbers::new(first_number(area), limits.end(area));
        Groups {
            numbers: numbers(Area::Groups),
            blocks: numbers(Area::Buckets),
            groups: Vec::new(),
            defaults: [None; 2],
            waiting: BTreeSet::new(),
        }
    }

    /// Adds a group that leads to the kernel.
    pub(super) fn add(&mut self) -> Result<GroupSlot, Full> {
        let number = self.numbers.take().ok_or(Full(Area::Groups))?;
        let at = number as usize;
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, || None);
        }
        self.groups[at] = Some(Group::default());
        Ok(GroupSlot(number))
    }

    /// Replaces a group's members. A group that was removed stays removed.
    pub(super) fn set(
        &mut self,
        words: &mut impl Words,
        members: &mut Members,
        slot: GroupSlot,
        ways: &[(MemberSlot, u8)],
    ) -> Result<(), Full> {
        let Some(group) = self.get_mut(slot.0).filter(|group| !group.removed) else { return Ok(()) };
        let mut merged = Ways::new();
        for (member, weight) in ways.iter().filter(|(_, weight)| *weight > 0) {
            match merged.iter_mut().find(|way| way.0 == member.0) {
                Some(way) => way.1 += u32::from(*weight),
                None if members.acquire(member.0) => merged.push((member.0, u32::from(*weight))),
                None => {}
            }
        }
        let old = core::mem::replace(&mut group.ways, merged);
        let result = self.write(words, slot.0);
        old.iter().for_each(|(member, _)| members.release(*member));
        result
    }

    /// Removes a group, and retires its number once no prefix leads to it. Packets of prefixes that do go to the kernel.
    pub(super) fn remove(&mut self, words: &mut impl Words, members: &mut Members, slot: GroupSlot) {
        let Some(group) = self.get_mut(slot.0) else { return };
        if group.routes > 0 {
            // Without members no block is needed, so that no room can be missing.
            let _ = self.set(words, members, slot, &[]);
        } else {
            // The word stays for program runs that know the number: block and members are retired with it.
            let (ways, block) = (core::mem::take(&mut group.ways), group.block.take());
            ways.iter().for_each(|(member, _)| members.release(*member));
            block.into_iter().for_each(|block| self.blocks.retire(block));
            self.waiting.remove(&slot.0);
        }
        if let Some(group) = self.get_mut(slot.0) {
            group.removed = true;
            self.retire_unused(slot.0);
        }
    }

    /// Adds a prefix to a group. Returns false for a group that was removed.
    pub(super) fn acquire(&mut self, number: u32) -> bool {
        match self.get_mut(number) {
            Some(group) if !group.removed => {
                group.routes += 1;
                true
            }
            _ => false,
        }
    }

    /// Takes a prefix from a group. Any number is accepted that an entry may have.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(group) = self.get_mut(number) {
            group.routes = group.routes.saturating_sub(1);
            self.retire_unused(number);
        }
    }

    /// Points the addresses that no prefix covers to a group, or to the kernel. `copy` is [`IPV4_DEFAULT`] or
    /// [`IPV6_DEFAULT`].
    pub(super) fn set_default(&mut self, words: &mut impl Words, copy: u32, group: Option<u32>) {
        self.defaults[copy as usize] = group;
        let word = words.load(Area::Groups, group.unwrap_or(KERNEL_GROUP) as usize);
        words.store(Area::Groups, copy as usize, word);
    }

    /// Returns a group's members with their weights.
    pub(super) fn ways(&self, slot: GroupSlot) -> &[Weighted] {
        self.groups.get(slot.0 as usize).and_then(Option::as_ref).map_or(&[], |group| &group.ways)
    }

    /// Returns true if a group leads to the kernel because no block was free.
    pub(super) fn is_waiting(&self, slot: GroupSlot) -> bool {
        self.waiting.contains(&slot.0)
    }

    /// Returns the number of groups that lead to the kernel because no block was free.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives free blocks to the groups that wait for them.
    pub(super) fn retry(&mut self, words: &mut impl Words) {
        while self.blocks.has_free()
            && let Some(number) = self.waiting.pop_first()
        {
            // A block is free.
            let _ = self.write(words, number);
        }
    }

    /// Writes the block and the word that a group's members need.
    fn write(&mut self, words: &mut impl Words, number: u32) -> Result<(), Full> {
        let Some(group) = self.groups.get_mut(number as usize).and_then(Option::as_mut) else {
            return Ok(());
        };
        let single = match group.ways[..] {
            [] => Some(KERNEL_MEMBER),
            [(member, _)] => Some(member),
            _ => None,
        };
        let mut retired = None;
        let mut result = Ok(());
        let word = if let Some(member) = single {
            retired = group.block.take();
            GroupWord::Member(member)
        } else if let Some(block) = group.block {
            fill_block(words, block, &group.ways, false);
            GroupWord::Block(block)
        } else if let Some(block) = self.blocks.take() {
            group.block = Some(block);
            fill_block(words, block, &group.ways, true);
            GroupWord::Block(block)
        } else {
            result = Err(Full(Area::Buckets));
            GroupWord::Member(KERNEL_MEMBER)
        };
        if result.is_ok() {
            self.waiting.remove(&number);
        } else {
            self.waiting.insert(number);
        }
        let copies = [IPV4_DEFAULT, IPV6_DEFAULT];
        let copies = copies.into_iter().filter(|copy| self.defaults[*copy as usize] == Some(number));
        for at in core::iter::once(number).chain(copies) {
            if words.load(Area::Groups, at as usize) != word.to_word() {
                words.store(Area::Groups, at as usize, word.to_word());
            }
        }
        if let Some(block) = retired {
            self.blocks.retire(block);
        }
        result
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Group> {
        self.groups.get_mut(number as usize)?.as_mut()
    }

    fn retire_unused(&mut self, number: u32) {
        if let Some(place) = self.groups.get_mut(number as usize)
            && place.take_if(|group| group.removed && group.routes == 0).is_some()
        {
            self.numbers.retire(number);
        }
    }
}

/// Assigns the buckets of a block. The content of a `fresh` block is not kept.
fn fill_block(words: &mut impl Words, block: u32, ways: &[Weighted], fresh: bool) {
    let old: [u32; BUCKETS] = core::array::from_fn(|at| bucket(words, block, at));
    let mut buckets = if fresh { [u32::MAX; BUCKETS] } else { old };
    assign(&mut buckets, ways);
    for (word, pair) in buckets.as_chunks::<2>().0.iter().enumerate() {
        if fresh || *pair != old[word * 2..word * 2 + 2] {
            let value = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            words.store(Area::Buckets, block as usize * BLOCK_WORDS + word, value);
        }
    }
}
