//! Asks the RIB about the presence of routes, for policies and networks that depend on routes.

use crate::{BgpProcess, Component, Served};
use sluice_base::IpPrefix;
use sluice_bgp::speaker::control::Input;
use sluice_bgp::speaker::{PresenceQuestion, PresenceScope};
use sluice_process::Frame;
use sluice_xrl::convert::ConvertError;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::warn;

/// Questions in a call.
const MOST_AT_ONCE: usize = 1024;

/// The time after which a RIB without an answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The process's questions about the presence of routes.
pub struct PresenceSide {
    client: rib::RibClient,
    /// Questions to ask (true), or to take back, in order.
    queued: RefCell<Vec<(PresenceQuestion, bool)>>,
    asked: Notify,
    is_rib_alive: Cell<bool>,
    /// The number of the newest answer to each question: replies and reports can overtake each other.
    newest: RefCell<BTreeMap<PresenceQuestion, u64>>,
    problem: RefCell<Option<String>>,
}

impl PresenceSide {
    /// Makes the side without questions.
    pub fn new(frame: &Frame) -> Self {
        PresenceSide {
            client: rib::RibClient::new(&frame.router, "rib"),
            queued: RefCell::default(),
            asked: Notify::new(),
            is_rib_alive: Cell::new(false),
            newest: RefCell::default(),
            problem: RefCell::default(),
        }
    }

    /// Asks or withdraws questions. Without a RIB no question is queued: control asks a new RIB every question again.
    pub fn ask(&self, questions: Vec<PresenceQuestion>, are_asked: bool) {
        if self.is_rib_alive.get() {
            self.queued.borrow_mut().extend(questions.into_iter().map(|question| (question, are_asked)));
            self.asked.notify_one();
        }
    }

    /// Puts questions before the queued questions again: a queued entry may withdraw a question. Asking twice has no effect.
    fn ask_again(&self, questions: Vec<PresenceQuestion>) {
        let again = questions.into_iter().map(|question| (question, true));
        self.queued.borrow_mut().splice(..0, again);
    }

    /// Notes a RIB that answers questions.
    pub fn rib_started(&self) {
        self.forget();
        self.is_rib_alive.set(true);
    }

    /// Notes the RIB's death. The latest answers stay in force.
    pub fn rib_died(&self) {
        self.forget();
        self.is_rib_alive.set(false);
    }

    fn forget(&self) {
        self.queued.borrow_mut().clear();
        self.newest.borrow_mut().clear();
        self.problem.replace(None);
    }

    /// Returns the reason why answers are missing.
    pub fn problem(&self) -> Option<String> {
        self.problem
            .borrow()
            .as_ref()
            .map(|why| format!("the RIB does not say which routes are present: {why}"))
    }

    /// Takes the next questions of a kind: asked or withdrawn, with the same scope.
    fn next(&self) -> Option<(Vec<PresenceQuestion>, bool)> {
        let mut queued = self.queued.borrow_mut();
        let (first, is_asked) = *queued.first()?;
        let is_alike = |(question, asked): &&(PresenceQuestion, bool)| {
            question.scope == first.scope && *asked == is_asked
        };
        let count = queued.iter().take(MOST_AT_ONCE).take_while(is_alike).count();
        Some((queued.drain(..count).map(|(question, _)| question).collect(), is_asked))
    }

    /// Returns the answers newer than the known answers.
    fn news(
        &self,
        presences: &[rib::Presence],
        number: u64,
    ) -> Result<Vec<(PresenceQuestion, bool)>, XrlError> {
        let mut newest = self.newest.borrow_mut();
        let mut news = Vec::new();
        for presence in presences {
            let net = presence.net.as_ref().ok_or(ConvertError::Missing("net"))?;
            let scope =
                if presence.except_origin.is_empty() { PresenceScope::All } else { PresenceScope::Others };
            let question = PresenceQuestion { scope, prefix: IpPrefix::try_from(net)? };
            let known = newest.entry(question).or_insert(number);
            if *known <= number {
                *known = number;
                // What is not known yet leaves the answer of an earlier RIB in force.
                if !presence.unknown {
                    news.push((question, presence.present));
                }
            }
        }
        Ok(news)
    }
}

/// Asks the RIB as long as the process lives: questions in order.
pub async fn ask(process: Rc<BgpProcess>, instance: String) {
    let side = &process.presence;
    loop {
        side.asked.notified().await;
        while let Some((questions, is_asked)) = side.next() {
            let scope = questions.first().map(|question| question.scope);
            let except_origin = match scope {
                Some(PresenceScope::Others) => BgpProcess::CLASS.into(),
                _ => String::new(),
            };
            let nets = questions.iter().map(|question| question.prefix.into()).collect();
            let (target, table) = (instance.clone(), process.frame.table.0);
            if !is_asked {
                let request = rib::UnwatchPresenceRequest { target, table, nets, except_origin };
                let _ = side.client.unwatch_presence(request).await;
                continue;
            }
            let request = rib::WatchPresenceRequest { target, table, nets, except_origin };
            match side.client.watch_presence(request).await {
                Ok(reply) => match side.news(&reply.presences, reply.number) {
                    Ok(news) => process.input(Input::Presence(news)),
                    Err(error) => warn!(%error, "the RIB's answer about present routes makes no sense"),
                },
                Err(XrlError::DeadlineExceeded) if side.is_rib_alive.get() => {
                    side.ask_again(questions);
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                // A RIB that died is asked everything again when it is back.
                Err(_) if !side.is_rib_alive.get() => {}
                Err(error) => {
                    warn!(%error, "the RIB does not say which routes are present");
                    side.problem.replace(Some(error.to_string()));
                }
            }
        }
    }
}

impl rib::PresenceHolder for Served {
    async fn presence_changed(
        &self,
        _ctx: &CallContext,
        request: rib::PresenceChangedRequest,
    ) -> Result<rib::PresenceChangedReply, XrlError> {
        self.handover.awake().await;
        let news = self.presence.news(&request.presences, request.number)?;
        self.input(Input::Presence(news));
        Ok(rib::PresenceChangedReply {})
    }
}
