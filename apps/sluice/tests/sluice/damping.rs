//! Flap damping with ExaBGP, whose route comes and goes: it is suppressed in the kernel, shown with the time left, kept over a live upgrade,
//! and used again.

use crate::SLUICE;
use serde_json::Value;
use sluice_load::wide;
use sluice_router_lab::{RouterLab, possible};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A pipe from which ExaBGP reads its commands.
struct Commands {
    folder: tempfile::TempDir,
    pipe: File,
}

impl Commands {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("commands");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Opened for reading too, so that this end waits for nobody.
        let pipe = File::options().read(true).write(true).open(path).unwrap();
        Commands { folder, pipe }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("commands")
    }

    /// Has ExaBGP announce a route, and waits until the router has so many routes.
    fn announce(&mut self, lab: &RouterLab, prefix: &str, count: u64) {
        writeln!(self.pipe, "announce route {prefix} next-hop self").unwrap();
        lab.until("the route has come", |lab| received(lab) == Some(count));
    }

    /// Has ExaBGP withdraw a route and announce the route again, so that the route has so many flaps.
    fn flap(&mut self, lab: &RouterLab, prefix: &str, flaps: u64) {
        let before = received(lab).unwrap();
        writeln!(self.pipe, "withdraw route {prefix}").unwrap();
        lab.until("the route has flapped", |lab| wide(&history(lab, prefix)["flaps"]) == Some(flaps));
        self.announce(lab, prefix, before);
    }
}

/// Returns the number of routes that the router has of ExaBGP.
fn received(lab: &RouterLab) -> Option<u64> {
    wide(&lab.neighbor("10.1.0.2")["families"][0]["prefixes_received"])
}

/// Two withdrawals suppress a route for which policy chooses the parameters; from 2000 its penalty decays to 1700 in 14 seconds.
fn topology(commands: &Path) -> String {
    format!(
        r#"
[nodes.sluice]
daemon = "sluice"
config = '''
policy {{
    damping quick {{ half-life 1; suppress 1900; reuse 1700; max-suppress-time 2; }}
    policy-statement by-prefix {{
        term quick {{ from {{ prefix 100.64.1.0/24; }} then {{ damping quick; }} }}
    }}
}}
protocols {{
    bgp {{
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.1.0.2 {{ peer-as 64501; damping; passive; import by-prefix; }}
    }}
}}
'''
[nodes.exa]
daemon = "exabgp"
config = '''
process flap {{ run /bin/cat {}; encoder json; }}
neighbor 10.1.0.1 {{
    router-id 10.1.0.2; local-address 10.1.0.2; local-as 64501; peer-as 64500;
    api {{ processes [ flap ]; }}
}}
'''
[[links]]
a = "sluice:exa"
b = "exa:sluice"
a_addresses = ["10.1.0.1/24"]
b_addresses = ["10.1.0.2/24"]
"#,
        commands.display()
    )
}

/// Returns the history of a prefix.
fn history(lab: &RouterLab, prefix: &str) -> Value {
    let all = lab.ask(&["show", "bgp", "damped"]);
    let mut routes = all["routes"].as_array().cloned().unwrap_or_default().into_iter();
    routes.find(|route| route["prefix"] == prefix).unwrap_or_default()
}

#[test]
fn a_route_that_comes_and_goes_is_suppressed_for_a_time() {
    if !possible() {
        return;
    }
    if Command::new("exabgp").arg("--version").output().is_err() {
        return sluice_testkit::skipped("ExaBGP is not installed");
    }
    let mut commands = Commands::new();
    let lab = RouterLab::up(&topology(&commands.path()).parse().unwrap(), Path::new(SLUICE));
    let (flapping, other) = ("100.64.1.0/24", "100.64.2.0/24");
    lab.until("the session is up", |lab| lab.established("10.1.0.2"));
    commands.announce(&lab, flapping, 1);
    commands.announce(&lab, other, 2);
    commands.flap(&lab, flapping, 1);
    commands.flap(&lab, flapping, 2);
    commands.flap(&lab, other, 1);
    lab.until("the other route is in the kernel alone", |lab| {
        lab.kernel_text("-4").contains(other) && !lab.kernel_text("-4").contains(flapping)
    });
    let suppressed = history(&lab, flapping);
    assert_eq!((&suppressed["suppressed"], &suppressed["neighbor"]), (&true.into(), &"10.1.0.2".into()));
    assert!((1..60_000).contains(&wide(&suppressed["suppressed_ms"]).unwrap()), "{suppressed}");
    assert_eq!(suppressed["damping"], "quick");
    let untouched = history(&lab, other);
    assert_eq!((&untouched["suppressed"], &untouched["damping"]), (&false.into(), &"".into()));
    let explained = lab.ask(&["explain", flapping]).to_string();
    assert!(explained.contains("flap damping (RFC 2439): suppressed for 0 min"), "{explained}");
    let counts = lab.ask(&["show", "bgp", "damping"]);
    assert_eq!(wide(&counts["counts"][0]["suppressed"]), Some(1), "{counts}");
    // Another process goes on with the histories.
    let upgraded = lab.cli(&["restart", "bgp"]);
    assert!(upgraded.status.success(), "{upgraded:?}");
    let after = history(&lab, flapping);
    assert_eq!((&after["flaps"], &after["suppressed"]), (&2.into(), &true.into()));
    assert_eq!(after["damping"], "quick");
    assert!(wide(&after["suppressed_ms"]) < wide(&suppressed["suppressed_ms"]), "{after}");
    // It is used again by itself, and at once where the operator wants it.
    let cleared = lab.cli(&["clear", "bgp", "damping", other]);
    assert!(cleared.status.success(), "{cleared:?}");
    lab.until("the other history is gone", |lab| history(lab, other).is_null());
    lab.until("the route is in the kernel", |lab| lab.kernel_text("-4").contains(flapping));
    assert_eq!(history(&lab, flapping)["suppressed"], false);
    let cleared = lab.cli(&["clear", "bgp", "damping"]);
    assert!(cleared.status.success(), "{cleared:?}");
    lab.until("no history is left", |lab| history(lab, flapping).is_null());
}
