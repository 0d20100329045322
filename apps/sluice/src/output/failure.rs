//! Why a command did not do its work: what is said, and with which exit status.

use serde_json::{Map, Value, json};
use sluice_base::instance_of;
use sluice_manager_process::StartError;
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
    /// The path of the configuration that it is about.
    pub path: Option<String>,
    /// File, line and column that it is about.
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
    /// Somebody else was first, or has the configuration for himself.
    pub const CONFLICT: u8 = 5;
    /// No answer in time.
    pub const TIMEOUT: u8 = 6;
    /// Not allowed.
    pub const PERMISSION: u8 = 7;

    /// A failure with nothing but a text.
    pub fn new(status: u8, code: &str, message: impl Into<String>) -> Self {
        Failure { status, code: code.into(), message: message.into(), path: None, place: None }
    }

    /// There is no router to talk to.
    pub fn not_connected(message: impl std::fmt::Display) -> Self {
        Self::new(Self::NOT_CONNECTED, "not-connected", format!("{message:#}"))
    }

    /// The configuration is not valid.
    pub fn config(error: StartError) -> Self {
        Self::new(Self::CONFIG, "config-invalid", error.to_string())
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

    /// The router does not start.
    pub fn start(error: StartError) -> Self {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let message = error.to_string();
        match error {
            StartError::NoNetworkRights => Self::new(Self::PERMISSION, "not-allowed", message),
            StartError::Folder { source, .. } => match source.kind() {
                PermissionDenied | ReadOnlyFilesystem => Self::new(Self::PERMISSION, "not-allowed", message),
                _ => Failure::failed(message),
            },
            error => Failure::config(error),
        }
    }

    /// As it is in the one document of `--json`.
    pub fn json(&self) -> Value {
        let mut error = Map::new();
        error.insert("code".into(), json!(self.code));
        error.insert("message".into(), json!(self.message));
        for (name, value) in [("path", self.path.clone().map(Value::from)), ("place", self.place.clone())] {
            error.extend(value.map(|v| (name.to_string(), v)));
        }
        Value::Object(error)
    }

    /// As people read it.
    pub fn text(&self) -> String {
        self.message.clone()
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<StartError>() {
            Ok(error) => Failure::start(error),
            Err(error) => Failure::failed(format!("{error:#}")),
        }
    }
}

impl From<XrlError> for Failure {
    fn from(error: XrlError) -> Self {
        let status = match &error {
            // What the component says is for people as it is; its number is its own matter.
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
                format!("no component `{name}` runs; `sluice show processes` says which do")
            }
            _ => error.to_string(),
        };
        Self::new(status, error.name(), message)
    }
}
