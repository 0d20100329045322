//! A cell: a router with policies receives the table, announces it, and perhaps filters it again.

use crate::network::{self, FEED, PEERS, Policies, ROUTER};
use crate::policy::Lists;
use anyhow::{Context, Result, ensure};
use bench_lab::{Device, LOCAL_AS, of_node};
use sluice_base::Asn;
use sluice_bgpsim::report;
use sluice_bgpsim::run::{self, Setup};
use sluice_bgpsim::sender::Speed;
use sluice_bgpsim::workload::Workload;
use sluice_lab::Lab;
use sluice_load::counts::Cli;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The silence at the end of a phase.
const SETTLE: Duration = Duration::from_millis(1500);
/// Between the start of a router and the first connection.
const REST: Duration = Duration::from_secs(1);
/// The longest work of a router after the receivers have every route.
const UNREST: Duration = Duration::from_secs(120);
/// Processor time of timers and polls within [`SETTLE`], in seconds.
const IDLE_S: f64 = 0.025;

/// The work of a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Case {
    /// No policy, one receiver.
    Plain,
    /// An accepting policy, one receiver.
    AcceptAll,
    /// 50 terms at import, one receiver.
    Import,
    /// 50 terms at import, and then a new policy.
    Refilter,
    /// No policy, ten receivers.
    PlainToTen,
    /// 50 terms at export, two policies for ten receivers.
    Export,
}

impl Case {
    pub const ALL: [Case; 6] =
        [Case::Plain, Case::AcceptAll, Case::Import, Case::Refilter, Case::PlainToTen, Case::Export];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Case::Plain => "no policy, 1 receiver",
            Case::AcceptAll => "accept all, 1 receiver",
            Case::Import => "import of 50 terms, 1 receiver",
            Case::Refilter => "all routes filtered again",
            Case::PlainToTen => "no policy, 10 receivers",
            Case::Export => "export of 50 terms, 10 receivers",
        }
    }

    /// The number of receivers.
    pub const fn receivers(self) -> usize {
        if matches!(self, Case::PlainToTen | Case::Export) { 10 } else { 1 }
    }

    const fn policies(self) -> Policies {
        let import = match self {
            Case::Plain | Case::PlainToTen | Case::Export => None,
            Case::AcceptAll => Some("everything"),
            Case::Import | Case::Refilter => Some("p0"),
        };
        let export: &[&str] = if matches!(self, Case::Export) { &["p0", "p1"] } else { &[] };
        Policies { import, export, keeps: matches!(self, Case::Refilter) }
    }
}

/// The setting in which cells run.
pub struct Stage<'a> {
    /// The Sluice executable.
    pub sluice: &'a Path,
    /// The lists of policies.
    pub lists: &'a Lists,
    /// The longest time of a phase.
    pub limit: Duration,
}

impl Stage<'_> {
    /// Runs a cell; returns the processor time of the router's processes in seconds.
    ///
    /// # Errors
    /// A receiver lacks routes, or the router does not come to rest.
    pub fn perform(&self, device: Device, case: Case, workload: &Workload) -> Result<f64> {
        let lab = network::up(device, self.lists, case.policies(), case.receivers(), self.sluice)?;
        std::thread::sleep(REST);
        let before = used(&lab, device);
        let setup = self.setup(case.receivers());
        let mut cost = Ok(0.0);
        let phases = lab.inside(PEERS, || {
            run::run_and(&setup, workload, || {
                cost = at_rest(&lab, device).and_then(|after| match case {
                    Case::Refilter => {
                        filter_again(&lab, device, self.sluice)?;
                        Ok(at_rest(&lab, device)? - after)
                    }
                    _ => Ok(after - before),
                });
            })
        })??;
        ensure!(
            report::verified(&phases),
            "{}, {}: a receiver lacks routes: every policy here accepts all",
            device.name(),
            case.name()
        );
        cost
    }

    fn setup(&self, receivers: usize) -> Setup {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Setup {
            target: SocketAddr::from((ROUTER, 179)),
            target_as: Asn(LOCAL_AS),
            peers: network::peers(receivers),
            late: Vec::new(),
            listen: None,
            only_count: false,
            speed: Speed::Full,
            reading_threads: cores.min(receivers),
            target_processes: Vec::new(),
            timeout: self.limit,
            patience: self.limit.min(Duration::from_secs(60)),
            settle: SETTLE,
        }
    }
}

fn used(lab: &Lab, device: Device) -> f64 {
    of_node(lab, device.node()).iter().map(|process| process.cpu_s).sum()
}

/// Waits until the router's processes rest; returns the processor time so far.
fn at_rest(lab: &Lab, device: Device) -> Result<f64> {
    let begin = Instant::now();
    let mut before = used(lab, device);
    loop {
        std::thread::sleep(SETTLE);
        let now = used(lab, device);
        if now - before < IDLE_S {
            return Ok(now);
        }
        before = now;
        ensure!(
            begin.elapsed() < UNREST,
            "{} does not come to rest in {} s",
            device.name(),
            UNREST.as_secs()
        );
    }
}

/// Applies a policy to all routes of the feed again: another policy of the same meaning in Sluice, the same filter in BIRD. No
/// attribute of a route changes, and no route is announced.
fn filter_again(lab: &Lab, device: Device, sluice: &Path) -> Result<()> {
    if device == Device::Bird {
        let socket = lab.dir(device.node()).join("bird.ctl").display().to_string();
        lab.exec(device.node(), "birdc", ["-s", &socket, "reload", "in", "n0"])?;
        return Ok(());
    }
    let leaf = format!("protocols bgp neighbor {FEED} import");
    let (delete, set) = (format!("delete {leaf}"), format!("set {leaf} p0-again"));
    let output = Cli { lab, sluice }.command(&["configure", &delete, &set, "commit"]).output();
    let output = output.context("the command line does not start")?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "the policy cannot be changed: {}", String::from_utf8_lossy(&text));
    Ok(())
}
