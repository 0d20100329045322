//! Faults survived by the router, in labs with real neighbors: every process killed in turn, with a small table and
//! with the Internet's, peers that flap, send garbage or stop reading, links that go down, a full disk, a configuration
//! that changes, and starts that must be refused. After every fault the kernel's forwarding table stays or is restored.

mod changed_configuration;
mod commit_steps;
mod feed;
mod full_disk;
mod full_table;
mod refused_starts;
mod revisions;
mod small_table;
mod stalled_peer;
mod traffic;
mod watchdog;
