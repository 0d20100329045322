//! The running router, if any.

use super::Finding;
use crate::connection::session::Session;
use crate::output::Failure;
use crate::show::degraded;
use sluice_xrl::idl::manager::v1 as pb;

/// Checks the running router for missing parts of its configuration.
pub async fn finding(session: &Session) -> Finding {
    match processes(session).await {
        Ok(processes) => of(&processes),
        Err(failure) if failure.status == Failure::NOT_CONNECTED => Finding::ok("router", "none runs"),
        Err(failure) => Finding::warn(
            "router",
            format!("it does not answer: {}", failure.message),
            "look with `sluice status`",
        ),
    }
}

/// Returns the state of the running router's configuration; `None` without a router.
pub async fn configuration(session: &Session) -> Option<pb::GetRevisionsReply> {
    session.configuration().await.ok()?.get_revisions(pb::GetRevisionsRequest {}).await.ok()
}

/// Checks that the router runs what was committed last.
pub fn of_configuration(running: &pb::GetRevisionsReply) -> Finding {
    if !running.trouble.is_empty() {
        let advice = "mend the configuration file and `sluice reload`, or commit what should run";
        return Finding::warn("configuration", &running.trouble, advice);
    }
    let found = match running.running {
        0 => format!("the configuration of {} runs; nothing was committed so far", running.file),
        number => format!("revision {number} runs, of the file {}", running.file),
    };
    Finding::ok("configuration", found)
}

async fn processes(session: &Session) -> Result<Vec<pb::Process>, Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    Ok(client.get_processes(pb::GetProcessesRequest {}).await?.processes)
}

fn of(processes: &[pb::Process]) -> Finding {
    let degraded = degraded::degraded(processes);
    if degraded.is_empty() {
        return Finding::ok("router", "runs with everything that is configured, as far as it has come up");
    }
    let reasons: Vec<String> =
        degraded.iter().map(|(component, reason)| format!("{component}: {reason}")).collect();
    Finding::warn(
        "router",
        format!("runs degraded: {}", reasons.join("; ")),
        "mend that; `sluice status` shows when it is over",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn a_router_that_runs_an_older_configuration_is_a_warning() {
        let reply = |trouble: &str| pb::GetRevisionsReply {
            trouble: trouble.into(),
            running: 3,
            file: "/tmp/other.conf".into(),
            ..pb::GetRevisionsReply::default()
        };
        let found = of_configuration(&reply(""));
        assert!(found.outcome == Outcome::Ok && found.found.contains("/tmp/other.conf"), "{}", found.found);
        assert_eq!(of_configuration(&reply("the file is not valid")).outcome, Outcome::Warn);
    }

    #[test]
    fn a_degraded_router_is_a_warning() {
        let process = |degraded: &str| pb::Process {
            component: "bgp".into(),
            degraded: degraded.into(),
            ..pb::Process::default()
        };
        assert_eq!(of(&[process("")]).outcome, Outcome::Ok);
        let found = of(&[process(""), process("cannot listen")]);
        assert_eq!(found.outcome, Outcome::Warn);
        assert!(found.found.contains("bgp: cannot listen"), "{}", found.found);
    }
}
