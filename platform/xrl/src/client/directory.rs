//! Questions to the Finder about targets, and reports to the Finder about callers.

use super::endpoint::{Inner, resolve_request};
use super::link::{LinkState, ask};
use crate::idl::finder::v1 as wire;
use crate::wire::denied::Denied;
use crate::{CallContext, XrlEndpoint, XrlError, finder};
use prost::Message;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// The time between two reports: a flood of refusals is not a flood of reports.
const PAUSE: Duration = Duration::from_millis(200);

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

    /// Asks the Finder: the relay's, if there is one.
    pub(crate) async fn ask_finder<Req, Rep>(&self, method: &str, request: &Req) -> Result<Rep, XrlError>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        let Some(relay) = &self.0.relay else {
            return ask(&self.0.link().await?, method, request).await;
        };
        let path = format!("finder.v1.Finder/{method}");
        let reply = relay.call(finder::TARGET, &path, None, request.encode_to_vec()).await?;
        Rep::decode(&reply[..]).map_err(|e| XrlError::Protocol(e.to_string()))
    }

    /// Waits until the Finder refuses the process's secret, as does a replacing manager's Finder without the secret.
    pub async fn refused(&self) {
        let mut link = self.0.link.subscribe();
        // An error means that the endpoint is gone, which this reference to it excludes.
        let _ = link.wait_for(LinkState::is_final).await;
    }

    /// The description of a target's interface: an encoded `FileDescriptorSet`.
    pub async fn descriptors(&self, target: &str, interface: &str) -> Result<Vec<u8>, XrlError> {
        let request =
            wire::GetDescriptorsRequest { target: target.to_owned(), interface: interface.to_owned() };
        let reply: wire::GetDescriptorsReply = self.ask_finder("GetDescriptors", &request).await?;
        Ok(reply.descriptors)
    }

    /// Returns true if a method only reads, as registered by its target; `path` is INTERFACE/METHOD.
    pub async fn reads(&self, target: &str, path: &str) -> Result<bool, XrlError> {
        if target == finder::TARGET {
            return Ok(wire::FinderClient::READING.contains(&path));
        }
        let reply: wire::ResolveReply = self.ask_finder("Resolve", &resolve_request(target, path)).await?;
        Ok(reply.reads)
    }

    /// Waits until the Finder is connected, for as long as the options say.
    pub async fn finder_connected(&self) -> Result<(), XrlError> {
        self.0.link().await.map(|_| ())
    }
}

/// Reports refusals for as long as the endpoint lives.
pub(crate) async fn report(inner: Weak<Inner>) {
    loop {
        let Some(registry) = inner.upgrade().map(|inner| std::rc::Rc::clone(&inner.registry)) else { return };
        registry.refusals.arrived.notified().await;
        tokio::time::sleep(PAUSE).await;
        let Some(link) = inner.upgrade().map(|inner| inner.link.borrow().connection()) else { return };
        // Without a Finder they wait, and those that find no room are counted.
        let Ok(connection) = link else {
            registry.refusals.arrived.notify_one();
            continue;
        };
        let _counted: Result<wire::ReportRefusalsReply, _> =
            ask(&connection, "ReportRefusals", &registry.refusals.take()).await;
    }
}
