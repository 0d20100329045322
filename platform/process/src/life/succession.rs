//! Both ends of a hand-over, inside a process. The router manager decides when; the reactions to silence or an end are
//! decided here, so that a hand-over does not depend on the manager either:
//!
//! * A process that ends closes the socket between both: the predecessor resumes as soon as its successor has ended, at
//!   any step.
//! * The predecessor ends a successor that is too slow.
//! * A successor that is not asked in time to take over exits.

use super::Life;
use crate::component::{Component, Prepared};
use crate::handover::{CONFIGURATION, HandOverError, Sink, Source, StatePart, Waiting};
use crate::part::{Part, Planned};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sluice_xrl::idl::common::v1::{HandOverReply, Readiness};
use sluice_xrl::{Target, TargetHandle, XrlError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

/// The environment variable that makes a process a successor: the process number of the predecessor.
pub const PREDECESSOR: &str = "SLUICE_PREDECESSOR";

/// The longest time for a component to come to rest and hand over its state: far below the hold times of neighbors.
const HAND_OVER: Duration = Duration::from_secs(10);
/// The longest wait for the next step of the other process or the manager.
const NEXT_STEP: Duration = Duration::from_secs(10);
/// The longest wait for the name to be free.
const NAME: Duration = Duration::from_secs(3);
/// Between two looks whether it is.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Returns the class of the successor of the component `name` until the takeover.
pub fn successor_class(name: &str) -> String {
    format!("{name}:next")
}

/// The stage of a hand-over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// There is none.
    #[default]
    None,
    /// The process hands over.
    Giving,
    /// The process has handed over and still has its name.
    Given,
    /// The process has given up its name.
    Released,
    /// The process has its predecessor's state.
    Taken,
}

/// A process's part in a hand-over.
#[derive(Default)]
pub(crate) struct Succession {
    stage: Cell<Stage>,
    /// The way from the predecessor, until this process has taken over.
    source: RefCell<Option<Source>>,
    /// Its name as a successor.
    name: Cell<Option<TargetHandle>>,
}

impl Succession {
    /// Returns true while a hand-over is in progress and nothing may change.
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage.get() != Stage::None
    }
}

/// Returns the parts of a component's state.
fn parts<C: Component>() -> Vec<&'static StatePart> {
    std::iter::once(&CONFIGURATION).chain(C::PARTS).collect()
}

impl<C: Component> Life<C> {
    /// Hands over to the process `successor`, with `no_loss` only if nothing is lost by older versions of the state.
    pub(crate) async fn hand_over_to(
        &self,
        successor: u32,
        no_loss: bool,
    ) -> Result<HandOverReply, XrlError> {
        let ready = self.readiness.get() == Readiness::Ready;
        if !ready || self.succession.stage.get() != Stage::None {
            return Err(XrlError::application(1, "it is not ready, or hands over already"));
        }
        self.succession.stage.set(Stage::Giving);
        let late = |_| HandOverError::component(format!("it took more than {} s", HAND_OVER.as_secs()));
        let outcome = timeout(HAND_OVER, self.give(successor, no_loss)).await.map_err(late).flatten();
        match outcome {
            Ok(sink) => {
                let (octets, descriptors) = sink.sent();
                let reply = HandOverReply { octets, descriptors, losses: sink.losses().to_vec() };
                self.succession.stage.set(Stage::Given);
                if let Some(me) = self.me.upgrade() {
                    tokio::task::spawn_local(me.follow(sink, successor));
                }
                Ok(reply)
            }
            Err(error) => {
                warn!(event = "handover.failed", %error, "not handed over: this process goes on");
                Rc::clone(&self.component).resume(None).await;
                self.succession.stage.set(Stage::None);
                Err(XrlError::application(1, error.to_string()))
            }
        }
    }

    async fn give(&self, successor: u32, no_loss: bool) -> Result<Sink, HandOverError> {
        let mut sink = Sink::connect(&self.sockets, successor, &self.name, C::STATE, &parts::<C>()).await?;
        if no_loss && !sink.losses().is_empty() {
            return Err(HandOverError::Loss(sink.losses().join("; ")));
        }
        for loss in sink.losses() {
            warn!(event = "handover.loss", successor, loss, "the new process knows an older state: {loss}");
        }
        match self.give_all(&mut sink).await {
            Ok(()) => Ok(sink),
            Err(error) => Err(sink.explain(error).await),
        }
    }

    async fn give_all(&self, sink: &mut Sink) -> Result<(), HandOverError> {
        let part = serde_json::to_string(&self.part.borrow().as_change())
            .map_err(|e| HandOverError::Value(e.to_string()))?;
        // In pieces, however long a configuration is.
        let pieces: Vec<&[u8]> = part.as_bytes().chunks(crate::handover::MOST_OCTETS / 2).collect();
        sink.begin(&CONFIGURATION).await?;
        sink.put(&pieces.len()).await?;
        for piece in pieces {
            sink.put(&piece).await?;
        }
        Rc::clone(&self.component).hand_over(sink).await?;
        sink.finish().await
    }

    /// Waits until the successor has taken over, and ends; or until it is gone, and goes on.
    async fn follow(self: Rc<Self>, sink: Sink, successor: u32) {
        let taken_over = sink.taken_over();
        tokio::pin!(taken_over);
        let is_taken_over = tokio::select! {
            outcome = &mut taken_over => outcome,
            () = sleep(NEXT_STEP) => {
                // Once it was allowed to take over, it is the successor who knows what is.
                if self.succession.stage.get() == Stage::Given {
                    warn!(event = "handover.stalled", successor, "nobody goes on with the hand-over: the new process is ended");
                    if let Ok(pid) = i32::try_from(successor) {
                        // It may have ended meanwhile.
                        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                    }
                }
                taken_over.await
            }
        };
        if is_taken_over {
            info!(event = "handover.given", successor, "handed over");
            // Without a word to anybody: what is open is the successor's now.
            std::process::exit(0);
        }
        let released = self.succession.stage.get() == Stage::Released;
        warn!(event = "handover.undone", successor, "the new process is gone: this one goes on");
        let instance = if released { Some(self.take_name_back().await) } else { None };
        Rc::clone(&self.component).resume(instance).await;
        self.readiness.set(Readiness::Ready);
        self.succession.stage.set(Stage::None);
    }

    async fn take_name_back(self: &Rc<Self>) -> String {
        loop {
            match self.register().await {
                Ok(instance) => return instance,
                Err(error) => {
                    error!(event = "handover.no-name", %error, "could not register again; this is tried until it succeeds");
                    sleep(LOOK_AGAIN).await;
                }
            }
        }
    }

    /// Gives up the process's name, so that the successor can have the name.
    pub(crate) fn give_name_up(&self) -> Result<(), XrlError> {
        if self.succession.stage.get() != Stage::Given {
            return Err(XrlError::application(1, "nothing was handed over, or the new process is gone"));
        }
        self.succession.stage.set(Stage::Released);
        self.readiness.set(Readiness::Draining);
        drop(self.registered.take());
        Ok(())
    }

    /// Takes over the state of the process `predecessor`. On return the current process holds the whole state. Exits on
    /// failure: the state is still the predecessor's, and must not be closed in order.
    pub(crate) async fn succeed(self: &Rc<Self>, predecessor: u32) -> anyhow::Result<()> {
        let waiting = Waiting::new(&self.sockets, predecessor)?;
        let target = Target::new(&successor_class(&self.name), self.common_services().into()).singleton();
        self.succession.name.set(Some(self.router.register(target).await?));
        match timeout(HAND_OVER + NEXT_STEP, self.take_in(waiting)).await {
            Ok(Ok(source)) => {
                self.succession.source.replace(Some(source));
                self.succession.stage.set(Stage::Taken);
            }
            Ok(Err(error)) => {
                error!(event = "handover.refused", %error, "cannot take over");
                std::process::exit(1);
            }
            Err(_) => {
                error!(event = "handover.refused", "nothing was handed over in time");
                std::process::exit(1);
            }
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            sleep(NEXT_STEP).await;
            if me.succession.stage.get() == Stage::Taken {
                error!(event = "handover.refused", "it was not asked in time to take over");
                std::process::exit(1);
            }
        });
        Ok(())
    }

    async fn take_in(&self, waiting: Waiting) -> Result<Source, HandOverError> {
        let mut source = waiting.accept(&self.name, C::STATE, &parts::<C>()).await?;
        let outcome = self.take_state(&mut source).await;
        match &outcome {
            Ok(()) => source.answer(Ok(())).await?,
            Err(error) => source.answer(Err(&error.to_string())).await?,
        }
        outcome.map(|()| source)
    }

    async fn take_state(&self, source: &mut Source) -> Result<(), HandOverError> {
        source.begin(&CONFIGURATION).await?;
        let mut text = Vec::new();
        for _ in 0..source.take::<usize>().await? {
            text.extend(source.take::<Vec<u8>>().await?);
        }
        let change = serde_json::from_slice(&text).map_err(|e| HandOverError::Value(e.to_string()))?;
        let planned = Planned { part: &Part::default(), change: &change };
        let Prepared { settings, .. } = self.component.prepare(&planned).map_err(HandOverError::component)?;
        Rc::clone(&self.component).take_over(settings, source).await?;
        self.part.borrow_mut().apply(change);
        source.finish().await
    }

    /// The predecessor has let go: this process is the component from now on.
    pub(crate) async fn take_over_now(&self) -> Result<(), XrlError> {
        let me = self.me.upgrade().filter(|_| self.succession.stage.get() == Stage::Taken);
        let me = me.ok_or_else(|| XrlError::application(1, "it has nothing to take over"))?;
        let registered = async {
            loop {
                match me.register().await {
                    // The Finder does not know yet that the name is free.
                    Err(XrlError::NameTaken(_)) => sleep(LOOK_AGAIN).await,
                    other => return other,
                }
            }
        };
        let late = |_| XrlError::application(1, "the name is not free");
        let instance = timeout(NAME, registered).await.map_err(late)??;
        self.succession.stage.set(Stage::None);
        self.readiness.set(Readiness::Ready);
        drop(self.succession.name.take());
        Rc::clone(&self.component).registered(instance).await;
        let source = self.succession.source.take();
        if let Some(source) = source
            && let Err(error) = source.done().await
        {
            info!(event = "handover.alone", %error, "the process before this one is gone already");
        }
        info!(event = "handover.taken", name = self.name, "taken over");
        Ok(())
    }
}
