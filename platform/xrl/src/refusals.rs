//! What a process refused, on its way to the Finder, which counts it for the operator.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Weak;
use std::time::Duration;

use tokio::sync::Notify;

use crate::endpoint::Inner;
use crate::finder::denials::Denied;
use crate::idl::finder::v1 as wire;
use crate::link::ask;

/// Refusals that wait with their details; further refusals are counted only.
const MAX_WAITING: usize = 64;
/// Characters of a refusal's names.
const MAX_TEXT: usize = 200;
/// The time between two reports: a flood of refusals is not a flood of reports.
const PAUSE: Duration = Duration::from_millis(200);

/// Refusals of which the Finder was not told yet.
#[derive(Default)]
pub(crate) struct Refusals {
    waiting: RefCell<VecDeque<wire::RefusalReport>>,
    others: Cell<u64>,
    arrived: Notify,
}

impl Refusals {
    /// Notes a refusal of the process and user that the kernel reports, if it does.
    pub(crate) fn note(
        &self,
        denied: Denied,
        claimed: &str,
        subject: &str,
        from: (Option<u32>, Option<u32>),
    ) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= MAX_WAITING {
            self.others.set(self.others.get() + 1);
            return;
        }
        let text = |s: &str| s.chars().take(MAX_TEXT).collect();
        waiting.push_back(wire::RefusalReport {
            denied: denied.number(),
            claimed: text(claimed),
            pid: from.0.unwrap_or(0),
            uid: from.1,
            subject: text(subject),
        });
        self.arrived.notify_one();
    }

    fn take(&self) -> wire::ReportRefusalsRequest {
        wire::ReportRefusalsRequest {
            refusals: self.waiting.borrow_mut().drain(..).collect(),
            others: self.others.take(),
        }
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
