//! The table and the executable of tests with many routes.

use crate::executable;
use sluice_load::{RoutingTable, source};
use std::path::PathBuf;

/// Names the optimized executable, and asks for the Internet's table. `make test-long` sets it.
const LONG: &str = "SLUICE_LONG";

/// Returns the executable and the table to test with: the Internet's table where `SLUICE_LONG` names an optimized executable,
/// else the executable of the test and a generated table with as many IPv4 and IPv6 routes as `small` says.
pub fn subject(small: (usize, usize)) -> (PathBuf, RoutingTable) {
    let generated = || (executable().to_owned(), source::generate().thinned(small.0, small.1));
    let Some(program) = std::env::var_os(LONG) else { return generated() };
    if source::shared_folder().is_none() {
        sluice_testkit::skipped("no table in the shared data");
        return generated();
    }
    (program.into(), source::find(None).unwrap().0)
}
