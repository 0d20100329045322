//! The configuration of traces: the statement `mrt`.

use core::fmt;
use serde::Deserialize;

/// The content of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceKind {
    /// The routes of all neighbors (RFC 6396, section 4.3).
    Table,
    /// The messages of neighbors, and changes of their sessions' states (RFC 6396, section 4.4).
    Updates,
}

impl TraceKind {
    /// All kinds.
    pub const ALL: [TraceKind; 2] = [TraceKind::Table, TraceKind::Updates];

    /// Returns the name: of the statement, and of the folder with the files.
    pub const fn name(self) -> &'static str {
        match self {
            TraceKind::Table => "table",
            TraceKind::Updates => "updates",
        }
    }

    /// Returns the first part of the files' names. Collectors use the same words.
    pub const fn prefix(self) -> &'static str {
        match self {
            TraceKind::Table => "rib",
            TraceKind::Updates => "updates",
        }
    }
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The traces that the router writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MrtSettings {
    /// Dumps of the table.
    pub table: FileSettings,
    /// Messages as neighbors sent them.
    pub updates: FileSettings,
}

impl MrtSettings {
    /// Returns the settings of a kind.
    pub const fn of(&self, kind: TraceKind) -> FileSettings {
        match kind {
            TraceKind::Table => self.table,
            TraceKind::Updates => self.updates,
        }
    }
}

/// The files of a kind of trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct FileSettings {
    /// The seconds between the beginnings of two files; `None` for no files.
    pub interval: Option<u32>,
    /// The most files, 1 to 1,000.
    pub keep: u16,
    /// The most MiB of one file, and of all files together, 1 to 15,000.
    pub maximum_size: u32,
}

impl FileSettings {
    /// Returns the most octets of one file, and of all files together.
    pub const fn octets(&self) -> u64 {
        (self.maximum_size as u64) << 20
    }
}

impl Default for FileSettings {
    fn default() -> Self {
        FileSettings { interval: None, keep: 24, maximum_size: 4096 }
    }
}
