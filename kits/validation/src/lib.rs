//! Route origin validation (RFC 6811): which AS may originate which prefix. Verification of AS paths by ASPAs: which AS may pass which
//! route on.
//!
//! | module | content |
//! |---|---|
//! | [`vrp`] | a validated ROA payload |
//! | [`aspa`] | validated ASPA payloads: the providers of each customer AS |
//! | [`path`] | verification of AS paths by ASPAs |
//! | [`table`] | all payloads of an epoch: immutable, shared by reference; look-ups of covering payloads; validation |
//! | [`changes`] | the difference between two epochs, and the routes whose states may differ |
//! | [`record`] | payloads as octets between processes |
//! | [`replica`] | a copy of the payloads of another process |
//!
//! A table is immutable. A new epoch is a new table, made from the table before and a difference. Threads share a table without a lock.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aspa;
pub mod changes;
pub mod path;
pub mod record;
pub mod replica;
pub mod table;
pub mod vrp;

pub use aspa::{AspaChanges, AspaSet, Authorization, MOST_PROVIDERS, Providers};
pub use changes::{ChangedPrefixes, TableChanges, VrpChanges};
pub use path::{Direction, Path, PathValidity};
pub use record::{Record, RecordError, read_records, write_record};
pub use replica::{Page, PageError, PageRequest, Progress, Replica};
pub use table::{Validity, VrpSet, VrpTable};
pub use vrp::{AnyVrp, Vrp, VrpFamily};
