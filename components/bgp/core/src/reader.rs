//! The reader of a session: octets to messages, and UPDATEs to batches for the shards.
//!
//! Messages are read in place from the driver's buffer; only a message in two pieces is copied. An UPDATE becomes changes in a
//! [`crate::batch::Batch`] of the family without allocating: prefixes and the canonical attributes go straight into reused space.

use crate::attributes::{AttributeError, ReceiveRules, Scan, Verdict, canonical};
use crate::batch::{Batch, Batches, Change, DropCause};
use crate::family::{Families, FamilyIndex, FamilyVisitor, Sharded};
use crate::table::Spread;
use crate::wire::multiprotocol::{MpReach, MpUnreach, NextHop};
use crate::wire::notification::{code, update as subcode};
use crate::wire::{Expected, HEADER_LEN, Nlri, Notification, Update, WireError};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Ipv4Prefix, Provenance};
use smallvec::SmallVec;

pub use crate::framer::Framer;

/// The counters of the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReaderCounters {
    /// UPDATE messages.
    pub updates: u64,
    /// Octets of all messages.
    pub octets: u64,
    /// Prefixes announced.
    pub announced: u64,
    /// Prefixes withdrawn.
    pub withdrawn: u64,
    /// UPDATEs whose routes counted as withdrawn because they were malformed (RFC 7606).
    pub treated_as_withdraw: u64,
    /// UPDATEs from which an attribute was left out because it was malformed (RFC 7606).
    pub attribute_discards: u64,
    /// UPDATEs whose routes loop through this AS.
    pub loops: u64,
    /// UPDATEs whose routes another AS should not have passed on (RFC 9234).
    pub leaks: u64,
    /// Prefixes that unicast routing cannot have, which were ignored.
    pub unroutable: u64,
}

/// Remarks about an UPDATE that did not end the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remarks {
    /// The family of an End-of-RIB marker (RFC 4724, section 2).
    pub end_of_rib: Option<FamilyIndex>,
    /// The worst error in it, and whether its routes counted as withdrawn for it.
    pub malformed: Option<(AttributeError, bool)>,
}

/// Turns the UPDATEs of one session into changes.
#[derive(Debug)]
pub struct Reader {
    rules: ReceiveRules,
    spread: Spread,
    scratch: Vec<u8>,
    /// The number in each table's batch of the attributes of the UPDATE at hand.
    sets: SmallVec<[Option<u32>; 1]>,
    /// The counters so far.
    pub counters: ReaderCounters,
}

impl Reader {
    /// A reader for a session by `rules`, which spreads prefixes as the tables do.
    pub fn new(rules: ReceiveRules, spread: Spread) -> Self {
        Reader {
            rules,
            spread,
            scratch: Vec::new(),
            sets: SmallVec::from_elem(None, spread.tables()),
            counters: ReaderCounters::default(),
        }
    }

    /// Sets the form of the UPDATEs that follow: the octets of AS numbers, and the families with path identifiers.
    pub const fn set_form(&mut self, four_octet_as: bool, add_path: Families) {
        (self.rules.four_octet_as, self.rules.add_path) = (four_octet_as, add_path);
    }

    /// Returns the rules by which UPDATEs are read.
    pub const fn rules(&self) -> &ReceiveRules {
        &self.rules
    }

    /// Reads the body of an UPDATE into `batches`, one for each table. On an error nothing of it is in `batches`, and the
    /// session must end with the NOTIFICATION.
    pub fn update(
        &mut self,
        body: &[u8],
        provenance: Provenance,
        batches: &mut [Batches],
    ) -> Result<Remarks, Notification> {
        self.counters.updates += 1;
        self.counters.octets += (HEADER_LEN + body.len()) as u64;
        let Ok(update) = Update::decode(body) else {
            return Err(Notification::new(code::UPDATE, subcode::ATTRIBUTE_LIST));
        };
        if update.is_empty() {
            return Ok(Remarks { end_of_rib: Some(FamilyIndex::IPV4), malformed: None });
        }
        let mut scan = Scan::default();
        scan.fill(&update, &self.rules);
        let verdict = scan.verdict(&update);
        let withdraw = verdict == Verdict::Withdraw;
        if verdict != Verdict::Accept {
            self.count_rejected(&verdict)?;
        }
        self.counters.attribute_discards += u64::from(!withdraw && scan.error.is_some());
        let good = match verdict {
            Verdict::Accept => Ok(&scan),
            Verdict::Loop => Err(DropCause::Loop),
            Verdict::Reflected => Err(DropCause::Reflected),
            Verdict::Leak => Err(DropCause::Leak),
            Verdict::Withdraw | Verdict::Reset(_) => Err(DropCause::Malformed),
        };
        if let Err(error) = self.routes(&update, &scan, good, batches) {
            batches.iter_mut().for_each(Batches::drop_event);
            return Err(network_error(error));
        }
        batches.iter_mut().for_each(|batches| batches.end_event(provenance));
        Ok(Remarks {
            end_of_rib: self.end_of_rib(&update, &scan),
            malformed: scan.error.map(|(_, error)| (error, withdraw)),
        })
    }

    /// Counts an UPDATE whose routes are not good; fails if the session must end.
    #[cold]
    fn count_rejected(&mut self, verdict: &Verdict) -> Result<(), Notification> {
        match verdict {
            Verdict::Accept => {}
            Verdict::Loop | Verdict::Reflected => self.counters.loops += 1,
            Verdict::Leak => self.counters.leaks += 1,
            Verdict::Withdraw => self.counters.treated_as_withdraw += 1,
            Verdict::Reset(notification) => return Err(notification.clone()),
        }
        Ok(())
    }

    /// Reads the prefixes of an UPDATE; `good` is the scan if the announced ones are good, and the cause if they are not.
    fn routes(
        &mut self,
        update: &Update<'_>,
        scan: &Scan<'_>,
        good: Result<&Scan<'_>, DropCause>,
        batches: &mut [Batches],
    ) -> Result<(), WireError> {
        if !update.withdrawn.is_empty() {
            let withdrawn = Nlri::<Ipv4Prefix>::new(update.withdrawn, Update::WITHDRAWN_OFFSET);
            self.withdraw(withdrawn, batches)?;
        }
        if let Some(unreach) = &scan.mp_unreach {
            self.mp_unreach(unreach, batches)?;
        }
        if !update.nlri.is_empty() {
            let hop = scan.next_hop.map(|a| NextHop::new(a.into())).ok_or(DropCause::Malformed);
            let nlri = Nlri::<Ipv4Prefix>::new(update.nlri, update.nlri_offset);
            let good = good.and_then(|scan| Ok((scan, hop?)));
            self.announce(nlri, good, batches)?;
        }
        if let Some((reach, Some(hop))) = &scan.mp_reach {
            self.mp_reach(reach, good.map(|scan| (scan, *hop)), batches)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn mp_unreach(&mut self, unreach: &MpUnreach<'_>, batches: &mut [Batches]) -> Result<(), WireError> {
        let Some(family) = self.rules.codes.family(unreach.afi, unreach.safi) else { return Ok(()) };
        let (field, offset) = (unreach.withdrawn, unreach.withdrawn_offset);
        family.visit(Withdraw { reader: self, field, offset, batches })
    }

    #[inline(never)]
    fn mp_reach(
        &mut self,
        reach: &MpReach<'_>,
        good: Result<(&Scan<'_>, NextHop), DropCause>,
        batches: &mut [Batches],
    ) -> Result<(), WireError> {
        let Some(family) = self.rules.codes.family(reach.afi, reach.safi) else { return Ok(()) };
        let (field, offset) = (reach.nlri, reach.nlri_offset);
        family.visit(Announce { reader: self, field, offset, good, batches })
    }

    /// Reads withdrawn prefixes, with path identifiers if the peer sends several paths of a prefix (RFC 7911, section 5).
    #[inline(never)]
    fn withdraw<P: Sharded>(&mut self, nlri: Nlri<'_, P>, batches: &mut [Batches]) -> Result<(), WireError> {
        if self.rules.add_path.has(P::INDEX) {
            self.withdraw_paths(nlri.with_path_ids().map(identified), batches)
        } else {
            self.withdraw_paths(nlri.map(unidentified), batches)
        }
    }

    fn withdraw_paths<P: Sharded>(
        &mut self,
        nlri: impl Iterator<Item = Result<(Option<u32>, P), WireError>>,
        batches: &mut [Batches],
    ) -> Result<(), WireError> {
        let is_agreed = self.rules.families.has(P::INDEX);
        let mut run: Option<Run<'_, P>> = None;
        for path in nlri {
            let (path_id, prefix) = path?;
            if !is_agreed {
                continue;
            }
            self.counters.withdrawn += 1;
            let table = self.spread.table(prefix);
            if run.as_ref().is_none_or(|run| run.table != table) {
                let batch = batches[table].of_mut::<P>();
                run = Some(Run { table, set: Change::<P>::WITHDRAWN, batch });
            }
            if let Some(run) = &mut run {
                run.batch.push_path(prefix, path_id, run.set);
            }
        }
        Ok(())
    }

    /// Reads announced prefixes, with path identifiers if the peer sends several paths of a prefix (RFC 7911, section 5).
    fn announce<P: Sharded>(
        &mut self,
        nlri: Nlri<'_, P>,
        good: Result<(&Scan<'_>, NextHop), DropCause>,
        batches: &mut [Batches],
    ) -> Result<(), WireError> {
        if self.rules.add_path.has(P::INDEX) {
            self.announce_paths(nlri.with_path_ids().map(identified), good, batches)
        } else {
            self.announce_paths(nlri.map(unidentified), good, batches)
        }
    }

    fn announce_paths<P: Sharded>(
        &mut self,
        nlri: impl Iterator<Item = Result<(Option<u32>, P), WireError>>,
        good: Result<(&Scan<'_>, NextHop), DropCause>,
        batches: &mut [Batches],
    ) -> Result<(), WireError> {
        let is_agreed = self.rules.families.has(P::INDEX);
        self.sets.fill(None);
        let mut run: Option<Run<'_, P>> = None;
        for path in nlri {
            let (path_id, prefix) = path?;
            if !is_agreed {
                continue;
            }
            if !prefix.is_routable() {
                self.counters.unroutable += 1;
                continue;
            }
            self.counters.announced += 1;
            let table = self.spread.table(prefix);
            if run.as_ref().is_none_or(|run| run.table != table) {
                let set = match good {
                    Ok((scan, hop)) => match self.sets[table] {
                        Some(set) => set,
                        None => self.add_set::<P>(scan, hop, table, batches),
                    },
                    Err(cause) => Change::<P>::dropped(cause),
                };
                run = Some(Run { table, set, batch: batches[table].of_mut() });
            }
            if let Some(run) = &mut run {
                run.batch.push_path(prefix, path_id, run.set);
            }
        }
        Ok(())
    }

    /// Puts the attributes into the batch of a table: made anew for the first one, copied for the others.
    fn add_set<P: Sharded>(
        &mut self,
        scan: &Scan<'_>,
        hop: NextHop,
        table: usize,
        batches: &mut [Batches],
    ) -> u32 {
        let copy = if batches.len() > 1 { self.copy_set::<P>(table, batches) } else { None };
        let (rules, scratch) = (&self.rules, &mut self.scratch);
        let set = copy.unwrap_or_else(|| {
            batches[table]
                .of_mut::<P>()
                .add_set(self.spread.seed(), hop, |out| canonical::put(scan, rules, scratch, out))
        });
        self.sets[table] = Some(set);
        set
    }

    #[inline(never)]
    fn copy_set<P: Sharded>(&self, table: usize, batches: &mut [Batches]) -> Option<u32> {
        let (other, set) = self.sets.iter().enumerate().find_map(|(other, set)| Some((other, (*set)?)))?;
        let [to, from] = batches.get_disjoint_mut([table, other]).ok()?;
        Some(to.of_mut::<P>().copy_set(from.of(), set))
    }

    /// The family whose End-of-RIB marker this is: an MP_UNREACH_NLRI without prefixes, alone.
    fn end_of_rib(&self, update: &Update<'_>, scan: &Scan<'_>) -> Option<FamilyIndex> {
        let unreach = scan.mp_unreach.filter(|u| u.withdrawn.is_empty())?;
        let alone = update.withdrawn.is_empty() && update.nlri.is_empty() && scan.mp_reach.is_none();
        self.rules.codes.family(unreach.afi, unreach.safi).filter(|_| alone)
    }
}

/// Prefixes of an UPDATE, one after the other, that go to the same table with the same attributes.
struct Run<'b, P> {
    table: usize,
    set: u32,
    batch: &'b mut Batch<P>,
}

/// Reads the prefixes of an MP_UNREACH_NLRI.
struct Withdraw<'r, 'u> {
    reader: &'r mut Reader,
    field: &'u [u8],
    offset: usize,
    batches: &'r mut [Batches],
}

impl FamilyVisitor for Withdraw<'_, '_> {
    type Output = Result<(), WireError>;

    fn visit<P: Sharded>(self) -> Self::Output {
        self.reader.withdraw(Nlri::<P>::new(self.field, self.offset), self.batches)
    }
}

/// Reads the prefixes of an MP_REACH_NLRI.
struct Announce<'r, 'u, 's> {
    reader: &'r mut Reader,
    field: &'u [u8],
    offset: usize,
    good: Result<(&'r Scan<'s>, NextHop), DropCause>,
    batches: &'r mut [Batches],
}

impl FamilyVisitor for Announce<'_, '_, '_> {
    type Output = Result<(), WireError>;

    fn visit<P: Sharded>(self) -> Self::Output {
        self.reader.announce(Nlri::<P>::new(self.field, self.offset), self.good, self.batches)
    }
}

/// Returns a path with its identifier.
fn identified<P>(path: Result<(u32, P), WireError>) -> Result<(Option<u32>, P), WireError> {
    path.map(|(id, prefix)| (Some(id), prefix))
}

/// Returns the one path of a prefix.
fn unidentified<P>(prefix: Result<P, WireError>) -> Result<(Option<u32>, P), WireError> {
    prefix.map(|prefix| (None, prefix))
}

/// RFC 4271, section 6.3, and RFC 7606, section 5.3: prefixes that cannot be read end the session.
fn network_error(error: WireError) -> Notification {
    let data = match error.expected {
        Expected::PrefixLength(len) => Vec::from([len]),
        _ => Vec::new(),
    };
    Notification { code: code::UPDATE, subcode: subcode::NETWORK, data }
}
