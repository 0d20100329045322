//! The routers, and how an operator gives them a configuration.

use anyhow::{Context, Result, ensure};
use bench_report::{Plot, Series};
use sluice_lab::{Lab, Topology};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    /// The whole router, by `sluice commit` and `sluice configure`.
    Sluice,
    /// BIRD 2, by its file and `birdc configure`.
    Bird,
    /// FRR's zebra and staticd, by `vtysh -f` and `vtysh -c`.
    Frr,
}

/// The initial configuration of a router. Only FRR, which cannot omit them, puts the routes into the kernel.
pub fn topology() -> Result<Topology> {
    let text = "
[nodes.sluice]
daemon = 'sluice'
config = 'interfaces { forwarding { install-routes false; } }'
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.0.0.1;
protocol device {}
'''
[nodes.frr]
daemon = 'frr'
daemons = ['staticd']
config = '''
hostname frr
'''
";
    Ok(text.parse()?)
}

fn prefix(number: usize) -> String {
    let [_, a, b, c] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    format!("10.{a}.{b}.{c}/32")
}

impl Contender {
    /// Every contender.
    pub const ALL: [Contender; 3] = [Contender::Sluice, Contender::Bird, Contender::Frr];

    /// The router's name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Contender::Sluice => "Sluice",
            Contender::Bird => "BIRD 2",
            Contender::Frr => "FRR",
        }
    }

    const fn node(self) -> &'static str {
        match self {
            Contender::Sluice => "sluice",
            Contender::Bird => "bird",
            Contender::Frr => "frr",
        }
    }

    fn file(self, lab: &Lab) -> PathBuf {
        lab.dir(self.node()).join("large")
    }

    /// A configuration with the given number of routes, a line each.
    fn text(self, lines: usize) -> String {
        let mut text = String::with_capacity(lines * 64);
        // Writing to a string cannot fail.
        let _ = match self {
            Contender::Sluice => writeln!(text, "interfaces forwarding install-routes false;"),
            Contender::Bird => {
                writeln!(text, "router id 10.0.0.1;\nprotocol device {{}}\nprotocol static {{ ipv4;")
            }
            Contender::Frr => writeln!(text, "hostname frr"),
        };
        for prefix in (0..lines).map(prefix) {
            let _ = match self {
                Contender::Sluice => writeln!(text, "protocols static route {prefix} discard;"),
                Contender::Bird => writeln!(text, "route {prefix} blackhole;"),
                Contender::Frr => writeln!(text, "ip route {prefix} blackhole"),
            };
        }
        if self == Contender::Bird {
            text.push_str("}\n");
        }
        text
    }

    fn sluice(lab: &Lab, words: &[&str]) -> Result<()> {
        let program = lab.state().node("sluice")?.program.clone().context("the lab has a router")?;
        let mut command = lab.command("sluice", program)?;
        command.args(words).arg("--run-dir").arg(lab.dir("sluice").join("run"));
        succeed(command)
    }

    fn vtysh(lab: &Lab, words: &[&str]) -> Result<()> {
        let mut command = lab.command("frr", "vtysh")?;
        command.arg("--vty_socket").arg(lab.dir("frr")).args(words);
        succeed(command)
    }

    fn birdc(lab: &Lab, file: &str) -> Result<()> {
        let socket = lab.dir("bird").join("bird.ctl").display().to_string();
        let said = lab.exec("bird", "birdc", ["-s", &socket, "configure", &format!("\"{file}\"")])?;
        ensure!(said.contains("Reconfigured") || said.contains("in progress"), "birdc prints: {said}");
        Ok(())
    }

    /// Loads the given number of lines into a router with an almost empty configuration. Returns after the operator's
    /// command has returned and every route is present.
    pub fn load(self, lab: &Lab, lines: usize) -> Result<Duration> {
        let file = self.file(lab);
        std::fs::write(&file, self.text(lines))?;
        let shown = file.display().to_string();
        let begin = Instant::now();
        match self {
            Contender::Sluice => Self::sluice(lab, &["commit", "--from-file", &shown])?,
            Contender::Bird => Self::birdc(lab, &shown)?,
            Contender::Frr => Self::vtysh(lab, &["-f", &shown])?,
        }
        Ok(begin.elapsed())
    }

    /// Adds a single line.
    pub fn add_line(self, lab: &Lab, lines: usize, change: usize) -> Result<Duration> {
        let new = prefix(lines + change);
        let file = self.file(lab);
        if self == Contender::Bird {
            // Its operator edits the file, which takes as long as it takes.
            std::fs::write(&file, self.text(lines + change + 1))?;
        }
        let begin = Instant::now();
        match self {
            Contender::Sluice => {
                let statement = format!("set protocols static route {new} discard");
                Self::sluice(lab, &["configure", &statement, "commit"])?;
            }
            Contender::Bird => Self::birdc(lab, &file.display().to_string())?,
            Contender::Frr => {
                let statement = format!("ip route {new} blackhole");
                Self::vtysh(lab, &["-c", "configure terminal", "-c", &statement])?;
            }
        }
        Ok(begin.elapsed())
    }

    /// Removes the lines again.
    pub fn empty(self, lab: &mut Lab) -> Result<()> {
        if self == Contender::Frr {
            lab.stop("frr", true)?;
            return Ok(lab.start("frr")?);
        }
        self.load(lab, 0).map(|_| ())
    }
}

fn succeed(mut command: Command) -> Result<()> {
    let output = command.output()?;
    let said = || String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{command:?}: {}", said());
    Ok(())
}

/// Milliseconds for an additional line, a bar for each router.
pub fn plot(milliseconds: &[(&str, f64)]) -> Plot {
    let points = milliseconds.iter().enumerate().map(|(place, (_, ms))| (place as f64, *ms, 0.0));
    Plot {
        title: "One line more in a configuration of 100,000".into(),
        x: String::new(),
        y: "ms".into(),
        logarithmic: true,
        boxes: Vec::new(),
        names: milliseconds.iter().map(|(name, _)| (*name).into()).collect(),
        series: vec![Series { name: "median".into(), points: points.collect() }],
    }
}
