//! `sluice status`: the health of the router, for scripts and supervisors.

use super::refresh;
use crate::configuration::{drain, waiting};
use crate::connection::session::Session;
use crate::output::{self, Failure, Output};
use crate::show::degraded::{self, degraded_json, print_degraded};
use serde_json::json;
use sluice_xrl::idl::manager::v1 as pb;

/// The exit status of a router that runs without a part of its configuration.
pub const DEGRADED: u8 = 8;

/// Succeeds if every wanted component runs, with its whole configuration. (`stopped` is a component that ended because
/// of its removal from the configuration.)
pub async fn run(session: &Session, out: &mut Output) -> Result<u8, Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let reply = client.get_processes(pb::GetProcessesRequest {}).await?;
    let waiting: Vec<String> =
        reply.processes.iter().filter(|p| p.state != "running").map(in_words).collect();
    if !waiting.is_empty() {
        return Err(Failure::failed(waiting.join(", ")));
    }
    let configuration = pb::ConfigurationClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let revisions = configuration.get_revisions(pb::GetRevisionsRequest {}).await?;
    let (trouble, open) = (revisions.trouble, revisions.unconfirmed);
    let drained = drain::is_drained(session).await?;
    let degraded = degraded::degraded(&reply.processes);
    let refreshing = refresh::refreshing(session, &router).await;
    match out.is_json() {
        true => out.json(&json!({
            "ready": true, "uptime_ms": reply.uptime_ms, "drained": drained, "trouble": trouble,
            "degraded": degraded_json(&degraded), "refreshing": refresh::as_json(&refreshing),
            "unconfirmed": waiting::json(open.as_ref()),
        })),
        false => {
            let state = if degraded.is_empty() { "running" } else { "degraded: running" };
            out.line(&format!("{state} for {}", output::span(reply.uptime_ms)));
            if drained {
                out.line(drain::DRAINED);
            }
            open.iter().for_each(|open| out.line(&waiting::text(open)));
            refresh::lines(&refreshing).iter().for_each(|line| out.line(line));
            print_degraded(&degraded, out);
        }
    }
    Ok(if degraded.is_empty() { 0 } else { DEGRADED })
}

/// Returns the reason why a component does not work, and the remedy.
fn in_words(process: &pb::Process) -> String {
    let state = format!("{} is {}", process.component, process.state);
    match process.state.as_str() {
        "failing" => format!(
            "{state}: it ended again and again, the last time so: {}; mend that (`sluice show events`), then \
             `sluice restart {}` tries it at once",
            process.last_exit, process.component
        ),
        _ if process.last_exit.is_empty() => state,
        _ => format!("{state} (its last end: {})", process.last_exit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_run_has_a_reason() {
        let process = |state: &str, last: &str| pb::Process {
            component: "bgp".into(),
            state: state.into(),
            last_exit: last.into(),
            ..pb::Process::default()
        };
        assert_eq!(in_words(&process("waiting", "")), "bgp is waiting");
        assert_eq!(
            in_words(&process("backing off", "signal: 9")),
            "bgp is backing off (its last end: signal: 9)"
        );
        let failing = in_words(&process("failing", "signal: 11"));
        assert!(
            failing.starts_with("bgp is failing: it ended again and again, the last time so: signal: 11")
        );
        assert!(failing.contains("`sluice restart bgp`"));
    }
}
