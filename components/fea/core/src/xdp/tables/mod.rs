//! The tables: prefixes, groups and members, kept in words that readers may look at after every store.

mod audit;
mod groups;
mod ipv4;
mod ipv6;
pub mod layout;
mod limits;
pub mod lookup;
mod members;
mod numbers;
mod shares;
mod sources;
mod trie;
mod words;

pub use audit::{Auditor, Mend};
pub use groups::GroupSlot;
pub use layout::{Action, Area, Way};
pub use limits::{Full, Limits};
pub use members::MemberSlot;
pub use numbers::Use;
pub use words::{Memory, Words};

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use groups::Groups;
use ipv4::Ipv4;
use ipv6::Ipv6;
use layout::{IPV4_DEFAULT, IPV6_DEFAULT, KERNEL_GROUP};
use lookup::{group_member, ipv4_group, ipv6_group, member_way};
use members::Members;
use numbers::Numbers;
use sluice_base::{Family, IpPrefix, Prefix};
use sluice_stage::Cursor;
use sources::Sources;
use trie::Trie;

/// The target of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A group forwards the packets.
    Group(GroupSlot),
    /// The kernel gets the packets.
    Kernel,
}

/// A running grace period: proof that retired objects wait for the end of all program runs that began before.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "retired objects become free only by `Tables::end_grace`"]
pub struct Grace(u64);

/// Amounts of all objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// IPv4 nodes.
    pub ipv4_nodes: Use,
    /// IPv6 nodes.
    pub ipv6_nodes: Use,
    /// Groups.
    pub groups: Use,
    /// Blocks of buckets.
    pub blocks: Use,
    /// Members.
    pub members: Use,
    /// IPv4 prefixes whose packets go to the kernel for want of nodes.
    pub ipv4_waiting: usize,
    /// IPv6 prefixes whose packets go to the kernel for want of nodes.
    pub ipv6_waiting: usize,
    /// Groups whose packets go to the kernel for want of blocks.
    pub groups_waiting: usize,
}

/// The forwarding tables of the XDP program over a store of words.
///
/// After each store, every address has the answer from before or from after the running change. Objects that readers
/// may still know are retired: [`Tables::begin_grace`] and [`Tables::end_grace`] make them free again.
pub struct Tables<W> {
    pub(super) words: W,
    ipv4: Trie<Ipv4>,
    ipv6: Trie<Ipv6>,
    /// The default routes' groups, by the numbers of the groups' copies.
    defaults: [Option<u32>; 2],
    groups: Groups,
    members: Members,
    sources: Sources,
    /// The number of the running grace period, or of the next one.
    grace: u64,
    in_grace: bool,
}

impl<W> fmt::Debug for Tables<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl<W: Words> Tables<W> {
    /// Empty tables. All words are 0.
    pub fn new(words: W) -> Self {
        Self::with_limits(words, Limits::default())
    }

    /// Empty tables that use a part of each area. All words are 0.
    pub fn with_limits(words: W, limits: Limits) -> Self {
        Tables {
            words,
            ipv4: Trie::new(&limits),
            ipv6: Trie::new(&limits),
            defaults: [None; 2],
            groups: Groups::new(&limits),
            members: Members::new(&limits),
            sources: Sources::default(),
            grace: 0,
            in_grace: false,
        }
    }

    /// Notes that the addresses of a prefix are the host's own, whose packets from outside the kernel drops, or are not any more. IPv6
    /// packets of such sources are forwarded, as the kernel does.
    pub fn set_own(&mut self, prefix: IpPrefix, is_own: bool) {
        if let IpPrefix::V4(prefix) = prefix {
            self.sources.set(&mut self.words, prefix, is_own);
        }
    }

    /// Sets or replaces a prefix's target. A group that was removed counts as [`Target::Kernel`].
    ///
    /// # Errors
    /// No node is free. The prefix is stored, and the packets to the smallest entry that holds it go to the kernel
    /// until [`Tables::end_grace`] frees a node.
    pub fn set_route(&mut self, prefix: IpPrefix, target: Target) -> Result<(), Full> {
        let group = match target {
            Target::Group(slot) if self.groups.acquire(slot.number()) => slot.number(),
            _ => KERNEL_GROUP,
        };
        let (old, result) = match prefix {
            _ if prefix.len() == 0 => (self.set_default(prefix, Some(group)), Ok(())),
            IpPrefix::V4(key) => self.ipv4.set(&mut self.words, key, group),
            IpPrefix::V6(key) => self.ipv6.set(&mut self.words, key, group),
        };
        if let Some(old) = old {
            self.groups.release(old);
        }
        result
    }

    /// Removes a prefix, if present. Its packets follow the longest prefix around it.
    pub fn remove_route(&mut self, prefix: IpPrefix) {
        let old = match prefix {
            _ if prefix.len() == 0 => self.set_default(prefix, None),
            IpPrefix::V4(key) => self.ipv4.remove(&mut self.words, key),
            IpPrefix::V6(key) => self.ipv6.remove(&mut self.words, key),
        };
        if let Some(old) = old {
            self.groups.release(old);
        }
    }

    /// Returns a prefix's target.
    pub fn route(&self, prefix: IpPrefix) -> Option<Target> {
        self.stored(prefix).map(target)
    }

    /// Iterates over the prefixes with their targets: IPv4 before IPv6, each in the order of addresses.
    pub fn routes(&self) -> impl Iterator<Item = (IpPrefix, Target)> {
        let [ipv4, ipv6] = self.defaults;
        let ipv4 = ipv4.map(|group| (IpPrefix::V4(Prefix::default_route()), target(group)));
        let ipv6 = ipv6.map(|group| (IpPrefix::V6(Prefix::default_route()), target(group)));
        let ipv4 = ipv4.into_iter().chain(self.ipv4.iter().map(|(key, group)| (key.into(), target(group))));
        let ipv6 = ipv6.into_iter().chain(self.ipv6.iter().map(|(key, group)| (key.into(), target(group))));
        ipv4.chain(ipv6)
    }

    /// Iterates over the prefixes of a family after `after` with their targets, in the order of addresses.
    pub fn routes_after(
        &self,
        family: Family,
        after: Option<IpPrefix>,
    ) -> impl Iterator<Item = (IpPrefix, Target)> {
        let default = match family {
            Family::Ipv4 => (IpPrefix::V4(Prefix::default_route()), self.defaults[0]),
            Family::Ipv6 => (IpPrefix::V6(Prefix::default_route()), self.defaults[1]),
        };
        let default = default.1.map(|group| (default.0, group)).filter(|_| after.is_none());
        let (ipv4, ipv6) = match (family, after) {
            (Family::Ipv4, Some(IpPrefix::V4(after))) => (Some(Cursor::After(after)), None),
            (Family::Ipv6, Some(IpPrefix::V6(after))) => (None, Some(Cursor::After(after))),
            (Family::Ipv4, _) => (Some(Cursor::Start), None),
            (Family::Ipv6, _) => (None, Some(Cursor::Start)),
        };
        let ipv4 = ipv4.into_iter().flat_map(|cursor| self.ipv4.iter_after(cursor));
        let ipv6 = ipv6.into_iter().flat_map(|cursor| self.ipv6.iter_after(cursor));
        let ipv4 = ipv4.map(|(key, group)| (key.into(), group));
        let all = default.into_iter().chain(ipv4).chain(ipv6.map(|(key, group)| (key.into(), group)));
        all.map(|(prefix, group)| (prefix, target(group)))
    }

    /// Returns true if all packets to a prefix go to the kernel for want of nodes.
    pub fn is_route_waiting(&self, prefix: IpPrefix) -> bool {
        match prefix {
            IpPrefix::V4(key) => self.ipv4.is_waiting(key),
            IpPrefix::V6(key) => self.ipv6.is_waiting(key),
        }
    }

    /// Adds a group with these members and weights. Ways to one member add up; a weight of 0 and a member that was
    /// removed count as absent; without members the packets go to the kernel. Without a free block the group goes to
    /// the kernel, as with [`Tables::set_group`], and [`Tables::is_group_waiting`] returns true.
    ///
    /// # Errors
    /// No group is free; nothing changed.
    pub fn add_group(&mut self, ways: &[(MemberSlot, u8)]) -> Result<GroupSlot, Full> {
        let slot = self.groups.add()?;
        // The group waits if no block is free.
        let _ = self.set_group(slot, ways);
        Ok(slot)
    }

    /// Replaces a group's members, see [`Tables::add_group`]. Flows keep their members as far as the weights allow.
    /// A group that was removed is left as it is.
    ///
    /// # Errors
    /// No block is free: the group's packets go to the kernel until [`Tables::end_grace`] frees one.
    pub fn set_group(&mut self, slot: GroupSlot, ways: &[(MemberSlot, u8)]) -> Result<(), Full> {
        self.groups.set(&mut self.words, &mut self.members, slot, ways)
    }

    /// Removes a group. The packets of prefixes that still lead to the group go to the kernel; the number is retired
    /// with the last of them.
    pub fn remove_group(&mut self, slot: GroupSlot) {
        self.groups.remove(&mut self.words, &mut self.members, slot);
    }

    /// Returns a group's members with the sums of their weights; none for a group that was removed.
    pub fn group(&self, slot: GroupSlot) -> impl Iterator<Item = (MemberSlot, u32)> {
        self.groups.ways(slot).iter().map(|(member, weight)| (MemberSlot(*member), *weight))
    }

    /// Returns true if a group's packets go to the kernel for want of blocks.
    pub fn is_group_waiting(&self, slot: GroupSlot) -> bool {
        self.groups.is_waiting(slot)
    }

    /// Adds a member. A member never changes: add another one and repoint the groups.
    ///
    /// # Errors
    /// No member is free; nothing changed.
    pub fn add_member(&mut self, way: Way) -> Result<MemberSlot, Full> {
        self.members.add(&mut self.words, &way)
    }

    /// Removes a member. The number is retired once no group leads to the member.
    pub fn remove_member(&mut self, slot: MemberSlot) {
        self.members.remove(slot);
    }

    /// Begins a grace period if an object was retired and no grace period is running. The caller waits until all
    /// program runs that began before the call have ended, then calls [`Tables::end_grace`].
    pub fn begin_grace(&mut self) -> Option<Grace> {
        let is_due = !self.in_grace && self.all_numbers().iter().any(|numbers| numbers.has_retired());
        is_due.then(|| {
            self.in_grace = true;
            self.all_numbers().into_iter().for_each(Numbers::begin_grace);
            Grace(self.grace)
        })
    }

    /// Ends a grace period: what was retired before its begin is free. Prefixes and groups that wait for want of room
    /// are tried again.
    pub fn end_grace(&mut self, grace: Grace) {
        if !self.in_grace || grace != Grace(self.grace) {
            return;
        }
        self.in_grace = false;
        self.grace += 1;
        self.all_numbers().into_iter().for_each(Numbers::end_grace);
        self.groups.retry(&mut self.words);
        self.ipv4.retry(&mut self.words);
        self.ipv6.retry(&mut self.words);
    }

    /// Returns the member to which the tables lead packets of a flow to an IPv4 address.
    pub fn lookup_ipv4(&self, address: Ipv4Addr, flow: u32) -> MemberSlot {
        MemberSlot(group_member(&self.words, ipv4_group(&self.words, address), flow))
    }

    /// Returns the member to which the tables lead packets of a flow to an IPv6 address.
    pub fn lookup_ipv6(&self, address: Ipv6Addr, flow: u32) -> MemberSlot {
        MemberSlot(group_member(&self.words, ipv6_group(&self.words, address), flow))
    }

    /// Returns the content of a member.
    pub fn way(&self, slot: MemberSlot) -> Way {
        member_way(&self.words, slot.number())
    }

    /// Returns the amounts of all objects. Visits each prefix that waits for want of room.
    pub fn usage(&self) -> Usage {
        Usage {
            ipv4_nodes: self.ipv4.usage(),
            ipv6_nodes: self.ipv6.usage(),
            groups: self.groups.numbers.usage(),
            blocks: self.groups.blocks.usage(),
            members: self.members.usage(),
            ipv4_waiting: self.ipv4.waiting(),
            ipv6_waiting: self.ipv6.waiting(),
            groups_waiting: self.groups.waiting(),
        }
    }

    /// Returns the octets on the heap that the prefixes need beside the words.
    pub fn memory_bytes(&self) -> usize {
        self.ipv4.memory_bytes() + self.ipv6.memory_bytes()
    }

    /// Returns the words.
    pub fn words(&self) -> &W {
        &self.words
    }

    fn all_numbers(&mut self) -> [&mut Numbers; 5] {
        [
            self.ipv4.numbers(),
            self.ipv6.numbers(),
            &mut self.groups.numbers,
            &mut self.groups.blocks,
            &mut self.members.numbers,
        ]
    }

    /// Returns the number of the group that a prefix leads to.
    fn stored(&self, prefix: IpPrefix) -> Option<u32> {
        match prefix {
            _ if prefix.len() == 0 => self.defaults[copy(prefix) as usize],
            IpPrefix::V4(key) => self.ipv4.get(key),
            IpPrefix::V6(key) => self.ipv6.get(key),
        }
    }

    /// Replaces a family's default route; returns the old one's group.
    fn set_default(&mut self, prefix: IpPrefix, group: Option<u32>) -> Option<u32> {
        self.groups.set_default(&mut self.words, copy(prefix), group);
        core::mem::replace(&mut self.defaults[copy(prefix) as usize], group)
    }
}

/// Returns the group that copies the word of the group of a family's default route.
fn copy(prefix: IpPrefix) -> u32 {
    match prefix {
        IpPrefix::V4(_) => IPV4_DEFAULT,
        IpPrefix::V6(_) => IPV6_DEFAULT,
    }
}

/// Returns the target of a prefix that leads to a group's number.
fn target(group: u32) -> Target {
    if group == KERNEL_GROUP { Target::Kernel } else { Target::Group(GroupSlot(group)) }
}
