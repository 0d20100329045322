//! `sluice status`: whether the router does its work, for scripts and supervisors.

use crate::Where;
use crate::connect::{DEADLINE, with_router};
use crate::output::{self, Failure};
use serde_json::json;
use sluice_xrl::idl::manager::v1 as pb;

/// Succeeds if every component runs.
pub fn run(place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        let client = pb::ManagerClient::new(&router, "manager").with_deadline(DEADLINE);
        let reply = client.get_processes(pb::GetProcessesRequest {}).await?;
        let waiting: Vec<String> = reply
            .processes
            .iter()
            .filter(|p| p.state != "running")
            .map(|p| format!("{} is {}", p.component, p.state))
            .collect();
        if !waiting.is_empty() {
            return Err(Failure::failed(waiting.join(", ")));
        }
        match as_json {
            true => output::json(&json!({ "ready": true, "uptime_ms": reply.uptime_ms })),
            false => println!("running for {}", output::span(reply.uptime_ms)),
        }
        Ok(())
    })
}
