//! Groups: the targets of entries. A group is one word, which leads to a member or to a block of buckets.
//!
//! A store of the word moves all prefixes of the group. A block of a group that stays a group of several members is
//! changed in place: each flow sees its old or its new member.

use super::layout::{
    Area, BLOCK_WORDS, BUCKETS, GroupWord, IPV4_DEFAULT, IPV6_DEFAULT, KERNEL_GROUP, KERNEL_MEMBER,
};
use super::limits::{Full, Limits, first_number};
use super::members::{MemberSlot, Members};
use super::numbers::Numbers;
use super::shares::{Weighted, assign};
use super::words::Words;
use alloc::boxed::Box;
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

/// A block of buckets in use. The content is kept beside the words, which may be damaged.
#[derive(Debug)]
struct Block {
    number: u32,
    buckets: Box<[u32; BUCKETS]>,
}

/// A group in use.
#[derive(Debug, Default)]
struct Group {
    ways: Ways,
    block: Option<Block>,
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
            block.into_iter().for_each(|block| self.blocks.retire(block.number));
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
        let word = self.word(group.unwrap_or(KERNEL_GROUP));
        words.store(Area::Groups, copy as usize, word.to_word());
    }

    /// Returns the word of a group; "to the kernel" for a number that is not in use.
    fn word(&self, number: u32) -> GroupWord {
        let kernel = GroupWord::Member(KERNEL_MEMBER);
        let Some(Some(group)) = self.groups.get(number as usize) else { return kernel };
        match group.ways[..] {
            [] => kernel,
            [(member, _)] => GroupWord::Member(member),
            _ => group.block.as_ref().map_or(kernel, |block| GroupWord::Block(block.number)),
        }
    }

    /// Returns the expected word of a number; `None` for a number that is not in use.
    pub(super) fn expected(&self, number: u32) -> Option<u64> {
        let is_copy = (number as usize) < self.defaults.len();
        let source = if is_copy { self.defaults[number as usize].unwrap_or(KERNEL_GROUP) } else { number };
        let is_used = |number: u32| self.groups.get(number as usize).is_some_and(Option::is_some);
        (is_copy || number == KERNEL_GROUP || is_used(number)).then(|| self.word(source).to_word())
    }

    /// Returns the block of a group with its expected content; `None` for a group without a block.
    pub(super) fn expected_block(&self, number: u32) -> Option<(u32, &[u32; BUCKETS])> {
        let block = self.groups.get(number as usize)?.as_ref()?.block.as_ref()?;
        Some((block.number, &block.buckets))
    }

    /// Returns the number after the last one that was ever in use.
    pub(super) fn end(&self) -> u32 {
        (self.groups.len() as u32).max(KERNEL_GROUP + 1)
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
        let mut retired = None;
        let mut result = Ok(());
        if group.ways.len() < 2 {
            retired = group.block.take();
        } else if let Some(block) = &mut group.block {
            fill_block(words, block, &group.ways, false);
        } else if let Some(number) = self.blocks.take() {
            let mut block = Block { number, buckets: Box::new([u32::MAX; BUCKETS]) };
            fill_block(words, &mut block, &group.ways, true);
            group.block = Some(block);
        } else {
            result = Err(Full(Area::Buckets));
        }
        let word = self.word(number);
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
            self.blocks.retire(block.number);
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

/// Assigns the buckets of a block, and writes the words that change, or each word of a `fresh` block.
fn fill_block(words: &mut impl Words, block: &mut Block, ways: &[Weighted], fresh: bool) {
    let old = block.buckets.clone();
    assign(&mut block.buckets, ways);
    for (word, pair) in block.buckets.as_chunks::<2>().0.iter().enumerate() {
        if fresh || *pair != old[word * 2..word * 2 + 2] {
            words.store(Area::Buckets, block.number as usize * BLOCK_WORDS + word, bucket_word(*pair));
        }
    }
}

/// Returns the word of two buckets.
pub(super) const fn bucket_word([first, second]: [u32; 2]) -> u64 {
    first as u64 | (second as u64) << 32
}
