//! NOTIFICATION: why a session ends (RFC 4271, section 4.5; subcodes of RFC 4486, RFC 5492, RFC 8538 and RFC 9003).

use super::header::{HeaderError, MAX_MESSAGE_LEN, MessageType, finish, start};
use super::{HEADER_LEN, WireError};
use crate::wire::FamilyCode;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_wire::Cursor;

/// Error codes.
pub mod code {
    /// Message Header Error.
    pub const HEADER: u8 = 1;
    /// OPEN Message Error.
    pub const OPEN: u8 = 2;
    /// UPDATE Message Error.
    pub const UPDATE: u8 = 3;
    /// Hold Timer Expired.
    pub const HOLD_TIMER: u8 = 4;
    /// Finite State Machine Error.
    pub(crate) const FSM: u8 = 5;
    /// Cease.
    pub const CEASE: u8 = 6;
    /// ROUTE-REFRESH Message Error (RFC 7313).
    pub const REFRESH: u8 = 7;
    /// Send Hold Timer Expired (RFC 9687).
    pub const SEND_HOLD_TIMER: u8 = 8;
}

/// Subcodes of OPEN Message Error.
pub mod open {
    /// Unsupported Version Number.
    pub const VERSION: u8 = 1;
    /// Bad Peer AS.
    pub const PEER_AS: u8 = 2;
    /// Bad BGP Identifier.
    pub(crate) const ROUTER_ID: u8 = 3;
    /// Unsupported Optional Parameter.
    pub const PARAMETER: u8 = 4;
    /// Authentication Failure (RFC 1771).
    pub(crate) const AUTHENTICATION: u8 = 5;
    /// Unacceptable Hold Time.
    pub const HOLD_TIME: u8 = 6;
    /// Unsupported Capability (RFC 5492, section 5).
    pub(crate) const CAPABILITY: u8 = 7;
    /// Role Mismatch (RFC 9234, section 4.2).
    pub(crate) const ROLE_MISMATCH: u8 = 11;
}

/// Subcodes of UPDATE Message Error.
pub mod update {
    /// Malformed Attribute List.
    pub(crate) const ATTRIBUTE_LIST: u8 = 1;
    /// Invalid Network Field.
    pub const NETWORK: u8 = 10;
}

/// Subcodes of ROUTE-REFRESH Message Error (RFC 7313, section 5).
pub mod refresh {
    /// Invalid Message Length.
    pub const LENGTH: u8 = 1;
}

/// Subcodes of Finite State Machine Error (RFC 6608).
pub mod fsm {
    /// Unexpected message in OpenSent.
    pub(crate) const OPEN_SENT: u8 = 1;
    /// Unexpected message in OpenConfirm.
    pub(crate) const OPEN_CONFIRM: u8 = 2;
    /// Unexpected message in Established.
    pub const ESTABLISHED: u8 = 3;
}

/// Subcodes of Cease (RFC 4486).
pub mod cease {
    /// Maximum Number of Prefixes Reached.
    pub const MAX_PREFIXES: u8 = 1;
    /// Administrative Shutdown.
    pub const SHUTDOWN: u8 = 2;
    /// Peer De-configured.
    pub const DECONFIGURED: u8 = 3;
    /// Administrative Reset.
    pub(crate) const RESET: u8 = 4;
    /// Connection Rejected.
    pub const REJECTED: u8 = 5;
    /// Other Configuration Change.
    pub const CONFIGURATION: u8 = 6;
    /// Connection Collision Resolution.
    pub(crate) const COLLISION: u8 = 7;
    /// Out of Resources.
    pub(crate) const RESOURCES: u8 = 8;
    /// Hard Reset (RFC 8538, section 3).
    pub(crate) const HARD_RESET: u8 = 9;
}

/// A NOTIFICATION message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// Error code.
    pub code: u8,
    /// Error subcode; 0 without a subcode.
    pub subcode: u8,
    /// The data.
    pub data: Vec<u8>,
}

impl Notification {
    /// A notification without data.
    pub const fn new(code: u8, subcode: u8) -> Self {
        Notification { code, subcode, data: Vec::new() }
    }

    /// A Cease with a text for the operator at the other end, cut to 128 octets at a character (RFC 9003, section 2:
    /// longer texts are an error to older speakers).
    pub fn cease(subcode: u8, text: &str) -> Self {
        let mut end = text.len().min(128);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut notification = Notification::new(code::CEASE, subcode);
        if end > 0 {
            notification.data.push(end as u8);
            notification.data.extend_from_slice(&text.as_bytes()[..end]);
        }
        notification
    }

    /// A Cease for more prefixes of a family than `bound` (RFC 4486, section 4).
    pub(crate) fn max_prefixes(family: FamilyCode, bound: u32) -> Self {
        let mut notification = Notification::new(code::CEASE, cease::MAX_PREFIXES);
        notification.data.extend(family.octets());
        notification.data.extend(bound.to_be_bytes());
        notification
    }

    /// Returns family and bound of a Cease for too many prefixes; `None` without such data.
    pub fn bound(&self) -> Option<(FamilyCode, u32)> {
        if (self.code, self.subcode) != (code::CEASE, cease::MAX_PREFIXES) || self.data.len() != 7 {
            return None;
        }
        let mut c = Cursor::new(&self.data);
        Some((FamilyCode { afi: c.u16().ok()?, safi: c.u8().ok()? }, c.u32().ok()?))
    }

    /// Returns true for a Hard Reset, after which no side keeps routes (RFC 8538, section 3).
    pub const fn is_hard_reset(&self) -> bool {
        self.code == code::CEASE && self.subcode == cease::HARD_RESET
    }

    /// Returns the NOTIFICATION for a peer that keeps routes after NOTIFICATIONs: a Hard Reset with the NOTIFICATION inside if the
    /// session is to stay down (RFC 8538, section 5.1).
    pub fn for_graceful_peer(self) -> Self {
        let lasts = matches!(
            self.subcode,
            cease::MAX_PREFIXES | cease::SHUTDOWN | cease::DECONFIGURED | cease::RESET
        );
        if self.code != code::CEASE || !lasts {
            return self;
        }
        let mut data = Vec::from([self.code, self.subcode]);
        data.extend_from_slice(&self.data);
        Notification { code: code::CEASE, subcode: cease::HARD_RESET, data }
    }

    /// Returns the reason inside a Hard Reset; `None` for NOTIFICATIONs of a different kind, and for a Hard Reset without a reason or
    /// with a nested Hard Reset.
    pub fn reason(&self) -> Option<Notification> {
        let inside = self.is_hard_reset().then(|| Notification::decode(&self.data).ok()).flatten();
        inside.filter(|inside| !inside.is_hard_reset())
    }

    /// The text of a shutdown communication; invalid UTF-8 is shown as such and never interpreted. `None` without a communication.
    pub fn communication(&self) -> Option<String> {
        if self.code != code::CEASE || !matches!(self.subcode, cease::SHUTDOWN | cease::RESET) {
            return None;
        }
        let (&len, text) = self.data.split_first()?;
        let text = text.get(..len.into())?;
        (len > 0).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// Returns true if it reports a wrong version (event NotifMsgVerErr).
    pub(crate) const fn is_version_error(&self) -> bool {
        self.code == code::OPEN && self.subcode == open::VERSION
    }

    /// Returns true if it reports that the AS of the OPEN was not the configured one (RFC 4271, section 6.2).
    pub(crate) const fn is_bad_peer_as(&self) -> bool {
        self.code == code::OPEN && self.subcode == open::PEER_AS
    }

    /// Reads a message body.
    pub fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut c = Cursor::new(body);
        Ok(Notification { code: c.u8()?, subcode: c.u8()?, data: c.rest().to_vec() })
    }

    /// Appends the message; too long data are cut.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::Notification);
        out.extend_from_slice(&[self.code, self.subcode]);
        out.extend_from_slice(&self.data[..self.data.len().min(MAX_MESSAGE_LEN - HEADER_LEN - 2)]);
        finish(out, at);
    }
}

impl From<HeaderError> for Notification {
    /// RFC 4271, section 6.1.
    fn from(e: HeaderError) -> Self {
        let (subcode, data) = match e {
            HeaderError::NotSynchronized => (1, Vec::new()),
            HeaderError::BadLength(n) => (2, n.to_be_bytes().to_vec()),
            HeaderError::BadType(n) => (3, Vec::from([n])),
        };
        Notification { code: code::HEADER, subcode, data }
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.code, self.subcode) {
            (code::HEADER, 1) => "message header error: connection not synchronized",
            (code::HEADER, 2) => "message header error: bad message length",
            (code::HEADER, 3) => "message header error: bad message type",
            (code::HEADER, _) => "message header error",
            (code::OPEN, open::VERSION) => "OPEN message error: unsupported version number",
            (code::OPEN, open::PEER_AS) => "OPEN message error: bad peer AS",
            (code::OPEN, open::ROUTER_ID) => "OPEN message error: bad BGP identifier",
            (code::OPEN, open::PARAMETER) => "OPEN message error: unsupported optional parameter",
            // Deprecated since RFC 4271, and some speakers still send it.
            (code::OPEN, open::AUTHENTICATION) => "OPEN message error: authentication failure",
            (code::OPEN, open::HOLD_TIME) => "OPEN message error: unacceptable hold time",
            (code::OPEN, open::CAPABILITY) => "OPEN message error: unsupported capability",
            (code::OPEN, open::ROLE_MISMATCH) => "OPEN message error: role mismatch",
            (code::OPEN, _) => "OPEN message error",
            (code::UPDATE, update::ATTRIBUTE_LIST) => "UPDATE message error: malformed attribute list",
            (code::UPDATE, update::NETWORK) => "UPDATE message error: invalid network field",
            (code::UPDATE, 2) => "UPDATE message error: unrecognized well-known attribute",
            (code::UPDATE, 3) => "UPDATE message error: missing well-known attribute",
            (code::UPDATE, 4) => "UPDATE message error: attribute flags error",
            (code::UPDATE, 5) => "UPDATE message error: attribute length error",
            (code::UPDATE, 6) => "UPDATE message error: invalid ORIGIN attribute",
            (code::UPDATE, 8) => "UPDATE message error: invalid NEXT_HOP attribute",
            (code::UPDATE, 9) => "UPDATE message error: optional attribute error",
            (code::UPDATE, 11) => "UPDATE message error: malformed AS_PATH",
            (code::UPDATE, _) => "UPDATE message error",
            (code::HOLD_TIMER, _) => "hold timer expired",
            (code::FSM, fsm::OPEN_SENT) => "finite state machine error: unexpected message in OpenSent",
            (code::FSM, fsm::OPEN_CONFIRM) => "finite state machine error: unexpected message in OpenConfirm",
            (code::FSM, fsm::ESTABLISHED) => "finite state machine error: unexpected message in Established",
            (code::FSM, _) => "finite state machine error",
            (code::CEASE, cease::MAX_PREFIXES) => "cease: maximum number of prefixes reached",
            (code::CEASE, cease::SHUTDOWN) => "cease: administrative shutdown",
            (code::CEASE, cease::DECONFIGURED) => "cease: peer de-configured",
            (code::CEASE, cease::RESET) => "cease: administrative reset",
            (code::CEASE, cease::REJECTED) => "cease: connection rejected",
            (code::CEASE, cease::CONFIGURATION) => "cease: other configuration change",
            (code::CEASE, cease::COLLISION) => "cease: connection collision resolution",
            (code::CEASE, cease::RESOURCES) => "cease: out of resources",
            (code::CEASE, cease::HARD_RESET) => "cease: hard reset",
            (code::CEASE, 10) => "cease: BFD down",
            (code::CEASE, _) => "cease",
            (code::REFRESH, _) => "ROUTE-REFRESH message error",
            (code::SEND_HOLD_TIMER, _) => "send hold timer expired",
            _ => "unknown error",
        };
        write!(f, "{text} ({}/{})", self.code, self.subcode)?;
        if let Some(reason) = self.reason() {
            write!(f, ": {reason}")?;
        }
        if let Some((family, bound)) = self.bound() {
            write!(f, ", {family}: at most {bound}")?;
        }
        self.communication().map_or(Ok(()), |text| write!(f, ", {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn comes_back() {
        let n = Notification { code: 3, subcode: 5, data: vec![1, 2, 3] };
        let mut out = vec![];
        n.put(&mut out);
        assert_eq!(Notification::decode(header::frame(&out).unwrap().unwrap().body), Ok(n));
        out.clear();
        Notification { code: 3, subcode: 5, data: vec![0; 9000] }.put(&mut out);
        assert_eq!(out.len(), MAX_MESSAGE_LEN);
    }

    #[test]
    fn hard_resets() {
        let hard = Notification::cease(cease::SHUTDOWN, "bye").for_graceful_peer();
        assert_eq!((hard.code, hard.subcode, &hard.data[..]), (6, 9, &b"\x06\x02\x03bye"[..]));
        assert_eq!(
            hard.to_string(),
            "cease: hard reset (6/9): cease: administrative shutdown (6/2), \"bye\""
        );
        assert_eq!(hard.clone().for_graceful_peer(), hard);
        let graceful = Notification::new(code::CEASE, cease::CONFIGURATION);
        assert_eq!(graceful.clone().for_graceful_peer(), graceful);
        let update = Notification::new(code::UPDATE, 2);
        assert_eq!(update.clone().for_graceful_peer(), update);
        // A Hard Reset without a reason, and one that a stranger nested.
        for data in [vec![], vec![6], vec![6, 9, 6, 9, 6, 2]] {
            let hard = Notification { code: 6, subcode: 9, data };
            assert_eq!(hard.to_string(), "cease: hard reset (6/9)");
        }
    }

    #[test]
    fn bounds_on_prefixes_are_in_the_cease() {
        let ipv6 = FamilyCode { afi: 2, safi: 1 };
        let n = Notification::max_prefixes(ipv6, 1000);
        assert_eq!((n.code, n.subcode, &n.data[..]), (6, 1, &[0, 2, 1, 0, 0, 3, 0xe8][..]));
        assert_eq!(n.bound(), Some((ipv6, 1000)));
        assert_eq!(
            n.to_string(),
            "cease: maximum number of prefixes reached (6/1), ipv6-unicast: at most 1000"
        );
        let hard = n.for_graceful_peer().to_string();
        assert!(
            hard.ends_with(
                "(6/9): cease: maximum number of prefixes reached (6/1), ipv6-unicast: at most 1000"
            ),
            "{hard}"
        );
        let other = Notification::max_prefixes(FamilyCode { afi: 25, safi: 65 }, 1).to_string();
        assert!(other.ends_with("(6/1), AFI 25, SAFI 65: at most 1"), "{other}");
        // The data are optional, and come from outside.
        for data in [vec![], vec![0, 1, 1], vec![0; 8]] {
            let n = Notification { code: 6, subcode: 1, data };
            assert_eq!(
                (n.bound(), n.to_string().as_str()),
                (None, "cease: maximum number of prefixes reached (6/1)")
            );
        }
    }

    #[test]
    fn communications() {
        let n = Notification::cease(cease::SHUTDOWN, "back in 2 hours");
        assert_eq!(n.communication().as_deref(), Some("back in 2 hours"));
        assert_eq!(n.to_string(), "cease: administrative shutdown (6/2), \"back in 2 hours\"");
        assert_eq!(Notification::cease(cease::SHUTDOWN, "").communication(), None);
        let long = "é".repeat(100);
        assert_eq!(Notification::cease(cease::RESET, &long).communication().unwrap(), "é".repeat(64));
        let lie = Notification { code: 6, subcode: 2, data: vec![9, b'x'] };
        assert_eq!(lie.communication(), None);
        let bad = Notification { code: 6, subcode: 2, data: vec![1, 0xff] };
        assert_eq!(bad.communication().as_deref(), Some("\u{fffd}"));
    }
}
