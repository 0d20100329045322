//! Stages plugged into a running router: one that holds routes back, and one that breaks the rules of stages. The kernel's table shows that the
//! router goes on forwarding right.

use crate::SLUICE;
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

const HELD: &str = "192.0.2.0/24";
const OTHER: &str = "198.51.100.0/24";

fn topology() -> String {
    let routes: String =
        [HELD, OTHER].map(|prefix| format!("route {prefix} {{ next-hop 10.1.0.2; }}\n")).concat();
    format!(
        "[nodes.peer]\n[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\nprotocols {{ static {{\n{routes}}} }}\n'''\n\
         [[links]]\na = 'sluice:peer'\nb = 'peer:sluice'\na_addresses = ['10.1.0.1/24']\nb_addresses = ['10.1.0.2/24']\n"
    )
}

/// Returns true if the kernel has exactly these of the static routes.
fn kernel_has(lab: &RouterLab, expected: &[&str]) -> bool {
    let text = lab.kernel_text("-4");
    [HELD, OTHER].iter().all(|prefix| text.contains(prefix) == expected.contains(prefix))
}

fn call(lab: &RouterLab, method: &str) -> serde_json::Value {
    lab.ask(&["call", &format!("rib/rib.v1.Rib/{method}")])
}

fn stages(lab: &RouterLab) -> Vec<serde_json::Value> {
    call(lab, "GetStages?family:enum=IPV4")["stages"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_stage_comes_and_goes_and_one_that_breaks_the_rules_is_removed() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    lab.until("the routes are in the kernel", |lab| kernel_has(lab, &[HELD, OTHER]));

    let nets = "PlumbStage?family:enum=IPV4&kind:enum=HOLD_BACK&nets:list<ipv4net>=192.0.2.0/24";
    let stage = call(&lab, nets)["stage"].as_u64().unwrap();
    lab.until("the routes of the stage are held back", |lab| kernel_has(lab, &[OTHER]));
    assert_eq!(stages(&lab)[0]["name"], "hold-back");
    call(&lab, &format!("UnplumbStage?family:enum=IPV4&stage:u32={stage}"));
    lab.until("the routes are back", |lab| kernel_has(lab, &[HELD, OTHER]) && stages(lab).is_empty());

    call(&lab, "PlumbStage?family:enum=IPV4&kind:enum=DRILL");
    lab.until("the guard reports the stage", |lab| lab.whole_log().contains("rib.stage.isolated"));
    lab.until("the stage is removed", |lab| stages(lab).is_empty());
    assert!(kernel_has(&lab, &[HELD, OTHER]), "{}", lab.kernel_text("-4"));
    // The RIB works as before.
    let added = lab.cli(&["configure", "delete", "protocols", "static", "route", OTHER, ";", "commit"]);
    assert!(added.status.success());
    lab.until("a change arrives", |lab| kernel_has(lab, &[HELD]));
    lab.lab.down().unwrap();
}
