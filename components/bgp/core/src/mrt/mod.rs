//! Traces in files (MRT, RFC 6396): the configuration, the times at which files begin, and the files that are kept.
//!
//! The process writes a file under a name of its own with the ending `part`, and renames the file when the file is whole. So every file
//! without that ending can be read. Octets of records are made by the crate `sluice-mrt`.

mod event;
mod files;
mod messages;
mod settings;

pub use event::{MrtEvent, MrtFailure};
pub use files::{FileName, StoredFile, next_time, surplus};
pub use messages::{RecordedMessages, RecordedSession};
pub use settings::{FileSettings, MrtSettings, TraceKind};
