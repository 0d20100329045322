//! Talking to the RIB: best routes to it in batches as it takes them, questions about next hops and their answers.

use crate::BgpShell;
use crate::reading::ToMain;
use crate::table::{RIB_BATCH, Routes};
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::prefix::Prefix;
use sluice_base::{Distance, Family, IpPrefix, Metric, RouteAction, RouteBatch, TableId};
use sluice_bgp::speaker::control::Input;
use sluice_shell::{Frame, Point};
use sluice_xrl::convert::{self, ConvertError};
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::routes::PackedPrefix;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::{Notify, oneshot};
use tracing::warn;

/// What the RIB is asked.
pub enum Question {
    /// How is this address reached?
    Register(IpAddr),
    /// The answer for this prefix is of no more use.
    Deregister(IpPrefix),
}

/// This process's dealings with the RIB.
pub struct RibSide {
    client: rib::RibClient,
    questions: RefCell<Vec<Question>>,
    asked: Notify,
    /// Answers that were taken back while a question was under way: its answer may be as old.
    taken_back: RefCell<Vec<IpPrefix>>,
    /// What tables have for the RIB: at most one batch of each family and table, which is asked for more when it is sent, or later
    /// where nobody waits for it.
    batches: RefCell<VecDeque<(usize, Routes)>>,
    changed: Notify,
    /// Whether the RIB waits to hear that everything was announced.
    refresh_due: Cell<bool>,
    told: Notify,
    stopped: Cell<bool>,
    queued: Point,
    sent: Point,
}

impl RibSide {
    /// Nothing asked, nothing announced.
    pub fn new(frame: &Frame) -> Self {
        RibSide {
            client: rib::RibClient::new(&frame.router, "rib"),
            questions: RefCell::default(),
            asked: Notify::new(),
            taken_back: RefCell::default(),
            batches: RefCell::default(),
            changed: Notify::new(),
            refresh_due: Cell::new(false),
            told: Notify::new(),
            stopped: Cell::new(false),
            queued: frame.profile.point("route_queued_rib"),
            sent: frame.profile.point("route_sent_rib"),
        }
    }

    /// Asks, after what was asked before.
    pub fn ask(&self, question: Question) {
        self.questions.borrow_mut().push(question);
        self.asked.notify_one();
    }

    /// A table has routes.
    pub fn routes(&self, table: usize, routes: Routes) {
        self.batches.borrow_mut().push_back((table, routes));
        self.changed.notify_one();
    }

    /// A RIB came to life: when all is announced again, it will be told so.
    pub fn refresh(&self) {
        self.refresh_due.set(true);
        self.look();
    }

    /// The process ends: the RIB is told nothing more.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Something happened that may complete what is announced.
    pub fn look(&self) {
        self.told.notify_one();
    }

    /// An answer holds no longer.
    pub fn take_back(&self, prefix: IpPrefix) {
        self.taken_back.borrow_mut().push(prefix);
    }
}

/// Sends best routes as long as the process lives: a batch of a table when there is room for one.
pub async fn pump(shell: Rc<BgpShell>) {
    let side = &shell.rib;
    loop {
        side.changed.notified().await;
        while !side.batches.borrow().is_empty() {
            shell.origin.room().await;
            shell.handover.awake().await;
            if side.stopped.get() {
                return;
            }
            let Some((table, routes)) = side.batches.borrow_mut().pop_front() else { break };
            let (family, was_all) = match routes {
                Routes::Ipv4(batch) => send(&shell, &batch),
                Routes::Ipv6(batch) => send(&shell, &batch),
            };
            let Some(core) = shell.core() else { continue };
            let address = core.post.tables[table].clone();
            let patience = shell.origin.patience();
            address.rib_is_waited_for(patience.is_zero());
            // While there is much to say, it is gathered anyway.
            if was_all && !patience.is_zero() {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(patience).await;
                    address.rib_room(family);
                });
            } else {
                address.rib_room(family);
            }
            tokio::task::yield_now().await;
        }
        side.look();
    }
}

/// Tells the RIB when everything is announced, if it waits for that.
pub async fn refresh(shell: Rc<BgpShell>) {
    let side = &shell.rib;
    loop {
        side.told.notified().await;
        if !side.refresh_due.get() || !shell.have_all_told() {
            continue;
        }
        let Some(core) = shell.core() else { continue };
        for table in &core.post.tables {
            table.settled().await;
        }
        // What tables had is in letters that are read before this one, and is looked for again when it was sent.
        let (reply, read) = oneshot::channel();
        let _ = core.post.main.send(ToMain::Read(reply));
        let _ = read.await;
        if !side.batches.borrow().is_empty() || side.stopped.get() {
            continue;
        }
        side.refresh_due.set(false);
        // All neighbors had their time: where they announced nothing, there is nothing.
        if let Err(error) = shell.origin.end_of_refresh(true).await {
            warn!(%error, "the RIB keeps stale BGP routes until their grace time is over");
        }
    }
}

/// Sends a batch. Which family it is of, and whether it was all that there was to say.
fn send<P: PackedPrefix>(shell: &BgpShell, batch: &RouteBatch<P>) -> (Family, bool) {
    record(&shell.rib.queued, batch);
    record(&shell.rib.sent, batch);
    shell.origin.send(batch);
    (P::FAMILY, batch.updates.len() < RIB_BATCH)
}

fn record<P: Prefix>(point: &Point, batch: &RouteBatch<P>) {
    if point.is_on() {
        for update in &batch.updates {
            point.record(update.prefix, update.action == RouteAction::Delete, update.provenance);
        }
    }
}

/// Asks the RIB about next hops as long as the process lives: questions in order, as many at a time as there are.
pub async fn ask(shell: Rc<BgpShell>, instance: String) {
    let side = &shell.rib;
    loop {
        side.asked.notified().await;
        loop {
            let questions = side.questions.take();
            if questions.is_empty() {
                break;
            }
            let mut addrs = Vec::new();
            let mut valid = Vec::new();
            for question in questions {
                match question {
                    Question::Register(addr) => addrs.push(addr.into()),
                    Question::Deregister(prefix) => valid.push(prefix.into()),
                }
            }
            // What is deregistered was answered before any of these questions; an address asked about again is asked after.
            if !valid.is_empty() {
                let request = rib::DeregisterInterestRequest {
                    target: instance.clone(),
                    table: TableId::MAIN.0,
                    valid,
                };
                let _ = side.client.deregister_interest(request).await;
            }
            if !addrs.is_empty() {
                register(&shell, &instance, addrs).await;
            }
        }
    }
}

async fn register(shell: &Rc<BgpShell>, instance: &str, addrs: Vec<sluice_xrl::idl::common::v1::Addr>) {
    let request = rib::RegisterInterestRequest {
        target: instance.into(),
        table: TableId::MAIN.0,
        addrs,
        all_origins: false,
    };
    shell.rib.taken_back.borrow_mut().clear();
    match shell.rib.client.register_interest(request).await {
        Ok(reply) => {
            for answer in &reply.answers {
                match input(answer) {
                    Ok(input) => shell.input(input),
                    Err(error) => warn!(%error, "the RIB's answer about a next hop makes no sense"),
                }
            }
            for prefix in shell.rib.taken_back.take() {
                shell.input(Input::Invalid(prefix));
            }
        }
        // A RIB that is gone is asked everything again when it is back.
        Err(error) => warn!(%error, "the RIB does not say how next hops are reached"),
    }
}

fn input(answer: &rib::Interest) -> Result<Input, ConvertError> {
    let valid = answer.valid.as_ref().ok_or(ConvertError::Missing("valid"))?;
    Ok(match IpPrefix::try_from(valid)? {
        IpPrefix::V4(valid) => Input::AnswerIpv4(typed(valid, answer)?),
        IpPrefix::V6(valid) => Input::AnswerIpv6(typed(valid, answer)?),
    })
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
