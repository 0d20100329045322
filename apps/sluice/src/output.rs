//! What people and programs read: tables, JSON, failures with an exit status.

use sluice_manager_shell::StartError;
use sluice_xrl::XrlError;
use sluice_xrl::idl::common::v1 as common;
use std::net::IpAddr;
use std::process::ExitCode;

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    name: &'static str,
    message: String,
}

impl Failure {
    /// The operation failed.
    pub const FAILED: u8 = 1;
    /// There is no router to talk to.
    pub const NOT_CONNECTED: u8 = 3;
    /// The configuration is not valid.
    pub const CONFIG: u8 = 4;
    /// No answer in time.
    pub const TIMEOUT: u8 = 6;
    /// Not allowed.
    pub const PERMISSION: u8 = 7;

    /// There is no router to talk to.
    pub fn not_connected(error: anyhow::Error) -> Self {
        Failure { code: Self::NOT_CONNECTED, name: "not-connected", message: format!("{error:#}") }
    }

    /// The configuration is not valid.
    pub fn config(error: StartError) -> Self {
        Failure { code: Self::CONFIG, name: "config-invalid", message: error.to_string() }
    }

    /// The router does not start.
    fn start(error: StartError) -> Self {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let message = error.to_string();
        match error {
            StartError::NoNetworkRights => Failure { code: Self::PERMISSION, name: "not-allowed", message },
            StartError::Folder { source, .. } => match source.kind() {
                PermissionDenied | ReadOnlyFilesystem => {
                    Failure { code: Self::PERMISSION, name: "not-allowed", message }
                }
                _ => Failure::failed(message),
            },
            error => Failure::config(error),
        }
    }

    /// The operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Failure { code: Self::FAILED, name: "failed", message: message.into() }
    }

    /// Prints the failure, as JSON where JSON was asked for, and gives the exit status.
    pub fn print(&self, as_json: bool) -> ExitCode {
        if as_json {
            json(&serde_json::json!({ "error": { "code": self.name, "message": self.message } }));
        } else {
            eprintln!("sluice: {}", self.message);
        }
        ExitCode::from(self.code)
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
        let code = match error {
            XrlError::NoFinder | XrlError::Disconnected(_) | XrlError::UnknownTarget(_) => {
                Self::NOT_CONNECTED
            }
            XrlError::DeadlineExceeded => Self::TIMEOUT,
            XrlError::AccessDenied(_) => Self::PERMISSION,
            _ => Self::FAILED,
        };
        Failure { code, name: error.name(), message: error.to_string() }
    }
}

/// Prints one JSON document.
pub fn json(value: &serde_json::Value) {
    // A value always prints; a closed pipe ends the program at the next line anyway.
    println!("{}", serde_json::to_string_pretty(value).unwrap_or_default());
}

/// A table: columns as wide as their widest cell, two spaces between them.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Table { rows: vec![headings.iter().map(|h| (*h).to_string()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it. Says `nothing` if there are no rows.
    pub fn print(&self, nothing: &str) {
        if self.rows.len() == 1 {
            return println!("{nothing}");
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(t, w)| format!("{t:<w$}")).collect();
            println!("{}", cells.join("  ").trim_end());
        }
    }
}

/// An address of a message, as text.
pub fn addr(addr: Option<&common::Addr>) -> String {
    addr.and_then(|a| IpAddr::try_from(a).ok()).map_or_else(|| "-".into(), |a| a.to_string())
}

/// A prefix of a message, as text.
pub fn net(net: Option<&common::Net>) -> String {
    net.and_then(|n| sluice_base::IpPrefix::try_from(n).ok()).map_or_else(|| "-".into(), |p| p.to_string())
}

/// Octets as people read them.
pub fn bytes(n: u64) -> String {
    match n {
        0..=9_999 => format!("{n} B"),
        10_000..=9_999_999 => format!("{} kB", n / 1000),
        _ => format!("{} MB", n / 1_000_000),
    }
}

/// A time span as people read it.
pub fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms} ms"),
        1..=59 => format!("{s} s"),
        60..=3599 => format!("{}:{:02}", s / 60, s % 60),
        3600..=86_399 => format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60),
        _ => format!("{} d {}:{:02}", s / 86_400, s / 3600 % 24, s / 60 % 60),
    }
}
