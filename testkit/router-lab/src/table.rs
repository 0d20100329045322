//! The table and the executable of tests with many routes.

use crate::executable;
use sluice_load::{RoutingTable, source};
use std::path::PathBuf;

/// Returns the executable of the test, and a generated table with as many IPv4 and IPv6 routes as in `small`.
pub fn small_subject(small: (usize, usize)) -> (PathBuf, RoutingTable) {
    (executable().to_owned(), source::generate().thinned(small.0, small.1))
}

/// Returns the Internet's table of the shared data. `None` if the machine has no shared data, which is recorded as a
/// skipped test.
pub fn internet_table() -> Option<RoutingTable> {
    if source::shared_folder().is_none() {
        sluice_testkit::skipped("no table in the shared data");
        return None;
    }
    Some(source::find(None).unwrap().0)
}
