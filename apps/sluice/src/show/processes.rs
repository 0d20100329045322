//! `sluice show processes`.

use crate::connect::DEADLINE;
use crate::output::{self, Failure, Table};
use serde_json::json;
use sluice_xrl::Router;
use sluice_xrl::idl::manager::v1 as pb;

/// Shows the router's processes.
pub async fn show(router: &Router, as_json: bool) -> Result<(), Failure> {
    let client = pb::ManagerClient::new(router, "manager").with_deadline(DEADLINE);
    let reply = client.get_processes(pb::GetProcessesRequest {}).await?;
    if as_json {
        let all: Vec<_> = reply
            .processes
            .iter()
            .map(|p| {
                json!({
                    "component": p.component, "pid": p.pid, "state": p.state, "restarts": p.restarts,
                    "uptime_ms": p.uptime_ms, "memory_bytes": p.memory_bytes,
                    "peak_memory_bytes": p.peak_memory_bytes, "cpu_ms": p.cpu_ms, "uid": p.uid,
                    "last_exit": p.last_exit,
                })
            })
            .collect();
        output::json(&json!({ "version": reply.version, "uptime_ms": reply.uptime_ms, "processes": all }));
        return Ok(());
    }
    let mut table = Table::new(&[
        "component",
        "state",
        "pid",
        "user",
        "up",
        "restarts",
        "memory",
        "peak",
        "cpu",
        "last end",
    ]);
    for p in &reply.processes {
        table.row(vec![
            p.component.clone(),
            p.state.clone(),
            p.pid.to_string(),
            p.uid.to_string(),
            output::span(p.uptime_ms),
            p.restarts.to_string(),
            output::bytes(p.memory_bytes),
            output::bytes(p.peak_memory_bytes),
            output::span(p.cpu_ms),
            p.last_exit.clone(),
        ]);
    }
    table.print("no processes");
    Ok(())
}
