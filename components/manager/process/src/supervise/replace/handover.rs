//! Hand-overs of components: carries out the core's [`HandOver`] on processes.

use super::error::{ReplaceError, StartError};
use super::{restart, start_again, succession};
use crate::ManagerProcess;
use crate::supervise::principal::{principal, random_secret};
use sluice_manager::handover::{HandOver, Input, Output};
use sluice_manager::{Input as ManagerInput, Phase, Reason};
use sluice_process::{Driver, successor_class};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{LifeEvent, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// The longest wait for an answer: the core's limits are shorter.
const DEADLINE: Duration = Duration::from_secs(20);

/// The manager, which is no component but is named like one.
const MANAGER: &str = "manager";

/// The hand-overs under way, by the component's name.
#[derive(Default)]
pub struct HandOvers(RefCell<BTreeMap<String, Rc<UnderWay>>>);

/// A hand-over under way.
struct UnderWay {
    class: String,
    binary: Option<PathBuf>,
    /// Refuses to lose anything by an older version of the state.
    no_loss: bool,
    driver: Driver<HandOver>,
    task: Cell<Option<AbortHandle>>,
    old: u32,
    new: Cell<u32>,
    began: Instant,
    report: RefCell<pb::RestartReply>,
    outcome: Cell<Option<oneshot::Sender<Result<pb::RestartReply, ReplaceError>>>>,
}

impl HandOvers {
    fn of(&self, class: &str) -> Option<Rc<UnderWay>> {
        self.0.borrow().get(class).cloned()
    }

    /// Returns true if none is under way.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Handles the end of a process. Returns true if the process was part of a replacement.
    pub fn ended(&self, pid: u32, how: &str) -> bool {
        let concerned = self.0.borrow().values().find(|u| pid == u.old || pid == u.new.get()).cloned();
        let Some(under_way) = concerned else { return false };
        under_way.driver.input(match pid == under_way.old {
            true => Input::OldEnded(how.into()),
            false => Input::NewEnded(how.into()),
        });
        true
    }

    /// A component is to end: it is not handed over any more.
    pub fn cancel(&self, class: &str) {
        if let Some(under_way) = self.of(class) {
            under_way.driver.input(Input::Cancel(format!("{class} is to end")));
        }
    }
}

/// Replaces a component's process with a new process of the current executable, or of `binary`; with `no_loss` only if the new process
/// knows the newest version of each part of the state.
pub async fn hand_over(
    process: &Rc<ManagerProcess>,
    class: &str,
    binary: Option<PathBuf>,
    no_loss: bool,
) -> Result<pb::RestartReply, ReplaceError> {
    if class == MANAGER {
        return succession::succeed(process, binary).await;
    }
    let phase = process.driver.read(|m| m.component(class).map(|c| c.phase));
    match phase {
        None => return Err(ReplaceError::Unknown(class.into())),
        Some(Phase::Ready) => {}
        Some(phase) if binary.is_none() && start_again::has_not_come_up(phase) => {
            return start_again::start_again(process, class).await;
        }
        Some(phase) => {
            return Err(ReplaceError::NotRunning { component: class.into(), phase: phase.name() });
        }
    }
    if process.handovers.of(class).is_some() {
        return Err(ReplaceError::UnderWay(class.into()));
    }
    if !restart::hands_over(process, class).await {
        return match binary {
            None => restart::restart(process, class).await,
            Some(_) => Err(ReplaceError::NoHandOver(class.into())),
        };
    }
    let (sender, receiver) = oneshot::channel();
    let old = process.processes.pid(class);
    let under_way = Rc::new_cyclic(|me: &Weak<UnderWay>| {
        let (me, process) = (me.clone(), Rc::downgrade(process));
        let effect = move |output| {
            if let (Some(me), Some(process)) = (me.upgrade(), process.upgrade()) {
                me.carry_out(&process, output);
            }
        };
        UnderWay {
            class: class.into(),
            binary,
            no_loss,
            driver: Driver::new(HandOver::new(), effect),
            task: Cell::default(),
            old,
            new: Cell::new(0),
            began: Instant::now(),
            report: RefCell::default(),
            outcome: Cell::new(Some(sender)),
        }
    });
    process.handovers.0.borrow_mut().insert(class.into(), Rc::clone(&under_way));
    let me = Rc::clone(&under_way);
    let task = tokio::task::spawn_local(async move { me.driver.run().await });
    under_way.task.set(Some(task.abort_handle()));
    under_way.driver.input(Input::Begin);
    receiver.await.unwrap_or(Err(ReplaceError::ManagerEnds))
}

impl UnderWay {
    fn carry_out(self: &Rc<Self>, process: &Rc<ManagerProcess>, output: Output) {
        let (me, process) = (Rc::clone(self), Rc::clone(process));
        match output {
            Output::Start => drop(tokio::task::spawn_local(async move { me.start(process).await })),
            Output::HandOver => drop(tokio::task::spawn_local(async move { me.ask_old(process).await })),
            Output::Release => drop(tokio::task::spawn_local(async move { me.release(process).await })),
            Output::TakeOver => {
                process.processes.promote(&self.class, self.binary.clone());
                tokio::task::spawn_local(async move { me.ask_new(process).await });
            }
            Output::Return => process.processes.demote(&self.class, self.binary.is_some()),
            Output::KillNew => process.processes.kill_pid(self.new.get()),
            Output::KillOld => process.processes.kill_pid(self.old),
            Output::Died(how) => process.driver_later(ManagerInput::Exited(self.class.clone(), how)),
            Output::Done(outcome) => self.done(&process, outcome),
            Output::Over => {
                process.handovers.0.borrow_mut().remove(&self.class);
                if let Some(task) = self.task.take() {
                    task.abort();
                }
            }
        }
    }

    fn done(&self, process: &Rc<ManagerProcess>, outcome: Result<(), Reason>) {
        let class = self.class.clone();
        match &outcome {
            Ok(()) => {
                info!(event = "process.replaced", class, pid = self.new.get(), "replaced");
                self.report.borrow_mut().taken_over_ms = self.took();
                if self.binary.is_some() {
                    process.driver.input(ManagerInput::Upgraded(class.clone()));
                }
                // What was committed meanwhile, and what only the new one understands.
                tokio::task::spawn_local(Rc::clone(process).configure(class));
            }
            Err(reason) => {
                warn!(event = "process.not-replaced", class, reason, "not replaced: the old process goes on")
            }
        }
        if let Some(sender) = self.outcome.take() {
            // Whoever asked may be gone.
            let _ = sender.send(outcome.map(|()| self.report.take()).map_err(ReplaceError::Failed));
        }
    }

    fn took(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    async fn start(&self, process: Rc<ManagerProcess>) {
        if let Err(reason) = self.try_start(&process).await {
            self.driver.input(Input::NewEnded(reason.to_string()));
        }
    }

    async fn try_start(&self, process: &Rc<ManagerProcess>) -> Result<(), StartError> {
        let next = successor_class(&self.class);
        let mut lives = process.router.watch_class(&next).await?;
        let rights = process.model().rights(&self.class);
        let secret = random_secret().map_err(StartError::Secret)?;
        let user = process.processes.confinement.user(&self.class).map_err(StartError::Own)?;
        let mut principal = principal(&self.class, &process.model(), user);
        principal.may_register.push(next.clone());
        process.finder.set_principal(secret, principal);
        let table = process.model().schema.table(&self.class, &process.tree_for(&self.class));
        let child = process.processes.spawn_successor(
            (&self.class, table),
            &rights,
            &secret,
            self.binary.as_deref(),
            self.old,
        );
        let child = child.map_err(|error| {
            process.finder.remove_principal(&secret);
            match &self.binary {
                Some(executable) => StartError::Other { executable: executable.clone(), error },
                None => StartError::Own(error),
            }
        })?;
        self.new.set(child.id().unwrap_or(0));
        {
            let mut report = self.report.borrow_mut();
            (report.old_pid, report.new_pid) = (self.old, self.new.get());
        }
        process.follow(secret, child);
        while let Some(event) = lives.next().await {
            if matches!(event, LifeEvent::Birth(_)) {
                self.report.borrow_mut().started_ms = self.took();
                self.driver.input(Input::Ready);
                break;
            }
        }
        Ok(())
    }

    async fn ask_old(&self, process: Rc<ManagerProcess>) {
        let client = common::ComponentClient::new(&process.router, &self.class).with_deadline(DEADLINE);
        let outcome = client
            .hand_over(common::HandOverRequest { successor: self.new.get(), no_loss: self.no_loss })
            .await;
        let outcome = outcome.map(|reply| {
            let mut report = self.report.borrow_mut();
            (report.octets, report.descriptors) = (reply.octets, reply.descriptors);
            report.losses = reply.losses;
            report.handed_over_ms = self.took();
        });
        self.driver.input(Input::HandedOver(outcome.map_err(reason)));
    }

    async fn release(&self, process: Rc<ManagerProcess>) {
        let client = common::ComponentClient::new(&process.router, &self.class).with_deadline(DEADLINE);
        let outcome = client.release(common::ReleaseRequest {}).await;
        self.driver.input(Input::Released(outcome.map(|_| ()).map_err(reason)));
    }

    async fn ask_new(&self, process: Rc<ManagerProcess>) {
        let next = successor_class(&self.class);
        let client = common::ComponentClient::new(&process.router, &next).with_deadline(DEADLINE);
        let outcome = client.take_over(common::TakeOverRequest {}).await;
        let outcome = outcome.map(|reply| self.report.borrow_mut().version = reply.version);
        self.driver.input(Input::TookOver(outcome.map_err(reason)));
    }
}

/// Returns a component's reason in its own words.
fn reason(error: XrlError) -> String {
    match error {
        XrlError::Application { message, .. } => message,
        other => other.to_string(),
    }
}
