//! NOTIFICATION (RFC 4271, section 4.5).

use super::Malformed;
use super::header::{MessageType, finish, start};
use std::fmt;

/// The end of a session, with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The error code.
    pub code: u8,
    /// The error subcode.
    pub subcode: u8,
    /// Details.
    pub data: Vec<u8>,
}

impl Notification {
    /// OPEN Message Error.
    pub const OPEN: u8 = 2;
    /// Bad Peer AS, of [`Notification::OPEN`].
    pub const PEER_AS: u8 = 2;
    /// Cease (RFC 4486).
    pub const CEASE: u8 = 6;
    /// Administrative Shutdown, of [`Notification::CEASE`].
    pub const SHUTDOWN: u8 = 2;

    /// A NOTIFICATION without details.
    pub const fn new(code: u8, subcode: u8) -> Self {
        Notification { code, subcode, data: Vec::new() }
    }

    /// Decodes the body of a NOTIFICATION.
    ///
    /// # Errors
    /// If the body has no code and subcode.
    pub fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let [code, subcode, data @ ..] = body else { return Err(Malformed("NOTIFICATION")) };
        Ok(Notification { code: *code, subcode: *subcode, data: data.to_vec() })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = start(out, MessageType::Notification);
        out.extend_from_slice(&[self.code, self.subcode]);
        out.extend_from_slice(&self.data);
        finish(out, at);
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.code, self.subcode) {
            (1, _) => "message header error",
            (Notification::OPEN, Notification::PEER_AS) => "OPEN message error: bad peer AS",
            (Notification::OPEN, 3) => "OPEN message error: bad BGP identifier",
            (Notification::OPEN, 6) => "OPEN message error: unacceptable hold time",
            (Notification::OPEN, 7) => "OPEN message error: unsupported capability",
            (Notification::OPEN, _) => "OPEN message error",
            (3, _) => "UPDATE message error",
            (4, _) => "hold timer expired",
            (5, _) => "finite state machine error",
            (Notification::CEASE, 1) => "cease: maximum number of prefixes reached",
            (Notification::CEASE, Notification::SHUTDOWN) => "cease: administrative shutdown",
            (Notification::CEASE, 5) => "cease: connection rejected",
            (Notification::CEASE, 7) => "cease: connection collision resolution",
            (Notification::CEASE, _) => "cease",
            (7, _) => "ROUTE-REFRESH message error",
            (8, _) => "send hold timer expired",
            _ => "unknown error",
        };
        write!(f, "{}/{} ({name})", self.code, self.subcode)
    }
}
