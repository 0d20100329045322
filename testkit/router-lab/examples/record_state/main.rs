//! Records the state that a router keeps, as golden files for later versions: `testdata/state/README.md` has the command.
#![allow(clippy::unwrap_used)] // a recording stops where a value is missing

mod cluster;
mod hand_over;
mod manager;

use sluice_load::Announcement;
use sluice_router_lab::table::internet_table;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(what), Some(folder)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        panic!("usage: record_state manager|cluster|bgp|rib FOLDER");
    };
    match what.as_str() {
        "manager" => manager::record(&folder),
        "bgp" | "rib" => hand_over::record(&what, &folder),
        "cluster" => cluster::record(&folder),
        other => panic!("{other} is not recorded here"),
    }
}

/// Returns the node `bird`, which announces routes, taken evenly over the Internet's table, to AS 64500 at 10.0.1.1.
fn bird(routes: usize) -> String {
    format!(
        "[nodes.bird]
daemon = 'bird'
config = '''
router id 10.0.1.2;
protocol device {{ }}
protocol static {{ ipv4; {}}}
protocol bgp sluice {{
    local 10.0.1.2 as 64501; neighbor 10.0.1.1 as 64500; connect delay time 1; connect retry time 1;
    ipv4 {{ import all; export where source = RTS_STATIC; }};
}}
'''
",
        real_routes(routes)
    )
}

/// Returns routes of BIRD's protocol `static`.
fn real_routes(v4: usize) -> String {
    let table = internet_table().expect("the shared data").thinned(v4, 0);
    table.v4.iter().fold(String::new(), |mut text, Announcement { prefix, .. }| {
        write!(text, "route {prefix} blackhole; ").unwrap();
        text
    })
}

/// Writes a file of the recording, and the folders above.
fn write(file: &Path, octets: &[u8]) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, octets).unwrap();
}
