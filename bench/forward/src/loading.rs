//! A full table loaded into the fast path's tables alone, beside into the kernel: the time from the first operation to the last.

use crate::Prefixes;
use anyhow::{Context, Result};
use bench_forward::network;
use bench_report::{Bar, Report, median, number, table};
use serde_json::json;
use sluice_base::{IpPrefix, Provenance, TableId};
use sluice_fea::engine::{Engine, Scope};
use sluice_fea::xdp::XdpEngine;
use sluice_fea::{EngineOp, Member, NextHopId, RouteTarget};
use sluice_fea_process::linux::LinuxEngine;
use sluice_fea_process::xdp::fast_path::FastPath;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Operations of a call, as the core hands them over.
const AT_ONCE: usize = 4096;

/// Measures, prints and reports.
pub fn run(prefixes: &Prefixes, rounds: usize, pins: &Path, report: &mut Report) -> Result<()> {
    let all: Vec<IpPrefix> = prefixes.ipv4.iter().chain(&prefixes.ipv6).copied().collect();
    let mut pairs = Vec::new();
    for round in 0..rounds {
        let lab = network::up()?;
        let index = network::interface(&lab, "r", network::OUT[0])?.0;
        let ops = operations(&all, index);
        let kernel = || lab.inside("r", || load(&mut LinuxEngine::open()?, &ops));
        let xdp = || {
            lab.inside("r", || {
                let path = FastPath::open(pins, 1)?;
                load(&mut XdpEngine::new(Rc::clone(path.forwarder())), &ops)
            })
        };
        let pair = if round % 2 == 0 {
            let kernel = kernel()??;
            [kernel, xdp()??]
        } else {
            let xdp = xdp()??;
            [kernel()??, xdp]
        };
        println!("table load round {}: kernel {:.2} s, XDP {:.2} s", round + 1, pair[0], pair[1]);
        pairs.push(pair);
        lab.down()?;
    }
    let middle = |value: &dyn Fn(&[f64; 2]) -> f64| median(&pairs.iter().map(value).collect::<Vec<_>>());
    let mut lines = Vec::new();
    for (n, name) in ["kernel", "XDP"].into_iter().enumerate() {
        let seconds = middle(&|p| p[n]);
        report.row(json!({ "what": "table load", "engine": name, "routes": all.len(), "seconds": seconds }));
        lines.push(vec![name.into(), format!("{seconds:.2}"), number(all.len() as f64 / seconds)]);
    }
    println!("{}", table(&["full table, both families", "s", "routes/s"], &lines));
    report.bar(Bar::lower("forward.table_load_vs_kernel", middle(&|p| p[1] / p[0]), "x", 0.25));
    Ok(())
}

fn operations(prefixes: &[IpPrefix], interface: sluice_base::InterfaceIndex) -> Vec<EngineOp> {
    let (member, group) = (|n| NextHopId(10 + n), |n| NextHopId(20 + n));
    let gateways = [[10, 0, 1, 2].into(), std::net::Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 2).into()];
    let mut ops = Vec::new();
    for (n, gateway) in (0..).zip(gateways) {
        ops.push(EngineOp::SetMember { id: member(n), member: Member::Via { gateway, interface } });
        let members = [(member(n), 1)].into_iter().collect();
        ops.push(EngineOp::SetGroup { id: group(n), members, create: true });
    }
    ops.extend(prefixes.iter().map(|prefix| EngineOp::SetRoute {
        table: TableId::MAIN,
        prefix: *prefix,
        target: RouteTarget::Group(group(u32::from(prefix.addr().is_ipv6()))),
        replace: false,
        scope: Scope::All,
        provenance: Provenance::NONE,
    }));
    ops
}

/// Returns the seconds that an engine takes for the operations.
fn load(engine: &mut dyn Engine, ops: &[EngineOp]) -> Result<f64> {
    let mut refused = Vec::new();
    let start = Instant::now();
    for ops in ops.chunks(AT_ONCE) {
        engine.apply(ops, &mut refused);
    }
    let seconds = start.elapsed().as_secs_f64();
    let first = refused.first().map(|refused| refused.refusal.to_string());
    first.map_or(Ok(seconds), Err).map_err(anyhow::Error::msg).context("a route was refused")
}
