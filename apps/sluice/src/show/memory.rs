//! `sluice show memory`.

use crate::connection::session::Session;
use crate::output::{Failure, Output, Table, leave_out};
use serde_json::{Value, json};
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::text::Printer;

/// Shows the memory of each process, and the sums over all processes.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let processes = client.get_memory(pb::GetMemoryRequest {}).await?.processes;
    let total = total(&processes);
    if out.is_json() {
        let printer = Printer::new(DESCRIPTORS)?;
        let all: Vec<Value> =
            processes.iter().map(|process| printer.plain(process)).collect::<Result<_, _>>()?;
        let mut sums = printer.plain(&total)?;
        leave_out(&mut sums, &["component", "pid"]);
        out.json(&json!({ "processes": all, "total": sums }));
        return Ok(());
    }
    // In whole KiB, the unit in which the kernel counts: the columns add up.
    let mut table = Table::new(&["component", "pid", "resident KiB", "proportional KiB", "heap KiB"]);
    let kib = |bytes: u64| (bytes / 1024).to_string();
    for process in processes.iter().chain([&total]) {
        let pid = if process.pid == 0 { String::new() } else { process.pid.to_string() };
        table.row(vec![
            process.component.clone(),
            pid,
            kib(process.resident_bytes),
            kib(process.proportional_bytes),
            kib(process.heap_bytes),
        ]);
    }
    out.table(&table, "no processes");
    Ok(())
}

/// Returns the sums over processes.
fn total(processes: &[pb::ProcessMemory]) -> pb::ProcessMemory {
    let sum = |of: fn(&pb::ProcessMemory) -> u64| processes.iter().map(of).sum();
    pb::ProcessMemory {
        component: "total".into(),
        pid: 0,
        resident_bytes: sum(|process| process.resident_bytes),
        proportional_bytes: sum(|process| process.proportional_bytes),
        heap_bytes: sum(|process| process.heap_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_sum_of_each_column() {
        let process = |resident_bytes, proportional_bytes, heap_bytes| pb::ProcessMemory {
            component: "bgp".into(),
            pid: 7,
            resident_bytes,
            proportional_bytes,
            heap_bytes,
        };
        let total = total(&[process(4096, 2048, 1024), process(8192, 8192, 0)]);
        assert_eq!((total.resident_bytes, total.proportional_bytes, total.heap_bytes), (12288, 10240, 1024));
    }
}
