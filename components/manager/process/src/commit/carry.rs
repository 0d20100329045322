//! A commit under way: carries out the outputs of the core on components, and returns the answers of the components to the core.

use crate::ManagerProcess;
use crate::commit::refused::{ComponentRefusal, Refused, words};
use crate::commit::shared::{Effects, Offered};
use crate::commit::steps::name;
use crate::commit::store::ToStore;
use crate::configure::sharing::SharedChange;
use sluice_config::Tree;
use sluice_manager::End;
use sluice_manager::commit::{Commit, Input, Output, Plan};
use sluice_manager::component::Phase;
use sluice_process::part::Change;
use sluice_xrl::XrlError;
use sluice_xrl::idl::common::v1::{self as common, Effect};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::warn;

/// The longest wait for a component's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The longest wait for a component to come up or to end: longer than the supervisor's own limit.
const COMES_UP: Duration = Duration::from_secs(30);

/// Octets of a piece of a change: well below the limit of a call.
const PIECE: usize = 4 << 20;

/// The commit that is under way.
pub struct UnderWay {
    commit: Commit<Effect>,
    number: u64,
    before: Tree,
    after: Tree,
    inputs: UnboundedSender<Input<Effect>>,
    /// The first component that refused its share.
    refused: Option<ComponentRefusal>,
    /// The shared part of the change, and the answer of the other elements.
    pub(super) shared: Option<Offered>,
    /// True if the store does not say whether the change is decided.
    pub(super) is_open: bool,
}

impl ManagerProcess {
    /// Carries out the core's outputs until the transaction is over. With nothing to store, no component applies
    /// anything.
    pub(super) async fn carry_through(
        self: &Rc<Self>,
        plan: Plan,
        after: Tree,
        shared: Option<SharedChange>,
        to_store: Option<ToStore<'_>>,
    ) -> Result<Effects, Refused> {
        let (inputs, mut answers) = unbounded_channel();
        let mut out = Vec::new();
        let commit = Commit::begin(plan, to_store.is_none(), &mut out);
        let before = self.running.borrow().tree.clone();
        self.transactions.set(self.transactions.get() + 1);
        let number = self.transactions.get();
        let shared = shared.map(Offered::new);
        let inputs = inputs.clone();
        let under_way =
            UnderWay { commit, number, before, after, inputs, refused: None, shared, is_open: false };
        self.under_way.replace(Some(under_way));
        let (mut outcome, mut storing) = (None, None);
        while outcome.is_none() {
            for output in std::mem::take(&mut out) {
                // A component that dies from here on receives the decision when it is stored: its death does not undo the commit any more.
                if matches!(output, Output::Decide | Output::Store) && storing.is_none() {
                    storing = Some(self.storing.lock().await);
                }
                self.stepping.reached(&name(&output)).await;
                match (output, &to_store) {
                    (Output::Done(done), _) => outcome = Some(done),
                    // Others are served meanwhile.
                    (Output::Decide, Some(to_store)) => {
                        let decided = self.decide(to_store.request).await;
                        if decided.is_err() {
                            storing.take();
                        }
                        self.notify_commit(Input::Decided(decided));
                    }
                    (Output::Store, Some(to_store)) => {
                        let stored = self.store(to_store).await;
                        storing.take();
                        self.notify_commit(Input::Stored(stored.map_err(|error| error.to_string())));
                    }
                    (output, _) => self.do_for_commit(output),
                }
            }
            if outcome.is_none()
                && let Some(answer) = answers.recv().await
                && let Some(under_way) = self.under_way.borrow_mut().as_mut()
            {
                if let Input::Prepared(component, Err(reason)) = &answer {
                    let refused = ComponentRefusal { component: component.clone(), reason: reason.clone() };
                    under_way.refused.get_or_insert(refused);
                }
                under_way.commit.handle(answer, &mut out);
            }
        }
        let under_way = self.under_way.take();
        let is_open = under_way.as_ref().is_some_and(|under_way| under_way.is_open);
        let (by, shared) =
            under_way.map(|under_way| (under_way.refused, under_way.shared)).unwrap_or_default();
        let outcome = outcome.unwrap_or_else(|| Err("it came to no end".into()));
        let others = shared.map(|shared| shared.others).unwrap_or_default();
        outcome.map(|effects| (effects, others)).map_err(|reason| Refused { reason, by, is_open })
    }

    /// Something happened that the commit under way may wait for.
    pub(crate) fn notify_commit(&self, input: Input<Effect>) {
        if let Some(under_way) = self.under_way.borrow().as_ref() {
            let _over_meanwhile = under_way.inputs.send(input);
        }
    }

    /// The configuration with which a component that starts now is to run.
    pub(crate) fn tree_for(&self, class: &str) -> Tree {
        let under_way = self.under_way.borrow();
        let new = under_way.as_ref().filter(|u| u.commit.takes_new(class)).map(|u| u.after.clone());
        new.unwrap_or_else(|| self.running.borrow().tree.clone())
    }

    fn do_for_commit(self: &Rc<Self>, output: Output<Effect>) {
        let under_way = self.under_way.borrow();
        let Some(UnderWay { commit, number, before, after, inputs, .. }) = under_way.as_ref() else { return };
        let (me, number, inputs) = (Rc::clone(self), *number, inputs.clone());
        match output {
            Output::Prepare(class) => {
                let change = self.model().change(&class, Some(before), after).unwrap_or_default();
                tokio::task::spawn_local(async move {
                    let answer = me.prepare(&class, number, &change).await.map_err(|e| words(&e));
                    let _over_meanwhile = inputs.send(Input::Prepared(class, answer));
                });
            }
            Output::Apply(class) => {
                tokio::task::spawn_local(async move {
                    let answer = me.apply(&class, number).await.map_err(|e| words(&e));
                    let _over_meanwhile = inputs.send(Input::Applied(class, answer));
                });
            }
            Output::Abandon(class) => {
                tokio::task::spawn_local(async move {
                    // A component that does not receive it has nothing of it left, or prepares the next one in its place.
                    let _ = me.client(&class).abandon(common::AbandonRequest { transaction: number }).await;
                });
            }
            Output::Restore(class) => {
                tokio::task::spawn_local(async move {
                    if let Err(error) = me.configure_whole(&class).await {
                        warn!(class, %error, "does not take back what ran before; it is started anew with that");
                        me.processes.kill(&class);
                    }
                    let _over_meanwhile = inputs.send(Input::Restored(class));
                });
            }
            Output::Restart(class) => {
                // Into another table: what it announced into the old one goes with it.
                let model = self.model();
                let schema = &model.schema;
                let end = match schema.table(&class, before) == schema.table(&class, after) {
                    true => End::ForNow,
                    false => End::ForGood,
                };
                self.driver_later(sluice_manager::Input::Restart(class.clone(), end));
                self.guard(inputs, class);
            }
            Output::Start(class) => {
                // Of the new ones those whose turn came: who starts early would start with what ran before.
                let mut classes = self.model().classes(before);
                let new = self.model().classes(after).into_iter().filter(|class| commit.takes_new(class));
                classes.extend(new.filter(|class| !classes.contains(class)).collect::<Vec<_>>());
                self.want_later(classes);
                self.guard(inputs, class);
            }
            Output::Stop(class) => {
                self.want_later(self.model().classes(before));
                self.guard(inputs.clone(), class.clone());
                tokio::task::spawn_local(async move {
                    tokio::task::yield_now().await; // the supervisor is notified first that it is not wanted
                    if me.phase(&class).is_none_or(|phase| phase == Phase::Stopped) {
                        let _over_meanwhile = inputs.send(Input::Restored(class));
                    }
                });
            }
            Output::Offer => self.offer(inputs),
            Output::Decide | Output::Store | Output::Done(_) => {}
        }
    }

    /// Waits for a component at most so long.
    fn guard(&self, inputs: UnboundedSender<Input<Effect>>, class: String) {
        tokio::task::spawn_local(async move {
            tokio::time::sleep(COMES_UP).await;
            let reason = format!("it was not there after {} s", COMES_UP.as_secs());
            let _over_meanwhile = inputs.send(Input::Failed(class, reason));
        });
    }

    fn client(&self, class: &str) -> common::ComponentClient {
        common::ComponentClient::new(&self.router, class).with_deadline(ANSWER)
    }

    async fn prepare(&self, class: &str, number: u64, change: &Change) -> Result<Vec<Effect>, XrlError> {
        let mut pieces = change.in_pieces(PIECE).into_iter().peekable();
        let client = self.client(class);
        let mut effects = Vec::new();
        while let Some(change) = pieces.next() {
            let more = pieces.peek().is_some();
            let request = common::PrepareRequest { transaction: number, change, more };
            effects = client.prepare(request).await?.effects;
        }
        Ok(effects)
    }

    async fn apply(&self, class: &str, number: u64) -> Result<(), XrlError> {
        self.client(class).apply(common::ApplyRequest { transaction: number }).await.map(|_| ())
    }

    /// Sends a component its whole configuration, regardless of the component's current configuration.
    pub(crate) async fn configure_whole(&self, class: &str) -> Result<(), XrlError> {
        // A commit that ends while a component starts sends the new configuration: the old one must not arrive behind it.
        let turn = Rc::clone(self.configuring.borrow_mut().entry(class.to_owned()).or_default());
        let _turn = turn.lock().await;
        // Whether the new or the old one holds is not known while it is stored.
        drop(self.storing.lock().await);
        let change = self.model().change(class, None, &self.tree_for(class)).unwrap_or_default();
        self.transactions.set(self.transactions.get() + 1);
        let number = self.transactions.get();
        self.prepare(class, number, &change).await?;
        self.apply(class, number).await
    }
}
