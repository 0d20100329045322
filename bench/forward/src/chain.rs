//! The cost of the chain without forwarding: the root program alone, and with programs in its slots. The kernel runs the programs a
//! million times on one frame.

use anyhow::Result;
use bench_report::{Report, table};
use serde_json::json;
use sluice_bpf::layout::Slot;
use sluice_bpf::run;
use sluice_bpf::slots::Slots;
use sluice_bpf::{Embedded, Loader, Pins};

const REPEAT: u32 = 1_000_000;

/// Measures the programs of a chain whose pins are `pins`.
fn costs(pins: &Pins) -> Result<Vec<(String, u32)>> {
    let share = |loader: Loader| {
        ["slots", "counts", "ports"]
            .into_iter()
            .fold(loader, |loader, map| loader.share(map, &pins.map_path(map)))
    };
    let root = share(Loader::new(Embedded::Root)).load()?;
    let slots = Slots::new(root.map("slots")?)?;
    let frame = frame();
    let mut costs = vec![(
        "root program, all slots empty".to_owned(),
        run::run(root.program(), &frame, REPEAT)?.nanoseconds,
    )];
    let mut filled = Vec::new();
    for slot in [Slot::Police, Slot::Flow, Slot::Balance] {
        let empty = share(Loader::new(Embedded::Empty)).constant_u32("slot", slot.index()).load()?;
        slots.set(slot, empty.program())?;
        filled.push(empty);
        let name = format!("{} slots with a program that continues", filled.len());
        costs.push((name, run::run(root.program(), &frame, REPEAT)?.nanoseconds));
    }
    let drop = Loader::new(Embedded::Drop).load()?;
    costs.push((
        "a program that drops and counts".to_owned(),
        run::run(drop.program(), &frame, REPEAT)?.nanoseconds,
    ));
    Ok(costs)
}

/// Measures the chain on a bpffs of its own.
fn measure() -> Result<Vec<(String, u32)>> {
    let folder = tempfile::tempdir()?;
    Pins::mount(folder.path())?;
    let costs = Pins::open(&folder.path().join("chain")).map_err(Into::into).and_then(|pins| costs(&pins));
    nix::mount::umount2(folder.path(), nix::mount::MntFlags::MNT_DETACH)?;
    costs
}

/// Measures, prints and reports.
pub fn run(report: &mut Report) -> Result<()> {
    let costs = measure()?;
    let lines: Vec<_> = costs.iter().map(|(what, ns)| vec![what.clone(), ns.to_string()]).collect();
    println!("{}", table(&["the chain", "ns a packet"], &lines));
    for (what, nanoseconds) in costs {
        report.row(json!({ "what": what, "ns": nanoseconds }));
    }
    Ok(())
}

/// A UDP packet of IPv4.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
    frame.extend_from_slice(&[4, 0, 0, 9, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}
