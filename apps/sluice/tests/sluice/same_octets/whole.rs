//! Whole traces and tables.
//!
//! All with records that this router reads: no TABLE_DUMP of version 1, no record of MRT type 5, and no message of more than 4,096 octets.

use crate::same_octets::check;
use sluice_router_lab::{alone, possible};
use sluice_testkit::long;
use std::path::Path;

/// Checks a whole trace of the shared data.
fn whole(file: &str, program: &Path) {
    let _alone = alone();
    if possible() {
        check(&format!("data/bgp/{file}"), 12, usize::MAX, program);
    }
}

#[test]
fn whole_table_of_routeviews() {
    let program = long!("same octets");
    whole("rib/rv2.rib.20140523.0600.first9072.mrt.xz", &program);
}

#[test]
fn whole_table_of_routeviews_with_ipv6() {
    let program = long!("same octets");
    whole("rib/rv6.rib.20151101.0600.first6870.mrt.xz", &program);
}

#[test]
fn whole_trace_of_bird_with_ipv6() {
    let program = long!("same octets");
    whole("rib/small.bird6_bgp.mrt", &program);
}

#[test]
fn whole_trace_of_bird() {
    let program = long!("same octets");
    whole("rib/small.bird_bgp.mrt", &program);
}

#[test]
fn whole_trace_of_quagga() {
    let program = long!("same octets");
    whole("rib/small.quagga_bgp.mrt", &program);
}

#[test]
fn whole_table_of_quagga() {
    let program = long!("same octets");
    whole("rib/small.quagga_rib.mrt", &program);
}

#[test]
fn whole_table_of_openbgpd() {
    let program = long!("same octets");
    whole("rib/small.openbgpd_rib_table-v2.mrt", &program);
}

#[test]
fn whole_trace_of_a_full_feed() {
    let program = long!("same octets");
    whole("updates/pch-as3856.fullfeed.20151023.et.mrt.gz", &program);
}

#[test]
fn whole_trace_of_ris_2002() {
    let program = long!("same octets");
    whole("updates/ris.updates.20020722.2238.gz", &program);
}

#[test]
fn whole_trace_of_ris_2010_february() {
    let program = long!("same octets");
    whole("updates/rrc15.updates.20100227.1600.gz", &program);
}

#[test]
fn whole_trace_of_ris_2010_july() {
    let program = long!("same octets");
    whole("updates/ris.updates.20100722.2015.gz", &program);
}

#[test]
fn whole_trace_of_ris_2015() {
    let program = long!("same octets");
    whole("updates/rrc06.updates.1427846400.gz", &program);
}

#[test]
fn whole_trace_of_ris_2016() {
    let program = long!("same octets");
    whole("updates/ris.updates.20160811.1600.gz", &program);
}

#[test]
fn whole_trace_of_ris_2017() {
    let program = long!("same octets");
    whole("updates/ris.updates.20171111.0005.xz", &program);
}

#[test]
fn whole_trace_of_ris_2022() {
    let program = long!("same octets");
    whole("updates/rrc23.updates.20220421.0200.gz", &program);
}

#[test]
fn whole_trace_of_ris_2024() {
    let program = long!("same octets");
    whole("updates/rrc01.updates.20241001.0055.gz", &program);
}

#[test]
fn whole_trace_of_routeviews_2015() {
    let program = long!("same octets");
    whole("updates/rv-jinx.updates.1427846400.bz2", &program);
}

#[test]
fn whole_trace_of_routeviews_2022() {
    let program = long!("same octets");
    whole("updates/rv-sydney.updates.20220601.0415.bz2", &program);
}
