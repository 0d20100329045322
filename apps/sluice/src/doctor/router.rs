//! The running router, if any.

use super::Finding;
use crate::connection::session::Session;
use crate::lifecycle::status;
use crate::output::Failure;
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

async fn processes(session: &Session) -> Result<Vec<pb::Process>, Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    Ok(client.get_processes(pb::GetProcessesRequest {}).await?.processes)
}

fn of(processes: &[pb::Process]) -> Finding {
    let degraded = status::degraded(processes);
    if degraded.is_empty() {
        return Finding::ok("router", "runs with everything that is configured, as far as it has come up");
    }
    let reasons: Vec<String> =
        degraded.iter().map(|(component, reason)| format!("{component}: {reason}")).collect();
    Finding::warn(
        "router",
        format!("runs degraded: {}", reasons.join("; ")),
        "mend that; `sluice status` says when it is over",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

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
