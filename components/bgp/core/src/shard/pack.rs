//! Packing: changes of an update group become UPDATEs, each attribute set written once (RFC 4271, section 9.2; RFC 7606,
//! section 5.1: one kind of routes a message, MP attributes first).
//!
//! A [`Block`] is written once for the group and copied to each member. What differs between members is known by
//! message: the octets of the router's own next hop, and that nobody is told what it told itself. A member whose own route
//! became the best one must, if it was told another before, be told a withdrawal instead: `Kind::Replace` marks
//! the messages where that is so.

use super::Core;
use super::branch::{Item, Source};
use super::export::{Exported, GroupKey};
use crate::wire::attribute::{Flags, code};
use crate::wire::{AFI_IPV4, MAX_MESSAGE_LEN, MessageType, SAFI_UNICAST, Unicast, header};
use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What a message does for the members of the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Withdraws; not for the source, which was never told.
    Withdraw,
    /// Announces; not for the source, which was told nothing before either.
    Announce,
    /// Announces; a withdrawal for the source, which was told another route before.
    Replace,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    start: u32,
    len: u16,
    nlri_at: u16,
    nlri_len: u16,
    /// Where the router's own next hop goes; 0 if it does not.
    hop_at: u16,
    pub prefixes: u16,
    pub source: Source,
    pub kind: Kind,
}

/// UPDATEs of a group, in order. Some members read them later than others, so that there can be many: they have no room to spare.
#[derive(Debug)]
pub(super) struct Block {
    octets: Box<[u8]>,
    messages: Box<[Message]>,
}

/// A block in the making.
#[derive(Debug, Default)]
struct Draft {
    octets: Vec<u8>,
    messages: Vec<Message>,
}

/// What copying a message to a member told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sent {
    /// UPDATE messages.
    pub updates: u64,
    /// Prefixes announced.
    pub announced: u64,
    /// Prefixes withdrawn.
    pub withdrawn: u64,
}

impl core::ops::AddAssign for Sent {
    fn add_assign(&mut self, more: Sent) {
        self.updates += more.updates;
        self.announced += more.announced;
        self.withdrawn += more.withdrawn;
    }
}

impl Block {
    pub fn message(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }

    /// Appends a message as `member` is to see it, with its own next hop put in.
    pub fn copy<P: Unicast>(
        &self,
        message: &Message,
        member: Source,
        hop: &[u8],
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) {
        let start = message.start as usize;
        let octets = &self.octets[start..start + usize::from(message.len)];
        let withdrawal = match (message.source == member, message.kind) {
            (true, Kind::Withdraw | Kind::Announce) => return,
            (true, Kind::Replace) => {
                let nlri = &octets[message.nlri_at.into()..][..message.nlri_len.into()];
                put_withdrawal::<P>(out, |out| out.extend_from_slice(nlri));
                true
            }
            (false, kind) => {
                let at = out.len();
                out.extend_from_slice(octets);
                if message.hop_at > 0 {
                    out[at + usize::from(message.hop_at)..][..hop.len()].copy_from_slice(hop);
                }
                kind == Kind::Withdraw
            }
        };
        sent.updates += 1;
        *(if withdrawal { &mut sent.withdrawn } else { &mut sent.announced }) += u64::from(message.prefixes);
    }
}

/// Writes a withdrawal with the prefixes that `nlri` appends; returns where they begin in the message.
fn put_withdrawal<P: Unicast>(out: &mut Vec<u8>, nlri: impl FnOnce(&mut Vec<u8>)) -> usize {
    let at = header::start(out, MessageType::Update);
    let begin;
    if P::AFI == AFI_IPV4 {
        out.extend_from_slice(&[0, 0]);
        begin = out.len();
        nlri(out);
        let len = out.len() - begin;
        put_len(out, begin - 2, len);
        out.extend_from_slice(&[0, 0]);
    } else {
        let [a, b] = P::AFI.to_be_bytes();
        let flags = Flags::OPTIONAL | Flags::EXTENDED;
        out.extend_from_slice(&[0, 0, 0, 0, flags, code::MP_UNREACH_NLRI, 0, 0, a, b, SAFI_UNICAST]);
        begin = out.len();
        nlri(out);
        let len = out.len() - begin;
        put_len(out, begin - 5, len + 3);
        put_len(out, begin - 9, len + 7);
    }
    header::finish(out, at);
    begin - at
}

/// Octets of a withdrawal besides its prefixes.
const fn withdrawal_overhead<P: Unicast>() -> usize {
    if P::AFI == AFI_IPV4 { 23 } else { 30 }
}

fn put_len(out: &mut [u8], at: usize, len: usize) {
    out[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
}

/// Turns changes into messages.
#[derive(Debug, Default)]
pub(super) struct Packer {
    exported: Exported,
    draft: Draft,
    order: Vec<(u64, u32)>,
}

impl Packer {
    /// Packs `items` for a group into a block. `is_member` says whether a source is in the group: only then do its members
    /// differ.
    pub fn pack<P: Unicast>(
        &mut self,
        core: &Core<P>,
        key: &GroupKey,
        items: &[Item],
        is_member: impl Fn(Source) -> bool,
    ) -> Block {
        let watched = |source: Source| if is_member(source) { source } else { Source::NONE };
        let class = |item: &Item| match item.set {
            None => (0, watched(item.before), Kind::Withdraw),
            Some(set) => {
                let source = watched(item.source);
                let replaces =
                    source != Source::NONE && item.before != Source::NONE && item.before != item.source;
                (set.0, source, if replaces { Kind::Replace } else { Kind::Announce })
            }
        };
        // Withdrawals first: they make room at the other end. Runs of one set, source and kind share messages.
        self.order.clear();
        self.order.extend(items.iter().enumerate().map(|(index, item)| {
            let (set, source, kind) = class(item);
            let source = u64::from(source.peer().map_or(0, |p| p.0 + 1));
            let major = u64::from(kind != Kind::Withdraw) << 63;
            let rank = major | u64::from(set) << 24 | source << 2 | kind as u64;
            (rank, index as u32)
        }));
        self.order.sort_unstable();
        self.draft.octets.clear();
        self.draft.messages.clear();
        let mut rest = &self.order[..];
        while let Some(&(rank, first)) = rest.first() {
            let run = rest.iter().take_while(|(r, _)| *r == rank).count();
            let (now, later) = rest.split_at(run);
            rest = later;
            let (_, source, kind) = class(&items[first as usize]);
            let mut prefixes = now.iter().map(|(_, i)| core.entries[items[*i as usize].entry].prefix);
            if kind == Kind::Withdraw {
                withdraw(&mut self.draft, &mut prefixes, source);
            } else if let Some(best) = core.entries.best(items[first as usize].entry) {
                self.exported.make(core, best, key);
                announce(&mut self.draft, &self.exported, &mut prefixes, source, kind);
            }
        }
        Block { octets: self.draft.octets.as_slice().into(), messages: self.draft.messages.as_slice().into() }
    }
}

fn withdraw<P: Unicast>(draft: &mut Draft, prefixes: &mut impl Iterator<Item = P>, source: Source) {
    let mut prefixes = prefixes.peekable();
    while prefixes.peek().is_some() {
        let start = draft.octets.len();
        let mut count = 0;
        let nlri_at = put_withdrawal::<P>(&mut draft.octets, |out| {
            let limit = out.len() + MAX_MESSAGE_LEN - withdrawal_overhead::<P>();
            count = fill(out, limit, &mut prefixes);
        });
        let len = draft.octets.len() - start;
        draft.messages.push(Message {
            start: start as u32,
            len: len as u16,
            nlri_at: nlri_at as u16,
            nlri_len: (len - withdrawal_overhead::<P>()) as u16,
            hop_at: 0,
            prefixes: count,
            source,
            kind: Kind::Withdraw,
        });
    }
}

fn announce<P: Unicast>(
    draft: &mut Draft,
    exported: &Exported,
    prefixes: &mut impl Iterator<Item = P>,
    source: Source,
    kind: Kind,
) {
    let mut prefixes = prefixes.peekable();
    while prefixes.peek().is_some() {
        let out = &mut draft.octets;
        let start = header::start(out, MessageType::Update);
        out.extend_from_slice(&[0, 0, 0, 0]);
        let attributes_at = out.len();
        let (hop_at, nlri_at, nlri_len, count);
        if P::AFI == AFI_IPV4 {
            out.extend_from_slice(&exported.attributes);
            hop_at = attributes_at + exported.next_hop_at;
            nlri_at = out.len();
            put_len(out, attributes_at - 2, nlri_at - attributes_at);
            count = fill(out, start + MAX_MESSAGE_LEN, &mut prefixes);
            nlri_len = out.len() - nlri_at;
        } else {
            let [a, b] = P::AFI.to_be_bytes();
            let hop_len = exported.next_hop.len() as u8;
            let flags = Flags::OPTIONAL | Flags::EXTENDED;
            out.extend_from_slice(&[flags, code::MP_REACH_NLRI, 0, 0, a, b, SAFI_UNICAST, hop_len]);
            hop_at = out.len();
            out.extend_from_slice(&exported.next_hop);
            out.push(0);
            nlri_at = out.len();
            count = fill(out, start + MAX_MESSAGE_LEN - exported.attributes.len(), &mut prefixes);
            nlri_len = out.len() - nlri_at;
            let end = out.len();
            put_len(out, attributes_at + 2, end - attributes_at - 4);
            out.extend_from_slice(&exported.attributes);
            let len = out.len() - attributes_at;
            put_len(out, attributes_at - 2, len);
        }
        header::finish(out, start);
        draft.messages.push(Message {
            start: start as u32,
            len: (draft.octets.len() - start) as u16,
            nlri_at: (nlri_at - start) as u16,
            nlri_len: nlri_len as u16,
            hop_at: if exported.is_own { (hop_at - start) as u16 } else { 0 },
            prefixes: count,
            source,
            kind,
        });
    }
}

/// Appends prefixes as long as `out` stays within `limit`; returns how many.
fn fill<P: Unicast>(
    out: &mut Vec<u8>,
    limit: usize,
    prefixes: &mut core::iter::Peekable<&mut impl Iterator<Item = P>>,
) -> u16 {
    let mut count = 0;
    while let Some(prefix) = prefixes.next_if(|p| out.len() + p.wire_len() <= limit) {
        prefix.put(out);
        count += 1;
    }
    count
}
