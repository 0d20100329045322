//! `sluice restart` of a component without a hand-over, such as some third parties' components: the process ends in
//! order, then a new process is started, and the reply reports the plain restart.

use super::error::ReplaceError;
use super::start_again::comes_up;
use crate::ManagerProcess;
use sluice_base::component_of;
use sluice_manager::{Input, Phase};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::finder::v1::TargetInfo;
use sluice_xrl::idl::manager::v1 as pb;
use std::rc::Rc;
use std::time::Instant;

/// The interface of every component, and its method for handing over.
const HAND_OVER: (&str, &str) = ("common.v1.Component", "HandOver");

/// Returns true if a running component can hand over: the component serves the call, or the Finder does not know.
pub(crate) async fn hands_over(process: &ManagerProcess, class: &str) -> bool {
    let Ok(targets) = process.router.targets().await else { return true };
    let (interface, method) = HAND_OVER;
    let is_it = |t: &&TargetInfo| component_of(&t.class, &t.instance) == class;
    let mut interfaces = targets.iter().filter(is_it).flat_map(|t| &t.interfaces);
    interfaces.any(|i| i.name == interface && i.methods.iter().any(|m| m == method))
}

/// Ends a component's process and starts it anew.
pub async fn restart(process: &Rc<ManagerProcess>, class: &str) -> Result<pb::RestartReply, ReplaceError> {
    let began = Instant::now();
    let old = process.processes.pid(class);
    let restarts = process.driver.read(|m| m.component(class).map(|c| c.restarts));
    process.driver.input(Input::Renew(class.into()));
    if process.phase(class) == Some(Phase::Ready) {
        return Err(ReplaceError::NotNow(class.into()));
    }
    let took = comes_up(process, class, restarts, began).await?;
    let client = common::ComponentClient::new(&process.router, class);
    // Only for the record: it runs, whatever its status is.
    let status = client.get_status(common::GetStatusRequest {}).await.unwrap_or_default();
    Ok(pb::RestartReply {
        old_pid: old,
        new_pid: process.processes.pid(class),
        started_ms: took,
        taken_over_ms: took,
        version: status.version,
        plainly: true,
        ..pb::RestartReply::default()
    })
}
