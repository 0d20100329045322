//! The walk over a received UPDATE's attributes, and the verdict (RFC 4271, section 6.3; RFC 7606).

use super::problem::{AttributeError, Problem, Verdict};
use super::rules::{self, Scope, Treatment};
use crate::family::{Families, FamilyCodes};
use crate::relationship::Relationship;
use crate::wire::as_path::{Summary, Width};
use crate::wire::attribute::{Attributes, Flags, RawAttribute, code};
use crate::wire::multiprotocol::{MpReach, MpUnreach, NextHop};
use crate::wire::{Notification, Update, WireError, notification};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{Address, Asn, InterfaceIndex, RouterId, Xid};
use smallvec::SmallVec;

/// The rules for the UPDATEs of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveRules {
    /// The router's AS: a path with this AS is a loop.
    pub local_as: Asn,
    /// The router's AS toward the peer: a path with this AS is a loop too.
    pub presented_as: Asn,
    /// The router's BGP Identifier: a reflected route with this originator is a loop.
    pub router_id: RouterId,
    /// The router's cluster: a route reflected into this cluster is a loop.
    pub cluster_id: RouterId,
    /// The number of occurrences of the router's AS allowed in a path: for sites of one AS connected through further ASes.
    pub allow_as_in: u8,
    /// The peer's AS.
    pub peer_as: Asn,
    /// AS numbers have 4 octets (RFC 6793).
    pub four_octet_as: bool,
    /// Agreed families; routes of further families are ignored.
    pub families: Families,
    /// Families of which the peer sends several paths of a prefix (RFC 7911).
    pub add_path: Families,
    /// The families on the wire.
    pub codes: FamilyCodes,
    /// The local address of the session: no route may point to it (RFC 4271, section 6.3 a).
    pub local_address: IpAddr,
    /// The interface to the peer's link, for link-local next hops.
    pub interface: Option<InterfaceIndex>,
    /// The local address on the link.
    pub link_local: Option<Ipv6Addr>,
    /// The router's XID toward the peer: no route of XIDs may point to this XID.
    pub local_xid: Option<Xid>,
    /// True if the path of an external peer must begin with the peer's AS (RFC 7606, section 7.2); false for route servers.
    pub enforce_first_as: bool,
    /// The role of an external peer (RFC 9234).
    pub relationship: Option<Relationship>,
}

impl ReceiveRules {
    /// Returns the rules of a session with 4-octet AS numbers and all families; further rules have their defaults.
    pub const fn new(local_as: Asn, router_id: RouterId, peer_as: Asn, local_address: IpAddr) -> Self {
        ReceiveRules {
            local_as,
            presented_as: local_as,
            router_id,
            cluster_id: router_id,
            allow_as_in: 0,
            peer_as,
            four_octet_as: true,
            families: Families::ALL,
            add_path: Families::NONE,
            codes: FamilyCodes::DEFAULT,
            local_address,
            interface: None,
            link_local: None,
            local_xid: None,
            enforce_first_as: true,
            relationship: None,
        }
    }

    /// Returns true for an internal peer.
    pub fn is_internal(&self) -> bool {
        self.local_as == self.peer_as
    }

    /// Returns true if received routes with this ONLY_TO_CUSTOMER are a leak (RFC 9234, section 5, ingress 1 and 2).
    fn is_leak(&self, only_to_customer: Asn) -> bool {
        match self.relationship {
            Some(Relationship::Customer | Relationship::RouteServerClient) => true,
            Some(Relationship::Peer) => only_to_customer != self.peer_as,
            Some(Relationship::Provider | Relationship::RouteServer) | None => false,
        }
    }

    /// Octets of an AS number.
    pub const fn width(&self) -> Width {
        if self.four_octet_as { Width::Four } else { Width::Two }
    }
}

/// The attributes of an UPDATE.
#[derive(Debug, Default)]
pub struct Scan<'a> {
    /// The attributes of the set, by code.
    pub(super) stored: SmallVec<[RawAttribute<'a>; 12]>,
    pub(super) as4_path: Option<&'a [u8]>,
    pub(super) as4_aggregator: Option<&'a [u8]>,
    /// The summary of AS_PATH; loop detection reads AS4_PATH too.
    pub path: Summary,
    /// NEXT_HOP.
    pub next_hop: Option<Ipv4Addr>,
    /// MP_REACH_NLRI and its next hop; the next hop is `None` for an ignored family.
    pub mp_reach: Option<(MpReach<'a>, Option<NextHop>)>,
    /// MP_UNREACH_NLRI.
    pub mp_unreach: Option<MpUnreach<'a>>,
    /// The worst error, with the treatment.
    pub error: Option<(Treatment, AttributeError)>,
    /// The router's AS is in the path more often than allowed.
    is_loop: bool,
    is_leak: bool,
    /// True if the routes were reflected back to the router or its cluster.
    is_reflected_back: bool,
    reset: Option<Notification>,
    /// The received codes, a bit each; code 0 for an attribute that does not fit.
    seen: [u64; 4],
}

impl<'a> Scan<'a> {
    /// Reads the attributes of `update`.
    #[inline]
    pub fn new(update: &Update<'a>, rules: &ReceiveRules) -> Self {
        let mut scan = Scan::default();
        scan.fill(update, rules);
        scan
    }

    /// Scans into an empty scan in place: moving a large scan is slow.
    #[inline(always)]
    pub fn fill(&mut self, update: &Update<'a>, rules: &ReceiveRules) {
        for attribute in Attributes::new(update.attributes, update.attributes_offset) {
            match attribute {
                Ok(attribute) => self.attribute(attribute, rules),
                // RFC 7606, section 4: what follows cannot be read, what came before is as it was.
                Err(_) => {
                    self.seen(0);
                    self.note(Treatment::Withdraw, 0, Problem::Overrun);
                }
            }
        }
        // RFC 6793, section 6: between two new speakers these have no place.
        if rules.four_octet_as {
            self.as4_path = None;
            self.as4_aggregator = None;
        } else {
            self.finish_as4(rules);
        }
        self.is_loop = self.path.loops > rules.allow_as_in.into();
        if self.announces(update) {
            self.check_mandatory(update, rules);
        }
    }

    /// Returns true if a prefix is announced, also of an ignored family.
    pub fn announces(&self, update: &Update<'_>) -> bool {
        !update.nlri.is_empty() || self.mp_reach.is_some_and(|(reach, _)| !reach.nlri.is_empty())
    }

    /// Returns the treatment of the UPDATE.
    #[inline]
    pub fn verdict(&self, update: &Update<'_>) -> Verdict {
        match self.error {
            None if !self.is_loop && !self.is_leak && !self.is_reflected_back => Verdict::Accept,
            _ => self.objection(update),
        }
    }

    #[cold]
    fn objection(&self, update: &Update<'_>) -> Verdict {
        if let Some(notification) = &self.reset {
            return Verdict::Reset(notification.clone());
        }
        match self.error {
            Some((Treatment::Withdraw, error)) if !self.announces(update) && !self.only_withdraws() => {
                // RFC 7606, section 5.2: with attributes but without routes, the routes may have been overlooked.
                let data = Vec::from([error.code]);
                Verdict::Reset(Notification { data, ..attribute_list() })
            }
            Some((Treatment::Withdraw, _)) => Verdict::Withdraw,
            _ if self.is_loop => Verdict::Loop,
            _ if self.is_reflected_back => Verdict::Reflected,
            _ if self.is_leak => Verdict::Leak,
            _ => Verdict::Accept,
        }
    }

    /// Returns true if MP_UNREACH_NLRI is the only attribute.
    fn only_withdraws(&self) -> bool {
        self.seen == [1 << code::MP_UNREACH_NLRI, 0, 0, 0]
    }

    #[cold]
    fn note(&mut self, treatment: Treatment, code: u8, problem: Problem) {
        if self.error.is_none_or(|(worst, _)| treatment > worst) {
            self.error = Some((treatment, AttributeError { code, problem }));
        }
        if treatment == Treatment::Reset && self.reset.is_none() {
            self.reset = Some(attribute_list());
        }
    }

    fn seen(&mut self, code: u8) -> bool {
        let (word, bit) = (usize::from(code / 64), 1 << (code % 64));
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }

    #[inline]
    fn attribute(&mut self, attribute: RawAttribute<'a>, rules: &ReceiveRules) {
        let code = attribute.code;
        let routes = matches!(code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI);
        if self.seen(code) {
            // RFC 7606, section 3 g: the first one counts, but routes must not come twice.
            let treatment = if routes { Treatment::Reset } else { Treatment::Discard };
            return self.note(treatment, code, Problem::Repeated);
        }
        let Some(rule) = rules::rule(code) else {
            return self.unknown(attribute);
        };
        // RFC 4271, section 4.3: well-known attributes are never Partial.
        let well_known = rule.flags == Flags::TRANSITIVE;
        let mask = Flags::OPTIONAL | Flags::TRANSITIVE | if well_known { Flags::PARTIAL } else { 0 };
        if attribute.flags.0 & mask != rule.flags {
            self.note(rule.on_flags, code, Problem::Flags);
            // RFC 7606, section 3 j: routes that count as withdrawn must be known.
            if !routes {
                return;
            }
        }
        if rule.scope == Scope::Internal && !rules.is_internal() {
            return self.note(Treatment::Discard, code, Problem::Unrecognized);
        }
        let read = if (rule.is_well_formed)(attribute.value) {
            self.read(attribute, rules)
        } else {
            Err(Problem::Value)
        };
        match read {
            Ok(()) if rule.scope == Scope::NotStored => {}
            Ok(()) => self.store(attribute),
            Err(problem) => self.note(rule.on_value, code, problem),
        }
    }

    /// Keeps the order by code, as nearly all senders do.
    #[inline]
    fn store(&mut self, attribute: RawAttribute<'a>) {
        match self.stored.last() {
            Some(last) if last.code > attribute.code => self.store_before(attribute),
            _ => self.stored.push(attribute),
        }
    }

    #[cold]
    fn store_before(&mut self, attribute: RawAttribute<'a>) {
        let at = self.stored.iter().rposition(|a| a.code < attribute.code).map_or(0, |i| i + 1);
        self.stored.insert(at, attribute);
    }

    /// RFC 4271, section 5: unknown optional attributes are passed on if transitive, else ignored.
    #[cold]
    fn unknown(&mut self, attribute: RawAttribute<'a>) {
        if !attribute.flags.has(Flags::OPTIONAL) {
            let mut data = Vec::new();
            attribute.put(&mut data);
            self.reset.get_or_insert(Notification { code: notification::code::UPDATE, subcode: 2, data });
            self.note(Treatment::Reset, attribute.code, Problem::Unrecognized);
        } else if attribute.flags.has(Flags::TRANSITIVE) {
            self.store(RawAttribute { flags: Flags(attribute.flags.0 | Flags::PARTIAL), ..attribute });
        }
    }

    /// Evaluates the attributes with a meaning for the scan.
    fn read(&mut self, attribute: RawAttribute<'a>, rules: &ReceiveRules) -> Result<(), Problem> {
        let (value, offset) = (attribute.value, attribute.offset);
        let malformed = |_: WireError| Problem::Value;
        match attribute.code {
            code::AS_PATH => {
                self.path = Summary::of(value, rules.width(), offset, rules.local_as).map_err(malformed)?;
                if rules.presented_as != rules.local_as {
                    let by_other = Summary::of(value, rules.width(), offset, rules.presented_as);
                    self.path.loops += by_other.map_err(malformed)?.loops;
                }
                if self.path.has_zero { Err(Problem::AsZero) } else { Ok(()) }
            }
            code::NEXT_HOP => {
                self.next_hop = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
                Ok(())
            }
            code::AGGREGATOR => {
                let check =
                    if rules.four_octet_as { rules::is_aggregator::<8> } else { rules::is_aggregator::<6> };
                if check(value) { Ok(()) } else { Err(Problem::Value) }
            }
            code::MP_REACH_NLRI => {
                let reach = MpReach::decode(value, offset).map_err(malformed)?;
                let family = rules.codes.family(reach.afi, reach.safi);
                let next_hop = family
                    .map(|family| (family.row().next_hop)(reach.next_hop, reach.next_hop_offset))
                    .transpose()
                    .map_err(malformed)?;
                self.mp_reach = Some((reach, next_hop.map(|hop| hop.on(rules.interface))));
                Ok(())
            }
            code::MP_UNREACH_NLRI => {
                self.mp_unreach = Some(MpUnreach::decode(value, offset).map_err(malformed)?);
                Ok(())
            }
            code::AS4_PATH => {
                let path = Summary::of_as4(value, offset, rules.local_as).map_err(malformed)?;
                if value.is_empty() || path.has_zero {
                    return Err(Problem::Value);
                }
                if path.has_confederation {
                    self.note(Treatment::Discard, code::AS4_PATH, Problem::Confederation);
                }
                self.as4_path = Some(value);
                Ok(())
            }
            code::AS4_AGGREGATOR => {
                self.as4_aggregator = Some(value);
                Ok(())
            }
            // RFC 4456, section 8: one identifier in the first, any number in the second.
            code::ORIGINATOR_ID | code::CLUSTER_LIST => {
                let is_originator = attribute.code == code::ORIGINATOR_ID;
                let own = if is_originator { rules.router_id } else { rules.cluster_id }.0.to_be_bytes();
                self.is_reflected_back |= value.chunks_exact(4).any(|id| id == own);
                Ok(())
            }
            code::ONLY_TO_CUSTOMER => {
                self.is_leak =
                    <[u8; 4]>::try_from(value).is_ok_and(|asn| rules.is_leak(Asn(u32::from_be_bytes(asn))));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// RFC 6793, section 4.2.3: which of the two views of the path and of the aggregator counts.
    #[cold]
    fn finish_as4(&mut self, rules: &ReceiveRules) {
        let aggregator = self.stored.iter().find(|a| a.code == code::AGGREGATOR);
        let aggregator_as = aggregator.and_then(|a| rules::aggregator_as(a.value));
        if self.as4_aggregator.is_some() && aggregator_as != Some(Asn::TRANS) {
            self.as4_aggregator = None;
            if aggregator_as.is_some() {
                self.as4_path = None;
            }
        }
        let as4 = self.as4_path.and_then(|path| Summary::of_as4(path, 0, rules.local_as).ok());
        self.path.loops = self.path.loops.max(as4.map_or(0, |as4| as4.loops));
    }

    fn check_mandatory(&mut self, update: &Update<'_>, rules: &ReceiveRules) {
        for code in [code::ORIGIN, code::AS_PATH] {
            let word = self.seen[0];
            if word & (1 << code) == 0 {
                self.note(Treatment::Withdraw, code, Problem::Missing);
            }
        }
        if !rules.is_internal() && rules.enforce_first_as && self.path.neighbor != Some(rules.peer_as) {
            // An old speaker with a 4-octet number shows as AS_TRANS.
            let as_trans = !rules.four_octet_as && self.path.neighbor == Some(Asn::TRANS);
            if !as_trans {
                self.note(Treatment::Withdraw, code::AS_PATH, Problem::FirstAs);
            }
        }
        if !update.nlri.is_empty() {
            match self.next_hop {
                None => self.note(Treatment::Withdraw, code::NEXT_HOP, Problem::Missing),
                Some(hop) => self.check_next_hop(code::NEXT_HOP, NextHop::new(hop.into()), rules),
            }
        }
        if let Some((_, Some(hop))) = self.mp_reach {
            self.check_next_hop(code::MP_REACH_NLRI, hop, rules);
        }
    }

    fn check_next_hop(&mut self, code: u8, hop: NextHop, rules: &ReceiveRules) {
        let is_own = match hop.address {
            Address::Ip(address) => {
                address == rules.local_address || rules.link_local.is_some_and(|a| address == a)
            }
            identifier => rules.local_xid.is_some_and(|xid| identifier == xid.into()),
        };
        // Of a peer that is on no link of this router, a link-local address is nobody's.
        let is_lost = hop.is_link_local() && hop.interface.is_none();
        if !hop.is_host() || is_own || is_lost {
            self.note(Treatment::Withdraw, code, Problem::NextHop);
        }
    }
}

fn attribute_list() -> Notification {
    Notification::new(notification::code::UPDATE, notification::update::ATTRIBUTE_LIST)
}
