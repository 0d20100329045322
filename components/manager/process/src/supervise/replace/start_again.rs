//! `sluice restart` of a component that died and has not come up again: the component is tried at once, and the reply
//! reports the result.

use super::error::ReplaceError;
use crate::ManagerProcess;
use sluice_manager::{Input, Phase};
use sluice_xrl::idl::manager::v1 as pb;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The longest wait: longer than the supervisor's wait for a component.
const PATIENCE: Duration = Duration::from_secs(35);
/// The interval between looks at the component.
const LOOK: Duration = Duration::from_millis(20);

/// Returns true if a component in this phase is tried anew rather than replaced.
pub(crate) const fn has_not_come_up(phase: Phase) -> bool {
    matches!(phase, Phase::BackingOff | Phase::Failing) || is_being_tried(phase)
}

/// Returns true while a try is under way.
const fn is_being_tried(phase: Phase) -> bool {
    matches!(phase, Phase::Starting | Phase::Configuring)
}

/// Forgets a component's deaths, starts the component, and waits until the component runs or has ended again. A try that is
/// under way counts if the component comes up by it. The reply names no earlier process.
pub(crate) async fn start_again(
    process: &Rc<ManagerProcess>,
    class: &str,
) -> Result<pb::RestartReply, ReplaceError> {
    let began = Instant::now();
    let restarts = || process.driver.read(|m| m.component(class).map(|c| c.restarts));
    let tried = if process.phase(class).is_some_and(is_being_tried) {
        Some(comes_up(process, class, restarts(), began).await)
    } else {
        None
    };
    let took = match tried {
        None | Some(Err(ReplaceError::Ended { .. })) => {
            let before = restarts();
            process.driver.input(Input::ResetBackoff(class.into()));
            comes_up(process, class, before, began).await?
        }
        Some(tried) => tried?,
    };
    Ok(pb::RestartReply {
        new_pid: process.processes.pid(class),
        started_ms: took,
        taken_over_ms: took,
        version: env!("CARGO_PKG_VERSION").into(),
        ..pb::RestartReply::default()
    })
}

/// Waits until a component runs, which had been started again `restarts` times before; the milliseconds since `began`.
pub async fn comes_up(
    process: &ManagerProcess,
    class: &str,
    restarts: Option<u32>,
    began: Instant,
) -> Result<u32, ReplaceError> {
    while began.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
        let now = process.driver.read(|m| m.component(class).cloned());
        let Some(now) = now else { return Err(ReplaceError::NotConfigured(class.into())) };
        if now.phase == Phase::Ready {
            return Ok(u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX));
        }
        if Some(now.restarts) != restarts {
            return Err(ReplaceError::Ended { component: class.into(), how: now.last_exit });
        }
        if now.phase == Phase::Waiting {
            let needs = now.spec.needs.iter().filter(|need| process.phase(need) != Some(Phase::Ready));
            let needs: Vec<&str> = needs.map(String::as_str).collect();
            if !needs.is_empty() {
                return Err(ReplaceError::Waiting { component: class.into(), needs: needs.join(", ") });
            }
        }
    }
    Err(ReplaceError::Silent(class.into()))
}
