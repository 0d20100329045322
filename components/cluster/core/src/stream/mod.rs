//! The stream of the RIB: the way of the control plane's routes to the other elements, through a shared store.
//!
//! The leader writes, followers read. The store has a snapshot and a log:
//!
//! | key | content |
//! |---|---|
//! | head | epoch, seed, catalog, checksums, the first and the last entry of the log ([`wire::Head`]) |
//! | log entry N | the N-th batch of changes, with the checksums after the changes ([`wire::Entry`]) |
//! | chunk | about 1000 routes with hashes of the same first bits, as of an entry of the log ([`wire::ChunkBody`]) |
//!
//! A reader reads everything at one revision of the store, applies to each chunk the later entries, and then
//! follows the log ([`loader`], [`follower`]). After a lost watch, a compacted history or a wrong checksum, a
//! reader reads everything again and mends the differences.
//!
//! The leader ([`leader`]) gathers changes for a few milliseconds and writes one transaction at a time. Each transaction holds only if the
//! writer is still the leader and the head has not changed since the writer's last transaction: a former leader cannot write, and a transaction that
//! was written but not answered is recognized. When the log is long, the leader renews the chunks with the oldest changes and
//! removes the entries before the oldest chunk. A too large chunk is split by one more bit of the hash.
//!
//! The checksum of a [section](section) is the sum of keyed hashes of the section's routes. Leader and followers update the sum with each change.

pub mod follower;
pub mod leader;
pub mod loader;
pub mod seal;
pub mod section;
pub mod store;
pub mod table;
pub mod wire;
