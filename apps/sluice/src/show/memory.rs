//! `sluice show memory`.

use crate::connection::session::Session;
use crate::output::{Failure, Output, Table};
use serde_json::{Value, json};
use sluice_xrl::idl::manager::v1 as pb;

/// Shows the memory of each process, and the sums over all processes.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let processes = client.get_memory(pb::GetMemoryRequest {}).await?.processes;
    let total = total(&processes);
    if out.is_json() {
        let all: Vec<Value> = processes.iter().map(|process| members(process, true)).collect();
        out.json(&json!({ "processes": all, "total": members(&total, false) }));
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

fn members(memory: &pb::ProcessMemory, is_process: bool) -> Value {
    let mut members = json!({
        "resident_bytes": memory.resident_bytes,
        "proportional_bytes": memory.proportional_bytes,
        "heap_bytes": memory.heap_bytes,
    });
    if is_process {
        members["component"] = memory.component.as_str().into();
        members["pid"] = memory.pid.into();
    }
    members
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
        assert_eq!(
            members(&total, false),
            json!({ "resident_bytes": 12288, "proportional_bytes": 10240, "heap_bytes": 1024 })
        );
        assert_eq!(members(&process(1, 1, 1), true)["component"], "bgp");
    }
}
