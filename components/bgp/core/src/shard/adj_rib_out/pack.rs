//! Packing: changes of an update group become UPDATEs, each attribute set written once (RFC 4271, section 9.2; RFC 7606,
//! section 5.1: one kind of routes a message, MP attributes first).
//!
//! A [`Block`] is written once for the group and copied to each member. Members differ only by message: in the octets of the next
//! hop ([`NextHopsFor`]), and because a member's own routes are not sent back. If a member's own route becomes the best path
//! after a different route was sent, the member receives a withdrawal instead: `Kind::Replace` marks such messages.

use super::export::{Exported, announcement_overhead};
use super::export_view::ExportView;
use super::exporter::Exporter;
use super::item::{Item, OutcomeId, Source};
use super::next_hops::{BOTH, NextHopsFor, ONE};
use crate::shard::{Accepted, Core};
use crate::wire::attribute::{Flags, code};
use crate::wire::{FamilyKey, MAX_MESSAGE_LEN, MessageType, PATH_ID_LEN, header};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Messages of a small block.
const SMALL_MESSAGES: usize = 16;

/// The effect of a message on the members of the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Withdraws; skipped for the source, which never received the route.
    Withdraw,
    /// Announces; skipped for the source, which received no earlier route either.
    Announce,
    /// Announces; withdraws for the source, which received a different route before.
    Replace,
}

/// The next hop of a message for members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HopField {
    /// The router's own, which differs from member to member.
    Own,
    /// The field's if directly reachable for the member, otherwise the router's own.
    ThirdParty,
    /// The field's.
    Fixed,
}

impl HopField {
    const fn of(exported: &Exported) -> Self {
        match (exported.is_own, exported.is_third_party) {
            (true, true) => HopField::ThirdParty,
            (true, false) => HopField::Own,
            (false, _) => HopField::Fixed,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    start: u32,
    len: u16,
    nlri_at: u16,
    nlri_len: u16,
    /// The offset of the next hop; 0: none.
    hop_at: u16,
    hop: HopField,
    pub prefixes: u16,
    pub source: Source,
    pub kind: Kind,
}

/// UPDATEs of a group, in order. Slow members read blocks late, so many blocks can exist, with next to no spare room.
#[derive(Debug, Default)]
pub(crate) struct Block {
    octets: Vec<u8>,
    messages: Vec<Message>,
    /// The sources of routes too large for a message.
    pub too_large: Vec<Source>,
    /// The sources of routes that lost attributes to fit in a message.
    pub reduced: Vec<Source>,
}

/// The routes that a copied message advertised to a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sent {
    /// UPDATE messages.
    pub updates: u64,
    /// Prefixes announced.
    pub announced: u64,
    /// Prefixes withdrawn.
    pub withdrawn: u64,
    /// Routes not announced because they do not fit in a message.
    pub too_large: u64,
    /// Routes announced without some attributes, to fit in a message (RFC 8654, section 4).
    pub reduced: u64,
}

impl core::ops::AddAssign for Sent {
    fn add_assign(&mut self, more: Sent) {
        self.updates += more.updates;
        self.announced += more.announced;
        self.withdrawn += more.withdrawn;
        self.too_large += more.too_large;
        self.reduced += more.reduced;
    }
}

/// The place of the family in a message with MP_REACH_NLRI, which is the first attribute and has a length of two octets.
const MP_CODE: usize = 27;

/// Takes the room for a link-local address out of the message at `at` of `out`, which ends there; the next hop is at `hop`. MP_REACH_NLRI is
/// the first attribute.
#[cold]
fn drop_link_local(out: &mut Vec<u8>, at: usize, hop: usize) {
    out.drain(hop + ONE..hop + BOTH);
    out[hop - 1] = ONE as u8;
    // The lengths of the message, of all attributes, and of MP_REACH_NLRI.
    for place in [at + 16, at + 21, at + 25] {
        let len = u16::from_be_bytes([out[place], out[place + 1]]);
        put_len(out, place, usize::from(len) - ONE);
    }
}

impl Block {
    /// Returns true if the block is worth keeping for reuse: single routes follow each other.
    pub fn is_small(&self) -> bool {
        self.octets.capacity() <= MAX_MESSAGE_LEN && self.messages.capacity() <= SMALL_MESSAGES
    }

    pub fn message(&self, index: usize) -> Option<&Message> {
        self.messages.get(index)
    }

    /// Counts the routes too large for a message: not sent to `member`, or sent without some attributes.
    #[inline(always)]
    pub fn count_too_large(&self, member: Source, sent: &mut Sent) {
        let of_others =
            |sources: &[Source]| sources.iter().filter(|source| **source != member).count() as u64;
        sent.too_large += of_others(&self.too_large);
        sent.reduced += of_others(&self.reduced);
    }

    /// Appends a message for `member`, with the member's next hop.
    #[inline(always)]
    pub fn copy<P: FamilyKey>(
        &self,
        message: &Message,
        member: Source,
        hop: &NextHopsFor<'_, P::Hop>,
        out: &mut Vec<u8>,
        sent: &mut Sent,
    ) {
        let start = message.start as usize;
        let octets = &self.octets[start..start + usize::from(message.len)];
        // The member may have been sent another route before, which the group does not know.
        let points_back =
            || message.hop == HopField::Fixed && hop.points_back(&octets[message.hop_at.into()..]);
        let withdrawal = match (message.source == member, message.kind) {
            (true, Kind::Withdraw | Kind::Announce) => return,
            (is_source, kind) if is_source || kind != Kind::Withdraw && points_back() => {
                let nlri = &octets[message.nlri_at.into()..][..message.nlri_len.into()];
                let code = [octets[MP_CODE], octets[MP_CODE + 1], octets[MP_CODE + 2]];
                put_withdrawal::<P>(code, out, |out| out.extend_from_slice(nlri));
                true
            }
            (_, kind) => {
                let at = out.len();
                out.extend_from_slice(octets);
                if kind != Kind::Withdraw {
                    let hop_at = at + usize::from(message.hop_at);
                    // The length of the attribute or of the next hop is before it.
                    let field = &mut out[hop_at..][..octets[usize::from(message.hop_at) - 1].into()];
                    let is_others = match message.hop {
                        HopField::Own => false,
                        HopField::ThirdParty => hop.keeps(field),
                        HopField::Fixed => true,
                    };
                    if !is_others {
                        field.copy_from_slice(hop.own);
                    } else if hop.of_other(field).len() < field.len() {
                        drop_link_local(out, at, hop_at);
                    }
                }
                kind == Kind::Withdraw
            }
        };
        sent.updates += 1;
        *(if withdrawal { &mut sent.withdrawn } else { &mut sent.announced }) += u64::from(message.prefixes);
    }
}

/// Writes a withdrawal with the prefixes appended by `nlri`; returns the prefixes' offset in the message. `code` is the family on
/// the wire.
fn put_withdrawal<P: FamilyKey>(code: [u8; 3], out: &mut Vec<u8>, nlri: impl FnOnce(&mut Vec<u8>)) -> usize {
    let at = header::start(out, MessageType::Update);
    let begin;
    if P::HAS_OWN_FIELDS {
        out.extend_from_slice(&[0, 0]);
        begin = out.len();
        nlri(out);
        let len = out.len() - begin;
        put_len(out, begin - 2, len);
        out.extend_from_slice(&[0, 0]);
    } else {
        let [a, b, safi] = code;
        let flags = Flags::OPTIONAL | Flags::EXTENDED;
        out.extend_from_slice(&[0, 0, 0, 0, flags, code::MP_UNREACH_NLRI, 0, 0, a, b, safi]);
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
const fn withdrawal_overhead<P: FamilyKey>() -> usize {
    if P::HAS_OWN_FIELDS { 23 } else { 30 }
}

fn put_len(out: &mut [u8], at: usize, len: usize) {
    out[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
}

/// Turns changes into messages.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    exported: Exported,
    /// The block in the making.
    draft: Block,
    order: Vec<(Rank, u32)>,
}

/// The common properties of a message's routes, as a number for the order of messages: withdrawals first, to make room at the
/// receiver; then by outcome, source and kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank(u64);

impl Rank {
    /// Makes the rank of an item. `watched` returns the peer of a route if the messages for members depend on the peer.
    #[inline]
    fn of(item: &Item, watched: impl Fn(Source) -> Source) -> Self {
        let Some(outcome) = item.outcome else {
            return Rank(u64::from(watched(item.before).bits()) << 2);
        };
        let source = watched(item.source);
        let replaces = source != Source::NONE && item.before != Source::NONE && item.before != item.source;
        let kind = if replaces { Kind::Replace } else { Kind::Announce };
        Rank(1 << 63 | u64::from(outcome.0) << 24 | u64::from(source.bits()) << 2 | kind as u64)
    }

    const fn source(self) -> Source {
        Source::from_bits((self.0 >> 2) as u16)
    }

    const fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Withdraw,
            1 => Kind::Announce,
            _ => Kind::Replace,
        }
    }
}

/// Routes with common messages, not packed yet.
struct Run<'a, P: FamilyKey> {
    core: &'a Core<P>,
    items: &'a [Item],
    /// True if a path identifier is before each prefix (RFC 7911, section 3).
    has_path_ids: bool,
    order: &'a [(Rank, u32)],
    source: Source,
    kind: Kind,
}

impl<P: FamilyKey> Run<'_, P> {
    /// Appends prefixes as long as `out` stays within `limit`; returns how many.
    #[inline]
    fn put(&mut self, limit: usize, out: &mut Vec<u8>) -> u16 {
        let mut count = 0;
        while let Some(((_, index), later)) = self.order.split_first() {
            let item = &self.items[*index as usize];
            let prefix = self.core.adj_rib_in.entries[item.entry].prefix;
            let path_id_len = if self.has_path_ids { PATH_ID_LEN } else { 0 };
            if out.len() + path_id_len + prefix.wire_len() > limit {
                break;
            }
            if self.has_path_ids {
                self.put_path_id(item, out);
            }
            prefix.put(out);
            count += 1;
            self.order = later;
        }
        count
    }

    #[inline(never)]
    fn put_path_id(&self, item: &Item, out: &mut Vec<u8>) {
        if let Some(path) = item.source.path().or(item.before.path()) {
            out.extend_from_slice(&self.core.adj_rib_in.lanes.sent_id(path).to_be_bytes());
        }
    }
}

impl Packer {
    /// Packs `items` for a group into `block`, replacing the contents. `watched` returns the peer of a route if the messages
    /// depend on the peer: a member, which is not sent its own routes, or a peer whose identifier becomes an attribute.
    #[inline(always)]
    pub fn pack<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        exporter: &Exporter,
        items: &[Item],
        watched: impl Fn(Source) -> Source,
        block: &mut Block,
    ) {
        self.order.clear();
        for (index, item) in items.iter().enumerate() {
            self.order.push((Rank::of(item, &watched), index as u32));
        }
        self.order.sort_unstable();
        self.draft.octets.clear();
        self.draft.messages.clear();
        let mut rest = &self.order[..];
        while let Some(&(rank, first)) = rest.first() {
            let len = rest.iter().take_while(|(r, _)| *r == rank).count();
            let (order, later) = rest.split_at(len);
            rest = later;
            let has_path_ids = view.paths.is_some();
            let mut run = Run { core, items, has_path_ids, order, source: rank.source(), kind: rank.kind() };
            if run.kind == Kind::Withdraw {
                withdraw(&mut self.draft, &mut run);
            } else if let Some((best, outcome)) = subject_of(core, view, &items[first as usize]) {
                self.exported.make(core, &exporter.subject(core, outcome, best), view);
                let longest = longest_message::<P>(&self.exported, view);
                announce(&mut self.draft, &self.exported, &mut run, longest);
            }
        }
        block.octets.clear();
        block.octets.extend_from_slice(&self.draft.octets);
        block.messages.clear();
        block.messages.extend_from_slice(&self.draft.messages);
    }
}

/// Returns the path and the outcome of an announcement.
fn subject_of<P: FamilyKey>(core: &Core<P>, view: &ExportView, item: &Item) -> Option<(Accepted, OutcomeId)> {
    let path = match (view.paths, item.source.path()) {
        (Some(_), Some(path)) => core.adj_rib_in.path(item.entry, path),
        _ => view.best_path(&core.adj_rib_in, item.entry),
    };
    path.zip(item.outcome)
}

#[inline(never)]
fn withdraw<P: FamilyKey>(draft: &mut Block, run: &mut Run<'_, P>) {
    while !run.order.is_empty() {
        let start = draft.octets.len();
        let mut count = 0;
        let nlri_at = put_withdrawal::<P>(run.core.code.octets(), &mut draft.octets, |out| {
            let limit = out.len() + MAX_MESSAGE_LEN - withdrawal_overhead::<P>();
            count = run.put(limit, out);
        });
        let len = draft.octets.len() - start;
        draft.messages.push(Message {
            start: start as u32,
            len: len as u16,
            nlri_at: nlri_at as u16,
            nlri_len: (len - withdrawal_overhead::<P>()) as u16,
            hop_at: 0,
            hop: HopField::Fixed,
            prefixes: count,
            source: run.source,
            kind: Kind::Withdraw,
        });
    }
}

/// Returns the most octets of messages with these attributes: extended messages are only for attributes too large for standard
/// messages (RFC 8654, section 5).
#[inline(always)]
fn longest_message<P: FamilyKey>(exported: &Exported, view: &ExportView) -> usize {
    let most = announcement_overhead::<P>(exported) + exported.attributes.len() + view.longest_nlri::<P>();
    if most <= MAX_MESSAGE_LEN { MAX_MESSAGE_LEN } else { view.longest_message() }
}

#[inline(always)]
fn announce<P: FamilyKey>(draft: &mut Block, exported: &Exported, run: &mut Run<'_, P>, longest: usize) {
    while !run.order.is_empty() {
        let out = &mut draft.octets;
        let start = header::start(out, MessageType::Update);
        out.extend_from_slice(&[0, 0, 0, 0]);
        let attributes_at = out.len();
        let (hop_at, nlri_at, nlri_len, count);
        if P::HAS_OWN_FIELDS {
            out.extend_from_slice(&exported.attributes);
            hop_at = attributes_at + exported.next_hop_at;
            nlri_at = out.len();
            put_len(out, attributes_at - 2, nlri_at - attributes_at);
            count = run.put(start + longest, out);
            nlri_len = out.len() - nlri_at;
        } else {
            let [a, b, safi] = run.core.code.octets();
            let hop_len = exported.next_hop.len() as u8;
            let flags = Flags::OPTIONAL | Flags::EXTENDED;
            out.extend_from_slice(&[flags, code::MP_REACH_NLRI, 0, 0, a, b, safi, hop_len]);
            hop_at = out.len();
            out.extend_from_slice(&exported.next_hop);
            out.push(0);
            nlri_at = out.len();
            count = run.put(start + longest - exported.attributes.len(), out);
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
            hop_at: (hop_at - start) as u16,
            hop: HopField::of(exported),
            prefixes: count,
            source: run.source,
            kind: run.kind,
        });
    }
}
