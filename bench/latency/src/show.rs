//! The operator's waiting time: `sluice show routes ADDRESS`, from the start of the program to its first line.

use anyhow::{Context, Result};
use sluice_base::IpPrefix;
use sluice_load::RoutingTable;
use sluice_load::counts::Cli;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::time::Instant;

/// Asks once. Milliseconds until the first line, and all lines.
fn ask(cli: &Cli<'_>, address: IpAddr) -> Result<(f64, String)> {
    let begin = Instant::now();
    let mut child = cli
        .command(&["show", "routes", &address.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("the CLI does not start")?;
    let mut text = String::new();
    let mut out = BufReader::new(child.stdout.take().context("the CLI has an output")?);
    out.read_line(&mut text)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    out.read_to_string(&mut text)?;
    child.wait()?;
    Ok((took, text))
}

/// Addresses over the whole table with a known longest match: inside prefixes too long to contain further prefixes.
fn questions(table: &RoutingTable, count: usize) -> Vec<(IpAddr, IpPrefix)> {
    let longest: Vec<IpPrefix> = table.v4.iter().map(|a| a.prefix).filter(|p| p.len() == 24).collect();
    let inside = |prefix: IpPrefix| match prefix.addr() {
        IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() + 77)),
        v6 => v6,
    };
    (0..count)
        .filter_map(|i| longest.get(i * 7919 % longest.len().max(1)))
        .map(|p| (inside(*p), *p))
        .collect()
}

/// Asks again and again as long as `goes_on`, one address after the other; milliseconds until each first line.
pub fn while_loading(
    cli: &Cli<'_>,
    table: &RoutingTable,
    goes_on: impl Fn() -> Result<bool>,
) -> Result<Vec<f64>> {
    let questions = questions(table, 1000);
    let mut all = Vec::new();
    for (address, _) in questions.iter().cycle() {
        if !goes_on()? {
            break;
        }
        all.push(ask(cli, *address)?.0);
    }
    Ok(all)
}

/// Asks `count` times with the table complete; milliseconds until each first line, and how many answers were the longest match.
pub fn at_rest(cli: &Cli<'_>, table: &RoutingTable, count: usize) -> Result<(Vec<f64>, usize)> {
    let (mut all, mut right) = (Vec::new(), 0);
    for (address, prefix) in questions(table, count) {
        let (took, text) = ask(cli, address)?;
        all.push(took);
        right += usize::from(text.split_whitespace().any(|word| word == prefix.to_string()));
    }
    Ok((all, right))
}
