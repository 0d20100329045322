//! Reports about traces.

use super::TraceKind;
use alloc::string::String;
use core::fmt;

/// The reason why a trace is not written. Texts are the system's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MrtFailure {
    /// The folder cannot be made or read.
    Folder(String),
    /// The file cannot be made.
    Create(String),
    /// The file cannot be written: the disk is full, for example.
    Write(String),
    /// The file would have more octets than the configuration allows.
    TooLarge,
    /// The whole file cannot be renamed.
    Rename(String),
    /// A file that is not kept cannot be removed.
    Remove(String),
    /// The time of the system is after 2106.
    Time,
    /// The table cannot be read: the process ends.
    Table(String),
}

impl fmt::Display for MrtFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MrtFailure::Folder(error) => write!(f, "the folder cannot be used: {error}"),
            MrtFailure::Create(error) => write!(f, "the file cannot be made: {error}"),
            MrtFailure::Write(error) => write!(f, "the file cannot be written: {error}"),
            MrtFailure::TooLarge => f.write_str("the file would have more than maximum-size"),
            MrtFailure::Rename(error) => write!(f, "the whole file cannot be renamed: {error}"),
            MrtFailure::Remove(error) => write!(f, "an old file cannot be removed: {error}"),
            MrtFailure::Time => f.write_str("MRT has no times after 2106"),
            MrtFailure::Table(error) => write!(f, "the table cannot be read: {error}"),
        }
    }
}

impl core::error::Error for MrtFailure {}

/// An event of a kind of trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MrtEvent {
    /// A file could not be written.
    Failed(TraceKind, MrtFailure),
    /// A file is whole, after one that could not be written.
    Restored(TraceKind),
    /// So many messages are in no file: neighbors sent more than the disk took.
    Lost(u64),
}

impl MrtEvent {
    /// Returns the stable name (docs/events.md).
    pub const fn id(&self) -> &'static str {
        match self {
            MrtEvent::Failed(..) => "bgp.mrt.failed",
            MrtEvent::Restored(_) => "bgp.mrt.restored",
            MrtEvent::Lost(_) => "bgp.mrt.lost",
        }
    }
}

impl fmt::Display for MrtEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MrtEvent::Failed(kind, failure) => write!(f, "no trace ({kind}): {failure}"),
            MrtEvent::Restored(kind) => write!(f, "traces ({kind}) are written again"),
            MrtEvent::Lost(messages) => write!(f, "traces (updates) lack messages: {messages}"),
        }
    }
}
