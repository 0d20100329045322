//! The confinement of the running router's processes.

use super::Finding;
use crate::connection::session::Session;
use crate::output::Failure;
use sluice_xrl::idl::manager::v1 as pb;

/// Compares the confinement of each process with the kernel's report; nothing without a running router.
pub async fn finding(session: &Session) -> Option<Finding> {
    asked(session).await.ok().map(|reply| of(&reply))
}

async fn asked(session: &Session) -> Result<pb::GetSecurityReply, Failure> {
    let router = session.router().await?;
    let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    Ok(client.get_security(pb::GetSecurityRequest {}).await?)
}

fn of(reply: &pb::GetSecurityReply) -> Finding {
    let differing = reply.processes.iter().filter(|process| !process.confined);
    let differing: Vec<String> = differing
        .map(|process| format!("{} {}", process.component, process.differences.join(", ")))
        .collect();
    if !differing.is_empty() {
        return Finding::fail(
            "confinement",
            differing.join("; "),
            "restart the components (`sluice restart COMPONENT`); if that does not help, do not run other people's code here",
        );
    }
    if !reply.missing.is_empty() {
        return Finding::warn(
            "confinement",
            format!("components run without {}", reply.missing.join("; ")),
            "docs/security.md describes what each layer stops, and what it needs",
        );
    }
    Finding::ok("confinement", "every process is confined as planned, by every layer")
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    #[test]
    fn a_difference_is_a_failure_and_a_missing_layer_a_warning() {
        let process = |difference: &str| pb::ConfinedProcess {
            component: "bgp".into(),
            confined: difference.is_empty(),
            differences: vec![difference.into()],
            ..pb::ConfinedProcess::default()
        };
        let reply = |difference: &str, missing: &[&str]| pb::GetSecurityReply {
            processes: vec![process(difference)],
            missing: missing.iter().map(|layer| (*layer).to_owned()).collect(),
        };
        assert_eq!(of(&reply("", &[])).outcome, Outcome::Ok);
        assert_eq!(of(&reply("", &["Landlock"])).outcome, Outcome::Warn);
        let found = of(&reply("runs as user 0, not 78000", &[]));
        assert_eq!((found.outcome, found.found.as_str()), (Outcome::Fail, "bgp runs as user 0, not 78000"));
    }
}
