//! Members: ways to forward, immutable once published.

use super::layout::{Area, KERNEL_MEMBER, MEMBER_WORDS, Way};
use super::limits::{Full, Limits, first_number};
use super::numbers::{Numbers, Use};
use super::words::Words;
use alloc::vec::Vec;

/// A member's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberSlot(pub(super) u32);

impl MemberSlot {
    /// The member "to the kernel". Never added and never removed.
    pub const KERNEL: MemberSlot = MemberSlot(KERNEL_MEMBER);

    /// Returns the number in the area of members.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A member in use.
#[derive(Debug)]
struct Member {
    /// The content: the words in the area may be damaged.
    words: [u64; MEMBER_WORDS],
    /// Groups that lead to the member.
    groups: u32,
    /// True if the member is to be retired when no group leads to it.
    removed: bool,
}

/// The members.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) numbers: Numbers,
    members: Vec<Option<Member>>,
}

impl Members {
    pub(super) fn new(limits: &Limits) -> Self {
        let numbers = Numbers::new(first_number(Area::Members), limits.end(Area::Members));
        Members { numbers, members: Vec::new() }
    }

    /// Writes a new member.
    pub(super) fn add(&mut self, words: &mut impl Words, way: &Way) -> Result<MemberSlot, Full> {
        let number = self.numbers.take().ok_or(Full(Area::Members))?;
        let content = way.to_words();
        for (word, value) in content.into_iter().enumerate() {
            words.store(Area::Members, number as usize * MEMBER_WORDS + word, value);
        }
        let at = number as usize;
        if self.members.len() <= at {
            self.members.resize_with(at + 1, || None);
        }
        self.members[at] = Some(Member { words: content, groups: 0, removed: false });
        Ok(MemberSlot(number))
    }

    /// Removes a member: retires its number once no group leads to it.
    pub(super) fn remove(&mut self, slot: MemberSlot) {
        if let Some(member) = self.get_mut(slot.0) {
            member.removed = true;
            self.retire_unused(slot.0);
        }
    }

    /// Adds a group to a member. Returns false for a member that was removed.
    pub(super) fn acquire(&mut self, number: u32) -> bool {
        match self.get_mut(number) {
            Some(member) if !member.removed => {
                member.groups += 1;
                true
            }
            _ => number == KERNEL_MEMBER,
        }
    }

    /// Takes a group from a member.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(member) = self.get_mut(number) {
            member.groups = member.groups.saturating_sub(1);
            self.retire_unused(number);
        }
    }

    /// Returns the expected words of a number; `None` for a number that is not in use.
    pub(super) fn expected(&self, number: u32) -> Option<[u64; MEMBER_WORDS]> {
        match self.members.get(number as usize) {
            _ if number == KERNEL_MEMBER => Some([0; MEMBER_WORDS]),
            Some(Some(member)) => Some(member.words),
            _ => None,
        }
    }

    /// Returns the number after the last one that was ever in use.
    pub(super) fn end(&self) -> u32 {
        (self.members.len() as u32).max(KERNEL_MEMBER + 1)
    }

    /// Returns the amounts of members.
    pub(super) fn usage(&self) -> Use {
        self.numbers.usage()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Member> {
        self.members.get_mut(number as usize)?.as_mut()
    }

    fn retire_unused(&mut self, number: u32) {
        if let Some(place) = self.members.get_mut(number as usize)
            && place.take_if(|member| member.removed && member.groups == 0).is_some()
        {
            self.numbers.retire(number);
        }
    }
}
