//! The confinement of the router's processes, for `show security`.

use crate::ManagerProcess;
use crate::supervise::confinement::Report;
use sluice_manager::Phase;
use sluice_sandbox::{CallList, Network, Plan};
use sluice_xrl::idl::manager::v1 as pb;
use std::io;
use tracing::error;

impl ManagerProcess {
    /// Reports a process that is not confined as planned.
    pub(crate) fn check_confinement(&self, class: &str) {
        let confined = self.confined(class.to_owned());
        if !confined.confined {
            let differences = confined.differences.join(", ");
            error!(
                event = "security.differs",
                class, differences, "{class} is not confined as planned: {differences}"
            );
        }
    }

    /// Returns the confinement of each running component, as planned and as the kernel reports it.
    pub(crate) fn security(&self) -> pb::GetSecurityReply {
        let names: Vec<String> = self.driver.read(|manager| {
            let running = manager.components().filter(|c| c.phase != Phase::Stopped);
            running.map(|c| c.spec.name.clone()).collect()
        });
        let processes = names.into_iter().filter(|name| self.processes.pid(name) != 0);
        pb::GetSecurityReply {
            processes: processes.map(|name| self.confined(name)).chain(self.confined_helpers()).collect(),
            missing: self.processes.confinement.missing(),
        }
    }

    fn confined_helpers(&self) -> impl Iterator<Item = pb::ConfinedProcess> {
        self.helpers.running().into_iter().map(|running| {
            let report = self.helper_report(&running).map(|(plan, differences)| Report {
                plan,
                bounds: Vec::new(),
                differences,
            });
            of_report(running.name, running.pid, report)
        })
    }

    fn confined(&self, name: String) -> pb::ConfinedProcess {
        let pid = self.processes.pid(&name);
        let report = self.processes.confinement_report(&name, &self.model().rights(&name));
        of_report(name, pid, report)
    }
}

fn of_report(component: String, pid: u32, report: io::Result<Report>) -> pb::ConfinedProcess {
    match report {
        Ok(report) => {
            let plan = &report.plan;
            pb::ConfinedProcess {
                pid,
                uid: plan.user,
                capabilities: plan.capabilities.clone(),
                network: network(plan).into(),
                files: plan.files.is_some(),
                calls: calls(plan).into(),
                bounds: report.bounds,
                confined: report.differences.is_empty(),
                differences: report.differences,
                component,
            }
        }
        Err(error) => pb::ConfinedProcess {
            component,
            pid,
            differences: vec![error.to_string()],
            ..pb::ConfinedProcess::default()
        },
    }
}

fn network(plan: &Plan) -> &'static str {
    match plan.network {
        Network::Kept => "router",
        Network::Empty | Network::EmptyInUserNamespace => "empty",
    }
}

fn calls(plan: &Plan) -> &'static str {
    match plan.calls {
        None => "all",
        Some(CallList::Component) => "component",
        Some(CallList::Forwarding) => "forwarding",
        Some(CallList::Package) => "package",
        Some(CallList::Server) => "server",
    }
}
