//! The errors of a call, in the process and on the wire.

/// The reason why a call failed. The numbers on the wire never change their meaning (docs/xrl.md, "Errors").
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum XrlError {
    /// 1: the Finder cannot be reached, and the cache lacks the needed answer.
    #[error("the Finder cannot be reached")]
    NoFinder,
    /// 2: no live target has this class or instance name.
    #[error("no target `{0}`")]
    UnknownTarget(String),
    /// 3: the target does not have the interface.
    #[error("no interface `{0}`")]
    UnknownInterface(String),
    /// 4: the interface does not have the method.
    #[error("no method `{0}`")]
    UnknownMethod(String),
    /// 5: the arguments do not fit the method, or their values are out of range; the text names the argument.
    #[error("bad arguments: {0}")]
    BadArguments(String),
    /// 6: the access list denies the call.
    #[error("access denied: {0}")]
    AccessDenied(String),
    /// 7: the method's key is wrong: the caller did not ask the Finder, or asked before the target registered again.
    #[error("wrong method key")]
    BadKey,
    /// 8: the connection broke, or could not be made. The call may or may not have been carried out.
    #[error("disconnected: {0}")]
    Disconnected(String),
    /// 9: no reply came in time. The call may or may not have been carried out.
    #[error("no reply in time")]
    DeadlineExceeded,
    /// 10: the caller does not want the reply any more.
    #[error("cancelled")]
    Cancelled,
    /// 11: the message is larger than the family can carry.
    #[error("message of {size} octets; at most {limit} are carried")]
    TooLarge {
        /// Octets of the message.
        size: u64,
        /// The limit in octets.
        limit: u64,
    },
    /// 12: the target does not offer the method by the requested family.
    #[error("not offered by the family {0}")]
    NoFamily(String),
    /// 13: the name is taken, or the class allows only a single instance.
    #[error("name taken: {0}")]
    NameTaken(String),
    /// 14: the peer sent a frame or message that cannot be parsed.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// 15: a fault in the target.
    #[error("internal error: {0}")]
    Internal(String),
    /// 16: a limit is reached; later the same call may succeed.
    #[error("busy: {0}")]
    Busy(String),
    /// 100: the method was carried out and refuses.
    #[error("{message} (code {code})")]
    Application {
        /// The interface's own number for the reason.
        code: u32,
        /// The reason in words.
        message: String,
    },
}

impl XrlError {
    /// An error of the method itself.
    pub fn application(code: u32, message: impl Into<String>) -> Self {
        XrlError::Application { code, message: message.into() }
    }

    /// The number on the wire.
    pub fn code(&self) -> u16 {
        match self {
            XrlError::NoFinder => 1,
            XrlError::UnknownTarget(_) => 2,
            XrlError::UnknownInterface(_) => 3,
            XrlError::UnknownMethod(_) => 4,
            XrlError::BadArguments(_) => 5,
            XrlError::AccessDenied(_) => 6,
            XrlError::BadKey => 7,
            XrlError::Disconnected(_) => 8,
            XrlError::DeadlineExceeded => 9,
            XrlError::Cancelled => 10,
            XrlError::TooLarge { .. } => 11,
            XrlError::NoFamily(_) => 12,
            XrlError::NameTaken(_) => 13,
            XrlError::Protocol(_) => 14,
            XrlError::Internal(_) => 15,
            XrlError::Busy(_) => 16,
            XrlError::Application { .. } => 100,
        }
    }

    /// The name of the kind of error, for scripts.
    pub fn name(&self) -> &'static str {
        match self {
            XrlError::NoFinder => "NoFinder",
            XrlError::UnknownTarget(_) => "UnknownTarget",
            XrlError::UnknownInterface(_) => "UnknownInterface",
            XrlError::UnknownMethod(_) => "UnknownMethod",
            XrlError::BadArguments(_) => "BadArguments",
            XrlError::AccessDenied(_) => "AccessDenied",
            XrlError::BadKey => "BadKey",
            XrlError::Disconnected(_) => "Disconnected",
            XrlError::DeadlineExceeded => "DeadlineExceeded",
            XrlError::Cancelled => "Cancelled",
            XrlError::TooLarge { .. } => "TooLarge",
            XrlError::NoFamily(_) => "NoFamily",
            XrlError::NameTaken(_) => "NameTaken",
            XrlError::Protocol(_) => "Protocol",
            XrlError::Internal(_) => "Internal",
            XrlError::Busy(_) => "Busy",
            XrlError::Application { .. } => "Application",
        }
    }

    /// Appends the body of an Error frame: code, detail, text.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.code().to_be_bytes());
        let (detail, text) = match self {
            XrlError::NoFinder | XrlError::BadKey | XrlError::DeadlineExceeded | XrlError::Cancelled => {
                (0, "")
            }
            XrlError::UnknownTarget(t)
            | XrlError::UnknownInterface(t)
            | XrlError::UnknownMethod(t)
            | XrlError::BadArguments(t)
            | XrlError::AccessDenied(t)
            | XrlError::Disconnected(t)
            | XrlError::NoFamily(t)
            | XrlError::NameTaken(t)
            | XrlError::Protocol(t)
            | XrlError::Internal(t)
            | XrlError::Busy(t) => (0, t.as_str()),
            XrlError::TooLarge { size, limit } => {
                let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                out.extend_from_slice(&clamp(*size).to_be_bytes());
                out.extend_from_slice(clamp(*limit).to_string().as_bytes());
                return;
            }
            XrlError::Application { code, message } => (*code, message.as_str()),
        };
        out.extend_from_slice(&detail.to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }

    /// Decodes the body of an Error frame. Any body becomes some error.
    pub fn decode(body: &[u8]) -> Self {
        let mut c = sluice_wire::Cursor::new(body);
        let (Ok(code), Ok(detail)) = (c.u16(), c.u32()) else {
            return XrlError::Protocol("an error without a code".to_owned());
        };
        let text = String::from_utf8_lossy(c.rest()).into_owned();
        match code {
            1 => XrlError::NoFinder,
            2 => XrlError::UnknownTarget(text),
            3 => XrlError::UnknownInterface(text),
            4 => XrlError::UnknownMethod(text),
            5 => XrlError::BadArguments(text),
            6 => XrlError::AccessDenied(text),
            7 => XrlError::BadKey,
            8 => XrlError::Disconnected(text),
            9 => XrlError::DeadlineExceeded,
            10 => XrlError::Cancelled,
            11 => XrlError::TooLarge { size: detail.into(), limit: text.parse().unwrap_or(0) },
            12 => XrlError::NoFamily(text),
            13 => XrlError::NameTaken(text),
            14 => XrlError::Protocol(text),
            15 => XrlError::Internal(text),
            16 => XrlError::Busy(text),
            100 => XrlError::Application { code: detail, message: text },
            other => XrlError::Protocol(format!("unknown error {other}: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_survives_the_wire() {
        let t = || "why".to_owned();
        let all = [
            XrlError::NoFinder,
            XrlError::UnknownTarget(t()),
            XrlError::UnknownInterface(t()),
            XrlError::UnknownMethod(t()),
            XrlError::BadArguments(t()),
            XrlError::AccessDenied(t()),
            XrlError::BadKey,
            XrlError::Disconnected(t()),
            XrlError::DeadlineExceeded,
            XrlError::Cancelled,
            XrlError::TooLarge { size: 17 << 20, limit: 16 << 20 },
            XrlError::NoFamily(t()),
            XrlError::NameTaken(t()),
            XrlError::Protocol(t()),
            XrlError::Internal(t()),
            XrlError::Busy(t()),
            XrlError::application(7, "why"),
        ];
        for error in all {
            let mut body = Vec::new();
            error.encode(&mut body);
            assert_eq!(XrlError::decode(&body), error);
        }
        assert!(matches!(XrlError::decode(&[0]), XrlError::Protocol(_)));
        assert!(matches!(XrlError::decode(&[9, 9, 0, 0, 0, 0]), XrlError::Protocol(_)));
    }
}
