//! `sluice lab`: the command line.

use crate::error::LabError;
use crate::lab::{Lab, LabOptions, take_down_orphans};
use crate::state::{self, State};
use crate::topology::{End, Topology};
use anyhow::{Context, bail};
use clap::Subcommand;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Network namespaces with real routers in them, from a topology file.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// Bring a lab up, to stay until taken down.
    Up {
        /// The topology file.
        topology: PathBuf,
        /// The lab's name, if not the one in the file or the file's own.
        #[arg(long)]
        name: Option<String>,
        /// The executable for nodes that run Sluice, if not the current executable.
        #[arg(long)]
        sluice: Option<PathBuf>,
        /// Use a user namespace even as root.
        #[arg(long)]
        rootless: bool,
    },
    /// Take a lab down: its processes, its namespaces, its folder.
    Down {
        /// The lab; if left out, the lab of the topology in this folder.
        name: Option<String>,
        /// Every lab.
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Every lab whose owner has died.
        #[arg(long, conflicts_with_all = ["name", "all"])]
        orphans: bool,
    },
    /// Show the labs that are up.
    Status {
        /// The lab; every lab if left out.
        name: Option<String>,
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Run a command on a node.
    Exec {
        /// The lab; if left out, the lab of the topology in the current folder, or the only lab.
        #[arg(long)]
        lab: Option<String>,
        /// The node.
        node: String,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Show or record the packets on a link with tcpdump.
    Capture {
        /// The lab; if left out, the lab of the topology in the current folder, or the only lab.
        #[arg(long)]
        lab: Option<String>,
        /// An end of the link, NODE:INTERFACE.
        link: End,
        /// Record into this file instead.
        #[arg(short, long)]
        write: Option<PathBuf>,
        /// More arguments for tcpdump, as a filter.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        filter: Vec<OsString>,
    },
}

/// Carries a command out. `exec` and `capture` replace this process.
pub fn run(command: LabCommand) -> anyhow::Result<ExitCode> {
    let folder = std::env::current_dir().context("there is no current folder")?;
    run_in(&folder, command)
}

/// Carries a command out for an operator whose current folder is `folder`.
pub fn run_in(folder: &Path, command: LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        LabCommand::Up { topology, name, sluice, rootless } => {
            let topology = Topology::read(&topology)?;
            let lab = Lab::up(&topology, LabOptions { name, sluice, rootless, stays: true })?;
            sluice_print::outln!("lab {} is up", lab.name());
        }
        LabCommand::Down { all: true, .. } => {
            for name in state::names() {
                down(&name)?;
            }
        }
        LabCommand::Down { orphans: true, .. } => {
            for name in take_down_orphans() {
                sluice_print::outln!("lab {name} is down");
            }
        }
        LabCommand::Down { name, .. } => match name {
            Some(name) => down(&name)?,
            None => down(&lab_of(folder)?)?,
        },
        LabCommand::Status { name, json } => status(name, json)?,
        LabCommand::Exec { lab, node, command } => {
            let lab = Lab::attach(&the_lab(folder, lab)?)?;
            let (program, args) = command.split_first().context("no command")?;
            // `sluice` on a node speaks with the node's router.
            let run_dir = lab.dir(&node).join("run");
            let error = lab.command(&node, program)?.args(args).env("SLUICE_RUN_DIR", run_dir).exec();
            return Err(error).with_context(|| program.to_string_lossy().into_owned());
        }
        LabCommand::Capture { lab, link, write, filter } => {
            let lab = Lab::attach(&the_lab(folder, lab)?)?;
            if !lab.state().links.iter().any(|l| l.a == link || l.b == link) {
                bail!("lab {} has no link that ends at {link}", lab.name());
            }
            let mut tcpdump = lab.command(&link.node, "tcpdump")?;
            // Without a buffer of packets that the end of tcpdump would lose.
            tcpdump.arg("-n").arg("--immediate-mode").arg("-i").arg(&link.interface);
            if let Some(file) = write {
                // As the caller, not as tcpdump's own user, who may not write here.
                tcpdump.args(["-Z", "root", "-U", "-w"]).arg(file);
            } else {
                tcpdump.arg("-l");
            }
            return Err(tcpdump.args(filter).exec()).context("tcpdump");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn down(name: &str) -> anyhow::Result<()> {
    Lab::attach(name)?.down()?;
    sluice_print::outln!("lab {name} is down");
    Ok(())
}

/// Returns the lab to act on: by name, else by the topology in the folder, else the only running lab.
fn the_lab(folder: &Path, name: Option<String>) -> anyhow::Result<String> {
    if let Some(name) = name {
        return Ok(name);
    }
    let mut names = state::names();
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => lab_of(folder),
    }
}

/// Returns the only lab that was made from a topology in a folder.
fn lab_of(folder: &Path) -> anyhow::Result<String> {
    let labs: Vec<State> = state::names().iter().filter_map(|name| State::load(name).ok()).collect();
    let here: Vec<&str> = labs.iter().filter(|l| l.is_made_in(folder)).map(|l| &*l.name).collect();
    match here.as_slice() {
        [name] => Ok((*name).to_owned()),
        [] if labs.is_empty() => bail!("no lab is up"),
        [] => bail!(
            "no lab of a topology in this folder is up; name one of {}",
            labs.iter().map(shown).collect::<Vec<_>>().join(", ")
        ),
        several => {
            bail!("several labs of topologies in this folder are up, say which: {}", several.join(", "))
        }
    }
}

/// Returns a lab's name with its topology file.
fn shown(lab: &State) -> String {
    match &lab.topology {
        Some(file) => format!("{} ({})", lab.name, file.display()),
        None => lab.name.clone(),
    }
}

/// An element of the list that `status --json` prints. Fields are added, never renamed or removed.
#[derive(Serialize)]
struct LabStatus {
    name: String,
    dir: PathBuf,
    topology: Option<PathBuf>,
    rootless: bool,
    orphan: bool,
    nodes: Vec<NodeStatus>,
    links: Vec<LinkStatus>,
}

#[derive(Serialize)]
struct NodeStatus {
    name: String,
    namespace: String,
    dir: PathBuf,
    daemon: crate::topology::Daemon,
    processes: Vec<ProcessStatus>,
}

#[derive(Serialize)]
struct ProcessStatus {
    name: String,
    pid: u32,
    running: bool,
}

#[derive(Serialize)]
struct LinkStatus {
    a: String,
    b: String,
}

impl LabStatus {
    fn of(state: &State) -> Self {
        let node = |(name, node): (&String, &state::NodeState)| NodeStatus {
            name: name.clone(),
            namespace: node.namespace.clone(),
            dir: state.node_dir(name),
            daemon: node.daemon,
            processes: node
                .processes
                .iter()
                .map(|(name, id)| ProcessStatus { name: name.clone(), pid: id.pid, running: id.is_running() })
                .collect(),
        };
        let link = |l: &crate::topology::LinkSpec| LinkStatus { a: l.a.to_string(), b: l.b.to_string() };
        LabStatus {
            name: state.name.clone(),
            dir: state.dir(),
            topology: state.topology.clone(),
            rootless: state.scope != crate::scope::Scope::Host,
            orphan: state.is_orphan(),
            nodes: state.nodes.iter().map(node).collect(),
            links: state.links.iter().map(link).collect(),
        }
    }
}

/// Returns all labs. A lab that is just being made, or that ends meanwhile, has a folder without a state, and is none of them.
fn states() -> Result<Vec<State>, LabError> {
    let known = |name: &String| match State::load(name) {
        Err(LabError::NoLab(_)) => None,
        loaded => Some(loaded),
    };
    state::names().iter().filter_map(known).collect()
}

fn status(name: Option<String>, json: bool) -> anyhow::Result<()> {
    let states = match name {
        Some(name) => vec![State::load(&name)?],
        None => states()?,
    };
    let labs: Vec<LabStatus> = states.iter().map(LabStatus::of).collect();
    if json {
        sluice_print::outln!("{}", serde_json::to_string_pretty(&labs)?);
        return Ok(());
    }
    for lab in &labs {
        let orphan = if lab.orphan { ", its owner has died" } else { "" };
        sluice_print::outln!("lab {} in {}{orphan}", lab.name, lab.dir.display());
        for node in &lab.nodes {
            let part = |p: &ProcessStatus| {
                format!("{} {}", p.name, if p.running { p.pid.to_string() } else { "ended".into() })
            };
            let parts: Vec<String> = node.processes.iter().map(part).collect();
            sluice_print::outln!("  {:<16} {:<24} {}", node.name, node.namespace, parts.join(", "));
        }
        for link in &lab.links {
            sluice_print::outln!("  {} - {}", link.a, link.b);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_state_is_no_lab() {
        let name = format!("begun-{}", std::process::id());
        let folder = state::labs_dir().join(&name);
        if std::fs::create_dir_all(&folder).is_err() {
            return; // not root
        }
        let all = states();
        std::fs::remove_dir(&folder).unwrap();
        assert!(all.unwrap().iter().all(|state| state.name != name));
    }
}
