//! The counts of each router, read with the router's own tools. The Sluice router is the lab's node `sluice`.

use crate::RoutingTable;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use sluice_lab::Lab;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A number of Sluice's JSON output. Numbers of 64 bits are strings there.
pub fn wide(value: &Value) -> Option<u64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64(),
    }
}

/// Returns the Sluice executable: the named executable, or the executable beside the program.
pub fn sluice_program(named: Option<&Path>) -> Result<PathBuf> {
    let program = match named {
        Some(path) => path.to_path_buf(),
        None => std::env::current_exe()?.with_file_name("sluice"),
    };
    if !program.exists() {
        bail!("{} does not exist; build it with `cargo build --release -p sluice`", program.display());
    }
    Ok(program.canonicalize()?)
}

/// Prefixes of both families.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The count of IPv4.
    pub v4: u64,
    /// The count of IPv6.
    pub v6: u64,
}

impl Count {
    /// Counts the routes of a table.
    pub fn of(table: &RoutingTable) -> Self {
        Count { v4: table.v4.len() as u64, v6: table.v6.len() as u64 }
    }

    /// Returns the sum of both families.
    pub const fn sum(self) -> u64 {
        self.v4 + self.v6
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} + {}", self.v4, self.v6)
    }
}

/// Runs the CLI against the router of the lab.
pub struct Cli<'a> {
    /// The lab of the router.
    pub lab: &'a Lab,
    /// The executable.
    pub sluice: &'a Path,
}

impl Cli<'_> {
    /// A command line of the CLI, for people to repeat.
    pub fn command_line(&self) -> String {
        format!("{} show processes --run-dir {}", self.sluice.display(), self.run_dir())
    }

    fn run_dir(&self) -> String {
        self.lab.dir("sluice").join("run").display().to_string()
    }

    /// A command of the CLI that is yet to be started.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.sluice);
        command.args(words).args(["--run-dir", &self.run_dir()]);
        command
    }

    /// The answer to a command, as JSON.
    pub fn ask(&self, words: &[&str]) -> Result<Value> {
        let output = self.command(words).arg("--json").output().context("the CLI does not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).with_context(|| {
            format!("sluice {} answered: {text}{}", words.join(" "), String::from_utf8_lossy(&output.stderr))
        })
    }

    /// Routes of BGP in the RIB, routes in the forwarding engine, and whether nothing is under way.
    pub fn rib(&self) -> Result<(Count, Count, bool)> {
        let summary = self.ask(&["show", "summary"])?;
        let (mut bgp, mut engine) = (Count::default(), Count::default());
        for table in summary["tables"].as_array().into_iter().flatten() {
            let origins = table["origins"].as_array().into_iter().flatten();
            let routes: u64 =
                origins.filter(|o| o["origin"] == "bgp").filter_map(|o| wide(&o["routes"])).sum();
            let installed = wide(&table["engine"]["installed"]).unwrap_or(0);
            match table["family"].as_str() {
                Some("ipv4") => (bgp.v4, engine.v4) = (routes, installed),
                _ => (bgp.v6, engine.v6) = (routes, installed),
            }
        }
        Ok((bgp, engine, summary["idle"].as_bool().unwrap_or(false)))
    }

    /// Returns the counts received from and sent to a neighbor, and whether the session is up.
    pub fn neighbor(&self, address: &str) -> Result<(bool, Count, Count)> {
        let all = self.ask(&["show", "bgp", "neighbor", address])?;
        let neighbor = all["neighbors"]
            .as_array()
            .and_then(|n| n.iter().find(|n| n["address"] == address))
            .with_context(|| format!("no neighbor {address}"))?;
        let (mut received, mut sent) = (Count::default(), Count::default());
        for family in neighbor["families"].as_array().into_iter().flatten() {
            let number = |name: &str| wide(&family[name]).unwrap_or(0);
            let (r, s) = (number("prefixes_received"), number("prefixes_sent"));
            match family["family"].as_str() {
                Some("ipv4") => (received.v4, sent.v4) = (r, s),
                _ => (received.v6, sent.v6) = (r, s),
            }
        }
        Ok((neighbor["state"] == "Established", received, sent))
    }
}

/// Returns the count of routes that a BIRD exported to the router.
pub fn bird_exported(lab: &Lab, node: &str) -> Result<Count> {
    let text = lab.control(node, "show protocols all sluice")?;
    let mut count = Count::default();
    let mut is_v6 = false;
    for line in text.lines() {
        match line.trim() {
            "Channel ipv4" => is_v6 = false,
            "Channel ipv6" => is_v6 = true,
            line => {
                let Some(routes) = line.strip_prefix("Routes:") else { continue };
                let exported = routes.split(',').find_map(|part| part.trim().strip_suffix(" exported"));
                let exported = exported.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
                if is_v6 {
                    count.v6 = exported;
                } else {
                    count.v4 = exported;
                }
            }
        }
    }
    Ok(count)
}

/// Returns the count of routes that FRR received from the router.
pub fn frr_received(lab: &Lab, peer: &str) -> Result<Count> {
    let of = |family: &str| -> Result<u64> {
        let text = lab.control("frr", &format!("show bgp {family} unicast summary json"))?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(value["peers"][peer]["pfxRcd"].as_u64().unwrap_or(0))
    };
    Ok(Count { v4: of("ipv4")?, v6: of("ipv6")? })
}

/// The kernel's own table on a node: routes with the router's protocol number, counted by a tool that is not ours.
pub fn kernel(lab: &Lab, node: &str, protocol: u8) -> Result<Count> {
    let of = |family: &str| -> Result<u64> {
        let output = lab
            .command(node, "ip")?
            .args([family, "route", "show", "proto", &protocol.to_string()])
            .output()?;
        Ok(output
            .stdout
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty() && l[0] != b'\t' && l[0] != b' ')
            .count() as u64)
    };
    Ok(Count { v4: of("-4")?, v6: of("-6")? })
}
