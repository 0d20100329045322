//! The RIB's client: sends best routes in batches as the RIB takes them, and asks about next hops.

use crate::BgpProcess;
use crate::exchange::messages::{ControlMessage, Routes};
use crate::tables::table::RIB_BATCH;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{Address, AnyPrefix, Distance, Metric, Prefix, RouteAction, RouteBatch};
use sluice_bgp::family::{FamilyVisitor, Sharded};
use sluice_bgp::session_note;
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::Settings;
use sluice_bgp::speaker::control::{Control, Input};
use sluice_clients::{Question, Questions};
use sluice_process::{Frame, Point};
use sluice_xrl::convert::{self, ConvertError};
use sluice_xrl::idl::rib::v1 as rib;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tracing::warn;

/// The pause after a note to the RIB: many sessions come up together.
const NOTE_PAUSE: Duration = Duration::from_millis(200);

/// The longest wait for the RIB before the first session, where neighbors are notified whether routes were kept.
const PATIENCE: Duration = Duration::from_secs(2);

impl BgpProcess {
    /// Returns true if neighbors are to be notified of a restart: the RIB has kept the previous process's routes.
    pub(crate) async fn is_restarted(&self, settings: &Settings) -> bool {
        if !settings.announces_restarts() {
            return false;
        }
        let kept = tokio::time::timeout(PATIENCE, self.origin.kept()).await;
        settings.is_restarted(kept.map_or(0, |kept| kept.routes))
    }

    /// Passes on the previous process's note: the neighbors with a session at the process's end.
    pub(crate) fn learn_sessions_of_before(&self) {
        let before = self.origin.kept_so_far().and_then(|kept| session_note::read(&kept.note));
        if let Some(before) = before {
            self.input(Input::EstablishedBefore(before));
        }
    }
}

/// The process's side of the RIB.
pub struct RibSide {
    client: rib::RibClient,
    questions: RefCell<Questions>,
    asked: Notify,
    /// Batches of tables for the RIB: at most one for each family and table. After a batch the table is asked for the next batch,
    /// with a delay if the RIB has no consumers.
    batches: RefCell<VecDeque<(usize, Routes)>>,
    changed: Notify,
    announced: Notify,
    /// Wakes [`remember`].
    sessions_changed: Notify,
    stopped: Cell<bool>,
    queued: Point,
    sent: Point,
}

impl RibSide {
    /// Makes the RIB's side without questions and batches.
    pub fn new(frame: &Frame) -> Self {
        RibSide {
            client: rib::RibClient::new(&frame.router, "rib"),
            questions: RefCell::default(),
            asked: Notify::new(),
            batches: RefCell::default(),
            changed: Notify::new(),
            announced: Notify::new(),
            sessions_changed: Notify::new(),
            stopped: Cell::new(false),
            queued: frame.profile.point("route_queued_rib", "Queued for transmission to the RIB"),
            sent: frame.profile.point("route_sent_rib", "Sent to RIB"),
        }
    }

    /// Queues a question behind earlier questions.
    pub fn ask(&self, question: Question) {
        self.questions.borrow_mut().ask(question);
        self.asked.notify_one();
    }

    /// Passes a question of a table on.
    pub fn ask_about<P: Prefix>(&self, interest: Interest<P>) {
        self.ask(match interest {
            Interest::Register(addr) => Question::Register(addr.into()),
            Interest::Deregister(valid) => Question::Deregister(AnyPrefix::of(valid)),
        });
    }

    /// A table has routes.
    pub fn routes(&self, table: usize, routes: Routes) {
        self.batches.borrow_mut().push_back((table, routes));
        self.changed.notify_one();
    }

    /// Notes a RIB that registered this origin and answers questions.
    pub fn rib_started(&self) {
        self.questions.borrow_mut().rib_started();
    }

    /// Notes the RIB's death: its questions are void.
    pub fn rib_died(&self) {
        self.questions.borrow_mut().rib_died();
    }

    /// Stops sending to the RIB, at the process's end.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Wakes [`refresh`] to check for complete announcements.
    pub fn announced(&self) {
        self.announced.notify_one();
    }

    /// Updates the RIB's note of neighbors for the next process.
    pub fn sessions_changed(&self) {
        self.sessions_changed.notify_one();
    }

    /// Notes an invalidated answer of the RIB for `prefix`.
    pub fn invalidated(&self, prefix: AnyPrefix) {
        self.questions.borrow_mut().invalidated(prefix);
    }
}

/// Sends best routes while the process runs: a batch of a table when the RIB has room.
pub async fn pump(process: Rc<BgpProcess>) {
    let side = &process.rib;
    loop {
        side.changed.notified().await;
        while !side.batches.borrow().is_empty() {
            process.origin.room().await;
            process.handover.awake().await;
            if side.stopped.get() {
                return;
            }
            let Some((table, routes)) = side.batches.borrow_mut().pop_front() else { break };
            let family = routes.family;
            let was_all = family.visit(Send { process: &process, routes: &routes });
            let Some(core) = process.core() else { continue };
            let address = core.post.tables[table].clone();
            address.rib_has_consumers(!process.origin.may_coalesce());
            let delay = process.origin.next_batch_delay(!was_all);
            if delay.is_zero() {
                address.rib_room(family);
            } else {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(delay).await;
                    address.rib_room(family);
                });
            }
            tokio::task::yield_now().await;
        }
        side.announced();
    }
}

/// Notifies a waiting RIB when every route is announced.
pub async fn refresh(process: Rc<BgpProcess>) {
    let side = &process.rib;
    loop {
        side.announced.notified().await;
        if !process.origin.is_refresh_due() || !process.have_all_announced() {
            continue;
        }
        let Some(core) = process.core() else { continue };
        for table in &core.post.tables {
            table.settled().await;
        }
        process.input(Input::Resolved);
        // What tables had is in messages that are read before this one, and is looked for again when it was sent.
        let (reply, read) = oneshot::channel();
        let _ = core.post.main.send(ControlMessage::Read(reply));
        let _ = read.await;
        if !side.batches.borrow().is_empty() || side.stopped.get() {
            continue;
        }
        // All neighbors had their time: where they announced nothing, there is nothing.
        if let Err(error) = process.origin.end_of_refresh(true).await {
            warn!(%error, "the RIB keeps stale BGP routes until their grace time is over");
        }
    }
}

/// Sends a batch to the RIB. Returns true if the table had no more routes for the RIB.
struct Send<'a> {
    process: &'a BgpProcess,
    routes: &'a Routes,
}

impl FamilyVisitor for Send<'_> {
    type Output = bool;

    fn visit<P: Sharded>(self) -> bool {
        let (process, batch) = (self.process, self.routes.of::<P>());
        record(&process.rib.queued, batch);
        record(&process.rib.sent, batch);
        process.origin.send(batch);
        batch.updates.len() < RIB_BATCH
    }
}

fn record<P: Sharded>(point: &Point, batch: &RouteBatch<P>) {
    if point.is_on() {
        for update in &batch.updates {
            // Keys that are no IP prefixes are in no profile.
            let Some(prefix) = update.prefix.as_ip() else { continue };
            point.record(prefix, update.action == RouteAction::Delete, update.provenance);
        }
    }
}

/// Keeps a note at the RIB while the process runs: the neighbors for which the next process should wait.
pub async fn remember(process: Rc<BgpProcess>) {
    // The note of the process before is read first.
    process.origin.kept().await;
    loop {
        process.rib.sessions_changed.notified().await;
        if process.rib.stopped.get() {
            return;
        }
        let neighbors = process.read(Control::neighbors_to_remember);
        neighbors.into_iter().for_each(|neighbors| process.origin.keep_note(session_note::write(&neighbors)));
        tokio::time::sleep(NOTE_PAUSE).await;
    }
}

/// Asks the RIB about next hops while the process runs: every queued question in a call, in order.
pub async fn ask(process: Rc<BgpProcess>, instance: String) {
    let side = &process.rib;
    loop {
        side.asked.notified().await;
        loop {
            // Taken by a statement of its own, so that nothing is borrowed while calls are waited for.
            let request = side.questions.borrow_mut().next_request();
            let Some(request) = request else { break };
            if !request.deregister.is_empty() {
                let request = rib::DeregisterInterestRequest {
                    target: instance.clone(),
                    table: process.frame.table.0,
                    valid: request.deregister.into_iter().map(Into::into).collect(),
                };
                let _ = side.client.deregister_interest(request).await;
            }
            if !request.register.is_empty() {
                register(&process, &instance, &request.register).await;
            }
        }
    }
}

async fn register(process: &Rc<BgpProcess>, instance: &str, addresses: &[Address]) {
    let request = rib::RegisterInterestRequest {
        target: instance.into(),
        table: process.frame.table.0,
        addrs: addresses.iter().copied().map(Into::into).collect(),
        all_origins: false,
    };
    match process.rib.client.register_interest(request).await {
        Ok(reply) => {
            for answer in &reply.answers {
                match input(answer) {
                    Ok(input) => process.input(input),
                    Err(error) => warn!(%error, "the RIB's answer about a next hop makes no sense"),
                }
            }
        }
        // A RIB that died is asked everything again when it is back.
        Err(error) => warn!(%error, "the RIB does not say how next hops are reached"),
    }
    let invalidated = process.rib.questions.borrow_mut().answered();
    for prefix in invalidated {
        process.input(Input::Invalid(prefix));
    }
}

fn input(answer: &rib::Interest) -> Result<Input, ConvertError> {
    let valid = answer.valid.as_ref().ok_or(ConvertError::Missing("valid"))?;
    let valid = AnyPrefix::try_from(valid)?;
    let ipv4 = valid.to().map(|valid| typed(valid, answer).map(Input::AnswerIpv4));
    let ip = ipv4.or_else(|| valid.to().map(|valid| typed(valid, answer).map(Input::AnswerIpv6)));
    let any = ip.or_else(|| valid.to().map(|valid| typed(valid, answer).map(Input::AnswerXid)));
    any.unwrap_or(Err(ConvertError::Missing("an answer of a known family")))
}

fn typed<P: Prefix>(valid: P, answer: &rib::Interest) -> Result<InterestAnswer<P>, ConvertError> {
    if !answer.reachable {
        return Ok(InterestAnswer { valid, route: None });
    }
    let distance = u8::try_from(answer.distance)
        .map_err(|_| ConvertError::Number { what: "distance", value: answer.distance.into() })?;
    let route = ResolvingRoute {
        prefix: convert::prefix::<P>(answer.net.as_ref())?,
        metric: Metric(answer.metric),
        distance: Distance(distance),
        connected: answer.connected,
        forwarding: convert::forwarding(answer.forwarding.as_ref())?,
    };
    Ok(InterestAnswer { valid, route: Some(route) })
}
