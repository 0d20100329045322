//! Messages from neighbors: the records BGP4MP_MESSAGE and their kin (RFC 6396, section 4.4; RFC 8050, section 3).

use crate::attributes::ReceiveRules;
use crate::family::{Families, FamilyCodes, FamilyIndex};
use crate::state::State;
use crate::wire::attribute::{Attributes, code};
use crate::wire::{Frame, HEADER_LEN, MessageType, Update, header};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::Asn;
use sluice_mrt::{Addresses, MessageForm, Session, Unwritable, Writer};

/// The session of recorded messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedSession {
    /// The peer's AS.
    pub peer_as: Asn,
    /// The router's AS toward the peer.
    pub local_as: Asn,
    /// The peer's address.
    pub peer: IpAddr,
    /// The local address; `None` if unknown.
    pub local: Option<IpAddr>,
    /// True if AS numbers in messages have 4 octets (RFC 6793).
    pub four_octet_as: bool,
    /// Families of which the peer sends path identifiers (RFC 7911).
    add_path: Families,
    /// The families on the wire.
    codes: FamilyCodes,
}

impl RecordedSession {
    /// A session before Established: messages have no routes.
    pub const fn opening(peer: IpAddr, peer_as: Asn, local_as: Asn, local: Option<IpAddr>) -> Self {
        let (add_path, codes) = (Families::NONE, FamilyCodes::DEFAULT);
        RecordedSession { peer_as, local_as, peer, local, four_octet_as: true, add_path, codes }
    }

    /// An established session, read by these rules.
    pub const fn established(peer: IpAddr, rules: &ReceiveRules) -> Self {
        RecordedSession {
            peer_as: rules.peer_as,
            local_as: rules.presented_as,
            peer,
            local: Some(rules.local_address),
            four_octet_as: rules.four_octet_as,
            add_path: rules.add_path,
            codes: rules.codes,
        }
    }

    /// Returns the session in the form of records. An unknown local address is the unspecified address.
    fn named(&self) -> Session {
        let addresses = match (self.peer, self.local) {
            (IpAddr::V4(peer), Some(IpAddr::V4(local))) => Addresses::V4 { peer, local },
            (IpAddr::V4(peer), _) => Addresses::V4 { peer, local: Ipv4Addr::UNSPECIFIED },
            (IpAddr::V6(peer), Some(IpAddr::V6(local))) => Addresses::V6 { peer, local },
            (IpAddr::V6(peer), _) => Addresses::V6 { peer, local: Ipv6Addr::UNSPECIFIED },
        };
        Session { peer_as: self.peer_as, local_as: self.local_as, interface: 0, addresses }
    }

    /// Returns true if prefixes in a message have path identifiers. A record states that for the whole message: an UPDATE with prefixes
    /// of two families, only one with identifiers, counts as one with identifiers.
    fn has_path_ids(&self, frame: &Frame<'_>) -> bool {
        if frame.kind != MessageType::Update || self.add_path == Families::NONE {
            return false;
        }
        let Ok(update) = Update::decode(frame.body) else { return false };
        let has_ipv4 = !update.withdrawn.is_empty() || !update.nlri.is_empty();
        if has_ipv4 && self.add_path.has(FamilyIndex::IPV4) {
            return true;
        }
        Attributes::new(update.attributes, update.attributes_offset).flatten().any(|attribute| {
            let [high, low, safi, ..] = *attribute.value else { return false };
            let family = self.codes.family(u16::from_be_bytes([high, low]), safi);
            matches!(attribute.code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI)
                && family.is_some_and(|family| self.add_path.has(family))
        })
    }

    /// Writes a record for each of the concatenated `messages`, and returns the number. `time` is in microseconds
    /// since 1970.
    ///
    /// # Errors
    /// If the time does not fit.
    pub fn write(&self, writer: &mut Writer, time: u64, messages: &[u8]) -> Result<u64, Unwritable> {
        let session = self.named();
        let mut count = 0;
        for (frame, octets) in whole(messages) {
            let form =
                MessageForm { four_octet_as: self.four_octet_as, has_path_ids: self.has_path_ids(&frame) };
            writer.received_message(time, &session, form, octets)?;
            count += 1;
        }
        Ok(count)
    }

    /// Writes a change of the session's state (RFC 6396, section 4.4.4). `time` is in microseconds since 1970.
    ///
    /// # Errors
    /// If the time does not fit.
    pub fn write_change(
        &self,
        writer: &mut Writer,
        time: u64,
        from: State,
        to: State,
    ) -> Result<(), Unwritable> {
        writer.state_change(time, &self.named(), number(from), number(to))
    }
}

/// The recorded messages of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedMessages {
    /// The messages, concatenated, each with the header.
    pub octets: Vec<u8>,
    /// The number of messages.
    pub count: u64,
}

impl RecordedMessages {
    /// Adds a message.
    pub fn push(&mut self, frame: &Frame<'_>) {
        frame.put(&mut self.octets);
        self.count += 1;
    }

    /// Returns true without messages.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Iterates over concatenated messages; ends at an incomplete message.
fn whole(mut octets: &[u8]) -> impl Iterator<Item = (Frame<'_>, &[u8])> {
    core::iter::from_fn(move || {
        let frame = header::frame_within(octets, header::MAX_EXTENDED_LEN).ok().flatten()?;
        let (message, rest) = octets.split_at_checked(HEADER_LEN + frame.body.len())?;
        octets = rest;
        Some((frame, message))
    })
}

/// Returns a state in the form of records.
const fn number(state: State) -> sluice_mrt::State {
    match state {
        State::Idle => sluice_mrt::State::Idle,
        State::Connect => sluice_mrt::State::Connect,
        State::Active => sluice_mrt::State::Active,
        State::OpenSent => sluice_mrt::State::OpenSent,
        State::OpenConfirm => sluice_mrt::State::OpenConfirm,
        State::Established => sluice_mrt::State::Established,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::RouterId;
    use sluice_mrt::{Record, records};
    use std::vec;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn message(kind: MessageType, body: &[u8]) -> Vec<u8> {
        let mut octets = Vec::new();
        Frame { kind, body }.put(&mut octets);
        octets
    }

    /// An UPDATE with these withdrawn prefixes, attributes and announced prefixes.
    fn update(withdrawn: &[u8], attributes: &[u8], nlri: &[u8]) -> Vec<u8> {
        let mut body = vec![0, withdrawn.len() as u8];
        body.extend_from_slice(withdrawn);
        body.extend_from_slice(&[0, attributes.len() as u8]);
        body.extend_from_slice(attributes);
        body.extend_from_slice(nlri);
        message(MessageType::Update, &body)
    }

    fn rules() -> ReceiveRules {
        ReceiveRules::new(Asn(64500), RouterId(1), Asn(400_000), LOCAL)
    }

    #[test]
    fn messages_are_recorded_as_they_came() {
        let all = [message(MessageType::Keepalive, &[]), update(&[], &[], &[]), update(&[8, 10], &[], &[])];
        let session = RecordedSession::established(PEER, &rules());
        let mut writer = Writer::with_microseconds();
        assert_eq!(session.write(&mut writer, 1_500_000, &all.concat()), Ok(3));
        let trace = writer.take();
        let messages: Vec<_> = sluice_mrt::messages(&trace).collect();
        assert!(messages.iter().map(|m| m.octets).eq(all.iter().map(|m| &m[..])));
        for message in messages {
            assert_eq!(
                (message.time, message.peer, message.session.peer_as),
                (1_500_000, PEER, Asn(400_000))
            );
            assert_eq!((message.session.local_as, message.session.addresses.local()), (Asn(64500), LOCAL));
            assert!(message.four_octet_as && !message.has_path_ids && !message.is_local);
        }
    }

    #[test]
    fn a_record_states_whether_prefixes_have_path_identifiers() {
        let with_ids = |families: Families| ReceiveRules { add_path: families, ..rules() };
        let ids = |rules: &ReceiveRules, update: &[u8]| {
            let mut writer = Writer::new();
            let written = RecordedSession::established(PEER, rules).write(&mut writer, 0, update);
            assert_eq!(written, Ok(1));
            sluice_mrt::messages(&writer.take()).map(|m| m.has_path_ids).collect::<Vec<_>>() == [true]
        };
        let (ipv4, ipv6) = (Families::only(FamilyIndex::IPV4), Families::only(FamilyIndex::IPV6));
        let of_ipv4 = update(&[0, 0, 0, 1, 8, 10], &[], &[]);
        let of_ipv6 = update(&[], &[0x80, 15, 3, 0, 2, 1], &[]);
        assert!(ids(&with_ids(ipv4), &of_ipv4) && ids(&with_ids(ipv6), &of_ipv6));
        assert!(!ids(&with_ids(ipv6), &of_ipv4) && !ids(&with_ids(ipv4), &of_ipv6));
        // An attribute that is not whole, and a message of another kind.
        assert!(!ids(&with_ids(ipv6), &update(&[], &[0x80, 15, 9, 0, 2, 1], &[])));
        assert!(!ids(&with_ids(ipv4), &message(MessageType::Keepalive, &[])));
    }

    #[test]
    fn a_session_with_as_numbers_of_two_octets_has_records_of_its_own() {
        let session = RecordedSession::established(PEER, &ReceiveRules { four_octet_as: false, ..rules() });
        let mut writer = Writer::new();
        assert_eq!(session.write(&mut writer, 0, &message(MessageType::Keepalive, &[])), Ok(1));
        let trace = writer.take();
        let read = sluice_mrt::messages(&trace).next().expect("a message");
        // AS_TRANS (RFC 6793, section 9) is in the place of an AS number that does not fit.
        assert_eq!((read.four_octet_as, read.session.peer_as), (false, Asn(23_456)));
    }

    #[test]
    fn changes_of_state_are_recorded_also_without_a_connection() {
        let session = RecordedSession::opening(PEER, Asn(1), Asn(2), None);
        let mut writer = Writer::new();
        session.write_change(&mut writer, 7_000_000, State::Active, State::OpenSent).expect("the time fits");
        let trace = writer.take();
        let Some(Record::StateChange(change)) = records(&trace).next() else { panic!("no change") };
        assert_eq!((change.old, change.new), (sluice_mrt::State::Active, sluice_mrt::State::OpenSent));
        assert_eq!(change.session.addresses.local(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    }

    #[test]
    fn octets_that_are_no_message_end_the_records() {
        let torn = [message(MessageType::Keepalive, &[]), vec![0xff; 30]].concat();
        let session = RecordedSession::opening(PEER, Asn(1), Asn(2), Some(LOCAL));
        let mut writer = Writer::new();
        assert_eq!(session.write(&mut writer, 0, &torn), Ok(1));
        assert_eq!(session.write(&mut writer, u64::MAX, &torn), Err(Unwritable::Time));
    }
}
