//! Questions to the Finder about targets, and reports to the Finder about callers.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use crate::finder::denials::Denied;
use crate::idl::finder::v1 as wire;
use crate::link::ask;
use crate::{CallContext, XrlEndpoint, XrlError};

/// The time in which targets register with a Finder to which this process is connected anew.
const REGISTRATION: Duration = Duration::from_secs(3);

impl XrlEndpoint {
    /// Returns the registered targets.
    pub async fn targets(&self) -> Result<Vec<wire::TargetInfo>, XrlError> {
        let reply: wire::ListTargetsReply =
            self.ask_finder("ListTargets", &wire::ListTargetsRequest {}).await?;
        Ok(reply.targets)
    }

    /// Has the Finder count a call that this process refused its caller, for a reason of its own: `subject` is what the
    /// caller wanted.
    pub fn report_refusal(&self, ctx: &CallContext, subject: &str) {
        self.0.registry.refusals.note(Denied::Right, &ctx.principal, subject, (ctx.pid, ctx.uid));
    }

    /// Has the Finder count a call that this process refused its caller because the caller has as much as it may: `subject`
    /// is the limit.
    pub fn report_excess(&self, ctx: &CallContext, subject: &str) {
        self.0.registry.refusals.note(Denied::Limit, &ctx.principal, subject, (ctx.pid, ctx.uid));
    }

    /// Returns the principal that registered an instance. Waits up to 3 s for an instance that registers again with a
    /// restarted Finder.
    ///
    /// # Errors
    ///
    /// [`XrlError::UnknownTarget`] for an instance that nobody registers.
    pub async fn registrant(&self, instance: &str) -> Result<Rc<str>, XrlError> {
        let begin = Instant::now();
        loop {
            // A Finder to which this process has been connected for long knows every target that there is.
            let found = self.target(instance).await;
            let since = match found {
                Err(XrlError::NoFinder) => Some(begin),
                Err(XrlError::UnknownTarget(_)) => Some(self.0.linked.get().unwrap_or(begin)),
                _ => None,
            };
            if since.is_none_or(|since| since.elapsed() >= REGISTRATION) {
                return found.map(|target| target.principal.into());
            }
            tokio::time::sleep(REGISTRATION / 30).await;
        }
    }

    /// Returns a registered target by the name of its instance.
    pub async fn target(&self, instance: &str) -> Result<wire::TargetInfo, XrlError> {
        let connection = self.0.link().await?;
        let request = wire::GetTargetRequest { instance: instance.to_owned() };
        let reply: wire::GetTargetReply = ask(&connection, "GetTarget", &request).await?;
        reply.target.ok_or_else(|| XrlError::UnknownTarget(instance.to_owned()))
    }
}
