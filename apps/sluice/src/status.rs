//! `sluice status`: whether the router does its work, for scripts and supervisors.

use crate::drain;
use crate::output::{self, Failure, Output};
use crate::session::Session;
use serde_json::json;
use sluice_xrl::idl::manager::v1 as pb;

/// Succeeds if every component runs.
pub async fn run(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
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
    let configuration = pb::ConfigurationClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let trouble = configuration.get_revisions(pb::GetRevisionsRequest {}).await?.trouble;
    let drained = drain::is_drained(session).await?;
    match out.is_json() {
        true => out.json(&json!({
            "ready": true, "uptime_ms": reply.uptime_ms, "drained": drained, "trouble": trouble,
        })),
        false => {
            out.line(&format!("running for {}", output::span(reply.uptime_ms)));
            if drained {
                out.line(drain::DRAINED);
            }
            if !trouble.is_empty() {
                out.line(&format!("not with what is configured: {trouble}"));
            }
        }
    }
    Ok(())
}
