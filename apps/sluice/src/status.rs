//! `sluice status`: whether the router does its work, for scripts and supervisors.

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
    let revisions = session.configuration().await?.get_revisions(pb::GetRevisionsRequest {}).await?;
    let trouble = (!revisions.trouble.is_empty()).then_some(revisions.trouble);
    if out.is_json() {
        out.json(&json!({ "ready": true, "uptime_ms": reply.uptime_ms, "trouble": trouble }));
        return Ok(());
    }
    out.line(&format!("running for {}", output::span(reply.uptime_ms)));
    if let Some(trouble) = trouble {
        let text = out.paint(output::Paint::Bad, &trouble);
        out.line(&text);
    }
    Ok(())
}
