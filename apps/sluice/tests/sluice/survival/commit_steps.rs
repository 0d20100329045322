//! A commit disturbed at any of its steps: any process is killed just before the step. The final configuration is the
//! old or the new configuration, in every process and in the stored state; never a mix of both.

use sluice_lab::until;
use sluice_router_lab::steps::Steps;
use sluice_router_lab::{RouterLab, possible, program_with, share};
use std::path::PathBuf;
use std::time::Duration;

const TOPOLOGY: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { }
'''
[nodes.other]
[[links]]
a = 'sluice:eth0'
b = 'other:eth0'
";

/// The marks of a configuration: an address of the FEA's, a static route, BGP's router ID, and BGP's neighbor.
struct Configured {
    address: &'static str,
    route: &'static str,
    router_id: &'static str,
    neighbor: &'static str,
}

/// From the first to the second, each component applies its share as it runs.
const AS_THEY_RUN: [Configured; 2] = [
    Configured {
        address: "10.1.0.1/24",
        route: "198.51.100.0/24",
        router_id: "10.0.0.1",
        neighbor: "10.1.0.2",
    },
    Configured {
        address: "10.2.0.1/24",
        route: "203.0.113.0/24",
        router_id: "10.0.0.1",
        neighbor: "10.1.0.3",
    },
];

/// BGP changes its router ID, and static routes come (or go): a process is restarted, and a process starts or ends.
const WITH_PROCESSES: [Configured; 2] = [
    Configured { address: "10.1.0.1/24", route: "", router_id: "10.0.0.1", neighbor: "10.1.0.2" },
    Configured {
        address: "10.2.0.1/24",
        route: "203.0.113.0/24",
        router_id: "10.0.0.2",
        neighbor: "10.1.0.2",
    },
];

impl Configured {
    /// The neighbor is disabled: for an enabled neighbor, routes of an earlier life would be kept for two minutes.
    fn text(&self) -> String {
        let Configured { address, route, router_id, neighbor } = self;
        let statics =
            if route.is_empty() { String::new() } else { format!("static {{ route {route} discard; }}") };
        format!(
            "interfaces {{ interface eth0 {{ address {address}; }} }}
             protocols {{ {statics} bgp {{ local-as 64500; router-id {router_id}; neighbor {neighbor} {{ peer-as 64501; enabled false; }} }} }}\n"
        )
    }

    /// Returns true if every process runs with the configuration, and the configuration is stored.
    fn runs(&self, lab: &RouterLab) -> bool {
        let links = lab.lab.output("sluice", "ip", ["-4", "address", "show", "dev", "eth0"]).unwrap();
        let links = String::from_utf8(links.stdout).unwrap();
        let addresses: Vec<&str> = links.split_whitespace().filter(|w| w.ends_with("/24")).collect();
        let kernel = lab.kernel_text("-4");
        let routes: Vec<&str> = sluice_router_lab::routes(&kernel).collect();
        let expected: Vec<&str> = if self.route.is_empty() { vec![] } else { vec![self.route] };
        let stored = lab.ask(&["call", "manager/manager.v1.Configuration/Show"]).to_string();
        addresses == [self.address]
            && routes == expected
            && lab.ask(&["show", "bgp", "summary"])["router_id"] == self.router_id
            && lab.neighbor(self.neighbor)["address"] == self.neighbor
            && [self.address, self.router_id, self.neighbor].iter().all(|word| stored.contains(word))
            && stored.contains("static") != self.route.is_empty()
            && (self.route.is_empty() || stored.contains(self.route))
    }
}

fn file(lab: &RouterLab) -> PathBuf {
    lab.lab.dir("sluice").join("config")
}

/// Has a configuration committed by way of the file.
fn commit(lab: &RouterLab, configured: &Configured) {
    std::fs::write(file(lab), configured.text()).unwrap();
    lab.signal("-HUP", lab.pid("manager").unwrap());
}

/// Kills a component at each step of each kind of commit.
fn hurt_everywhere(victim: &str) {
    let _share = share();
    if possible() {
        hurt_from_to(victim, &AS_THEY_RUN);
        hurt_from_to(victim, &WITH_PROCESSES);
    }
}

/// Runs commits from the first configuration to the second and disturbs each at a different step.
fn hurt_from_to(victim: &str, [before, after]: &[Configured; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("steps");
    let program = program_with(folder.path(), &format!("SLUICE_COMMIT_STEPS={}", socket.display()));
    let steps = Steps::listen(&socket);
    let mut lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), &program);
    lab.until("the router is ready", RouterLab::ready);
    commit(&lab, before);
    steps.follow(|_, _| true);
    lab.until("the first configuration runs", |lab| before.runs(lab));

    commit(&lab, after);
    let all = steps.follow(|_, _| true);
    lab.until("a commit that nobody hurts takes hold", |lab| after.runs(lab));
    println!("{all:?}");
    assert!(all.len() >= 7 && all.last().is_some_and(|last| last == "done"), "{all:?}");

    for (hurt_at, step) in all.iter().enumerate() {
        let to = format!("{victim} killed before `{step}`");
        // Back, with nobody hurt. The manager may be a new one that reads the file as it starts.
        lab.until(&format!("ready, before: {to}"), RouterLab::ready);
        commit(&lab, before);
        steps.follow_until(&format!("the first configuration, before: {to}"), || {
            before.runs(&lab) && lab.ready()
        });
        if lab.pid(victim).is_none_or(|pid| pid == 0) {
            continue; // it does not run before
        }
        commit(&lab, after);
        let mut is_hurt = false;
        let seen = steps.follow(|number, step| {
            if number == hurt_at {
                // It may be starting anew just now.
                if let Some(pid) = lab.pid(victim).filter(|pid| *pid > 0) {
                    lab.kill(pid);
                    if step == "store" && victim != "manager" {
                        // Its next life is there before it is known which configuration holds.
                        let is_there = || lab.pid(victim).is_some_and(|next| next != pid && next != 0);
                        assert!(until(Duration::from_secs(30), is_there), "{to}: it does not come back");
                    }
                }
                is_hurt = true;
            }
            victim != "manager" || number < hurt_at
        });
        assert!(is_hurt, "{to}: the commit came to its end before: {seen:?}");
        if victim == "manager" {
            // The file is as the killed one was to read it; the next is to find what the killed one left.
            std::fs::write(file(&lab), before.text()).unwrap();
            lab.lab.stop("sluice", true).unwrap();
            lab.lab.start("sluice").unwrap();
        }
        let one_of_both = |lab: &RouterLab| lab.ready() && (before.runs(lab) || after.runs(lab));
        assert!(
            until(Duration::from_secs(60), || one_of_both(&lab)),
            "{to}: {}",
            lab.lab.log("sluice", "sluice")
        );
        println!("{to}: {} {seen:?}", if after.runs(&lab) { "new" } else { "old" });
    }
}

#[test]
fn a_commit_survives_the_manager() {
    hurt_everywhere("manager");
}

#[test]
fn a_commit_survives_the_fea() {
    hurt_everywhere("fea");
}

#[test]
fn a_commit_survives_the_rib() {
    hurt_everywhere("rib");
}

#[test]
fn a_commit_survives_bgp() {
    hurt_everywhere("bgp");
}

#[test]
fn a_commit_survives_static() {
    hurt_everywhere("static");
}
