//! How soon `show` answers while a full table comes in, and whether any keepalive is late meanwhile.

use anyhow::{Context, Result, ensure};
use bench_lab::TableArgs;
use bench_report::{Bar, Report, mean_sd};
use serde_json::json;
use sluice_lab::{Lab, LabOptions, Topology};
use sluice_load::bird::Feed;
use sluice_load::counts::Cli;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The longest time that the table may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// Whose session ends if keepalives are late.
const WITNESS: &str = "10.2.0.2";

/// The command that is repeated.
const COMMANDS: [&[&str]; 9] = [
    &["show", "bgp", "summary"],
    &["show", "bgp", "neighbor"],
    &["show", "bgp", "routes"],
    &["show", "routes"],
    &["show", "routes", "8.8.8.8"],
    &["show", "summary"],
    &["show", "interfaces"],
    &["show", "processes"],
    &["show", "configuration"],
];

/// A feed of the full table, and a witness whose session ends if three keepalives in a row are late: its hold time is three seconds.
fn topology() -> Result<Topology> {
    let text = "
[nodes.feed]
daemon = 'bird'
[nodes.witness]
daemon = 'bird'
config = '''
router id 10.2.0.2;
protocol device {}
protocol bgp sluice {
  local 10.2.0.2 as 64502;
  neighbor 10.2.0.1 as 64500;
  hold time 3; keepalive time 1;
  connect delay time 1; connect retry time 2; error wait time 1, 4;
  ipv4 { import none; export none; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.1.0.2 { peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; }
        neighbor 10.2.0.2 { peer-as 64502; hold-time 3; connect-retry-time 1; }
    }
}
'''
[[links]]
a = 'sluice:feed'
b = 'feed:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
[[links]]
a = 'sluice:witness'
b = 'witness:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";
    Ok(text.parse()?)
}

/// Measures, and prints that.
pub fn run(sluice: &Path, full: &TableArgs, report: &mut Report) -> Result<()> {
    println!("show while a full table comes in");
    let (table, _) = full.table()?;
    let mut topology = topology()?;
    let feed = Feed {
        router_id: "10.1.0.2",
        local_as: 64501,
        local: ("10.1.0.2", "2001:db8:1::2"),
        neighbor: ("10.1.0.1", 64500),
        table: &table,
    };
    topology.nodes.get_mut("feed").context("the lab has a feed")?.config = Some(feed.config());
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-show") };
    let lab = Lab::up(&topology, options)?;
    let cli = Cli { lab: &lab, sluice };
    let begin = Instant::now();
    let mut all: Vec<(usize, f64)> = Vec::new();
    let mut bird = Vec::new();
    loop {
        for (number, words) in COMMANDS.iter().enumerate() {
            all.push((number, first_line(cli.command(words))?));
        }
        let socket = lab.dir("feed").join("bird.ctl").display().to_string();
        let mut birdc = lab.command("feed", "birdc")?;
        birdc.args(["-r", "-s", &socket, "show", "protocols"]);
        bird.push(first_line(birdc)?);
        let kernel = bench_lab::routes(bench_lab::within(&lab, "sluice")?)?;
        if kernel.v4 >= table.v4.len() as u64 && kernel.v6 >= table.v6.len() as u64 {
            break;
        }
        ensure!(begin.elapsed() < PATIENCE, "the table is not in the kernel after {} s", PATIENCE.as_secs());
    }
    let answer = cli.ask(&["show", "bgp", "neighbor", WITNESS])?;
    let flaps = sluice_load::wide(&answer["neighbors"][0]["flaps"]).unwrap_or(0);
    println!(
        "  the table was in the kernel after {:.1} s; the witness's session dropped {flaps} times",
        begin.elapsed().as_secs_f64()
    );
    for (number, words) in COMMANDS.iter().enumerate() {
        let of: Vec<f64> = all.iter().filter(|(n, _)| *n == number).map(|(_, ms)| *ms).collect();
        let worst = of.iter().copied().fold(0.0, f64::max);
        println!(
            "  {:<22} mean {:6.1} ms, worst {worst:6.1} ms, {} times",
            words.join(" "),
            mean_sd(&of).0,
            of.len()
        );
        report.row(json!({ "command": words.join(" "), "mean_ms": mean_sd(&of).0, "worst_ms": worst, "times": of.len() }));
    }
    let worst = all.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let bird_worst = bird.iter().copied().fold(0.0, f64::max);
    println!("  BIRD 2 beside it, `show protocols` while it sends the table: worst {bird_worst:.1} ms");
    report.row(json!({ "command": "birdc show protocols", "mean_ms": mean_sd(&bird).0, "worst_ms": bird_worst, "times": bird.len() }));
    report.bar(Bar::lower("config.show_first_line_ms", worst, "ms", 200.0));
    report.bar(Bar::lower("config.sessions_lost_while_loading", flaps as f64, "sessions", 0.0));
    Ok(lab.down()?)
}

/// Milliseconds from the start of a program to its first line.
fn first_line(mut command: std::process::Command) -> Result<f64> {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("it has an output")?);
    out.read_line(&mut String::new())?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    // The rest is not waited for: whole tables are long.
    out.take(1 << 16).read_to_end(&mut Vec::new())?;
    let _ = child.kill();
    child.wait()?;
    Ok(took)
}
