//! XIP's program while the engines change.

use crate::SLUICE;
use crate::xip::{far, row};
use sluice_router_lab::bird::commit;
use sluice_router_lab::xip::{counter, ping};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

/// The program leaves the path of packets with XDP, and returns with it; the displays say where packets are forwarded.
#[test]
fn the_program_follows_the_engines_under_traffic() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("both").parse().unwrap(), Path::new(SLUICE));
    let by_program = |lab: &RouterLab| {
        let before = counter(lab, "fast", "sent");
        ping(lab, "near", &far()) == "reply" && counter(lab, "fast", "sent") > before
    };
    let summary = |lab: &RouterLab| lab.ask(&["show", "xip", "principals"]);
    lab.until("the program forwards", by_program);
    for engine in ["both", "xdp"] {
        commit(&lab, "set interfaces forwarding engine kernel");
        lab.until("packets come to the process", |lab| {
            let reason = summary(lab)["fast_path_reason"].to_string();
            ping(lab, "near", &far()) == "reply" && reason.contains("XDP does not run here")
        });
        assert_eq!(summary(&lab)["fast_path"], false);
        let back = format!("set interfaces forwarding engine {engine}");
        match engine {
            "both" => assert!(lab.cli(&["configure", "rollback 1", "commit"]).status.success()),
            _ => commit(&lab, &back),
        }
        lab.until("the program forwards again", by_program);
        assert_eq!(summary(&lab)["fast_path"], true);
    }
}
