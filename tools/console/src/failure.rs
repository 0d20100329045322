//! Failures of commands: message and exit status.

use serde_json::{Map, Value, json};
use sluice_base::instance_of;
use sluice_xrl::XrlError;

/// The reason why a command did not do its work.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// A stable name for programs.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// The path of the configuration in question.
    pub path: Option<String>,
    /// File, line and column in question.
    pub place: Option<Value>,
}

impl Failure {
    /// The operation failed.
    pub const FAILED: u8 = 1;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// There is no router to talk to.
    pub const NOT_CONNECTED: u8 = 3;
    /// The configuration is not valid.
    pub const CONFIG: u8 = 4;
    /// Another operator committed first, or holds the configuration exclusively.
    pub const CONFLICT: u8 = 5;
    /// No answer in time.
    pub const TIMEOUT: u8 = 6;
    /// Not allowed.
    pub const PERMISSION: u8 = 7;
    /// The router runs and does not answer.
    pub const NOT_ANSWERING: u8 = 9;

    /// Makes a failure with a message only.
    pub fn new(status: u8, code: &str, message: impl Into<String>) -> Self {
        Failure { status, code: code.into(), message: message.into(), path: None, place: None }
    }

    /// There is no router to talk to.
    pub fn not_connected(message: impl std::fmt::Display) -> Self {
        Self::new(Self::NOT_CONNECTED, "not-connected", format!("{message:#}"))
    }

    /// The router runs and does not answer.
    pub fn not_answering(message: impl Into<String>) -> Self {
        Self::new(Self::NOT_ANSWERING, "not-answering", message)
    }

    /// Returns true if nobody could be talked to, whether a router runs or not.
    pub fn is_without_router(&self) -> bool {
        matches!(self.status, Self::NOT_CONNECTED | Self::NOT_ANSWERING)
    }

    /// The operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Self::FAILED, "failed", message)
    }

    /// The command line is wrong.
    pub fn usage(message: impl std::fmt::Display) -> Self {
        Self::new(Self::USAGE, "usage", message.to_string())
    }

    /// A file or the like could not be used.
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                Self::new(Self::PERMISSION, "not-allowed", format!("{what}: {error}"))
            }
            _ => Self::failed(format!("{what}: {error}")),
        }
    }

    /// Returns the failure as a part of the JSON document of `--json`.
    pub fn json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), json!(self.code));
        error.insert("message".into(), json!(self.message));
        for (name, value) in [("path", self.path.clone().map(Value::from)), ("place", self.place.clone())] {
            error.extend(value.map(|v| (name.to_string(), v)));
        }
        Value::Object(error)
    }

    /// Returns the message for people.
    pub fn text(&self) -> String {
        self.message.clone()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::failed(format!("{error:#}"))
    }
}

impl From<XrlError> for Failure {
    fn from(error: XrlError) -> Self {
        let status = match &error {
            // The component's text is for people as it is; its number is its own matter.
            XrlError::Application { message, .. } => return Self::failed(message.clone()),
            XrlError::NoFinder | XrlError::Disconnected(_) | XrlError::UnknownTarget(_) => {
                Self::NOT_CONNECTED
            }
            XrlError::DeadlineExceeded => Self::TIMEOUT,
            XrlError::AccessDenied(_) => Self::PERMISSION,
            _ => Self::FAILED,
        };
        let message = match &error {
            XrlError::UnknownTarget(name) if instance_of(name).is_some() => {
                format!("no component `{name}` runs; `sluice show processes` lists those that do")
            }
            _ => error.to_string(),
        };
        Self::new(status, error.name(), message)
    }
}
