//! Route origin validation (RFC 6811): which AS may originate which prefix.
//!
//! | module | content |
//! |---|---|
//! | [`vrp`] | a validated ROA payload |
//! | [`table`] | all payloads of an epoch: immutable, shared by reference; look-ups of covering payloads; validation |
//! | [`changes`] | the difference between two epochs, and the prefixes under which states may differ |
//! | [`record`] | payloads as octets between processes |
//! | [`replica`] | a copy of the payloads of another process |
//!
//! A table is immutable. A new epoch is a new table, made from the table before and a difference. Threads share a table without a lock.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod changes;
pub mod record;
pub mod replica;
pub mod table;
pub mod vrp;

pub use changes::{ChangedPrefixes, TableChanges, VrpChanges};
pub use record::{Record, RecordError, read_records, write_record};
pub use replica::{Page, PageError, PageRequest, Progress, Replica};
pub use table::{Validity, VrpSet, VrpTable};
pub use vrp::{AnyVrp, Vrp, VrpFamily};
