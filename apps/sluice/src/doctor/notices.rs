//! What running components report about their own state.

use super::Finding;
use crate::components::COMMANDS;
use crate::connection::session::Session;
use crate::output::Failure;
use sluice_base::class_of;
use sluice_cli::Values;
use sluice_console::{Call, ComponentCommands, Notice};
use sluice_xrl::idl::manager::v1 as pb;

/// Notices in one finding: a router may have thousands of neighbors in one state.
const SHOWN: usize = 5;

/// Asks all running components that have notices. A component that does not answer has none: its status is reported by
/// another check.
pub async fn findings(session: &Session) -> Vec<Finding> {
    let Ok(components) = running(session).await else { return Vec::new() };
    let mut findings = Vec::new();
    for component in components {
        let row = COMMANDS.iter().find(|(class, _)| *class == class_of(&component));
        let Some((class, own)) = row else { continue };
        if let Ok(notices) = notices(session, own, &component).await {
            findings.push(of(class, &component, &notices));
        }
    }
    findings
}

async fn running(session: &Session) -> Result<Vec<String>, Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let processes = client.get_processes(pb::GetProcessesRequest {}).await?.processes;
    Ok(processes.into_iter().filter(|p| p.state == "running").map(|p| p.component).collect())
}

async fn notices(
    session: &Session,
    own: &ComponentCommands,
    component: &str,
) -> Result<Vec<Notice>, Failure> {
    let (router, timeout, values) = (session.router().await?, session.flags.timeout, Values::default());
    (own.notices)(Call { router, target: component.to_owned(), timeout, values: &values }).await
}

fn of(class: &'static str, component: &str, notices: &[Notice]) -> Finding {
    let Some(first) = notices.first() else {
        return Finding::ok(class, format!("{component} has nothing to report"));
    };
    let mut found: Vec<String> = notices.iter().take(SHOWN).map(|n| n.found.clone()).collect();
    if notices.len() > SHOWN {
        found.push(format!("and {} more", notices.len() - SHOWN));
    }
    Finding::warn(class, format!("{component}: {}", found.join("; ")), &first.advice)
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn many_notices_are_one_finding() {
        assert_eq!(of("bgp", "bgp", &[]).outcome, Outcome::Ok);
        let notice = |n| Notice { found: format!("neighbor {n}"), advice: "a policy".into() };
        let found = of("bgp", "bgp@red", &(0..7).map(notice).collect::<Vec<_>>());
        assert_eq!((found.outcome, found.advice.as_str()), (Outcome::Warn, "a policy"));
        assert!(found.found.starts_with("bgp@red: neighbor 0; "), "{}", found.found);
        assert!(found.found.ends_with("; neighbor 4; and 2 more"), "{}", found.found);
    }
}
