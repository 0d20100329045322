//! Commits: carries out the core's outputs on components, and returns the components' answers to the core.

use crate::ManagerProcess;
use crate::commit::confirm::NOTHING_WAITS;
use crate::commit::lockout;
use crate::commit::refused::{ComponentRefusal, Refusal, Refused, written_or_shown};
use crate::commit::shared::{Effects, Offered, Others, SharedText};
use crate::commit::steps::name;
use crate::commit::store::ToStore;
use crate::configure::editors::{CandidateId, EditError, ToCommit};
use crate::configure::sharing::SharedChange;
use crate::revisions::{Unconfirmed, Via};
use sluice_config::{Comparison, ConfigError, ConfigText, Impact, Tree};
use sluice_manager::End;
use sluice_manager::commit::{Commit, Input, Output, Plan};
use sluice_manager::component::Phase;
use sluice_manager::confirmation;
use sluice_process::part::Change;
use sluice_xrl::XrlError;
use sluice_xrl::idl::common::v1::{self as common, Effect, EffectKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::{info, warn};

/// The longest wait for a component's answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest wait for a component to come up or to end: longer than the supervisor's own limit.
const COMES_UP: Duration = Duration::from_secs(30);
/// Octets of a piece of a change: well below the limit of a call.
const PIECE: usize = 4 << 20;

/// The origin of a configuration to commit. The configuration itself is read only by the holder of the turn to commit:
/// a commit that waited builds on the commits before.
#[derive(Clone, Debug)]
pub enum Source {
    /// The candidate of an editor.
    Editor(u64),
    /// The configuration file.
    File {
        /// True if a file without statements may replace a configuration with statements.
        allow_empty: bool,
    },
    /// A revision.
    Revision(u64),
    /// The revision to run again because a newer revision was not confirmed in time.
    Unconfirmed(Unconfirmed),
    /// The shared part that was decided for all elements, beside the local part of this one.
    Shared(SharedText),
}

/// A requested commit.
pub struct CommitRequest {
    /// The origin of the configuration.
    pub source: Source,
    /// The purpose, as the log of revisions shows it.
    pub comment: String,
    /// The time within which the commit must be confirmed; absent: no confirmation is needed.
    pub confirm_within: Option<Duration>,
    /// True if the commit confirms the commit that waits for its confirmation.
    pub confirms: bool,
}

/// A configuration that is to run. Lives no longer than the turn to commit.
pub struct Request {
    /// The configuration.
    pub after: Tree,
    /// The author.
    pub user: String,
    /// The comment.
    pub comment: String,
    /// The origin of the commit.
    pub via: Via,
    /// The time within which the commit must be confirmed; absent: no confirmation is needed.
    pub confirm_within: Option<Duration>,
    /// True if the commit confirms the commit that waits for its confirmation.
    pub confirms: bool,
    /// The configuration file's text, if the configuration comes from the file.
    pub of_file: Option<String>,
    /// The text that the configuration was read from, for the places of errors; absent if the configuration was edited.
    pub written: Option<Rc<ConfigText>>,
    /// The number of the candidate.
    pub candidate: Option<CandidateId>,
}

/// The result of a commit, or of its check.
#[derive(Debug)]
pub struct Done {
    /// The revision that runs.
    pub revision: u64,
    /// The effects by component.
    pub effects: BTreeMap<String, Vec<Effect>>,
    /// The number of statements that differ.
    pub changes: usize,
    /// The duration.
    pub took: Duration,
    /// The answers of the other elements.
    pub others: Others,
    /// The number of the configuration of all elements that was confirmed.
    pub confirmed: Option<u64>,
}

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

/// The foreseen effects of a commit.
pub(super) struct Foreseen {
    /// The number of changed statements.
    changes: usize,
    /// The effects by component.
    pub(super) effects: BTreeMap<String, Vec<Effect>>,
    /// The answers of the other elements.
    others: Others,
}

/// A change of the whole router, and the components with a share in the change.
pub(super) struct Shares {
    plan: Plan,
    /// Stopped components: the change is delivered when the component starts.
    absent: Vec<String>,
    /// Components that end with the commit.
    gone: Vec<String>,
}

impl ManagerProcess {
    /// Returns the effects and the dangers of committing an editor's candidate. Changes nothing.
    pub async fn check_editor(self: &Rc<Self>, id: u64) -> Result<(Done, Vec<String>), EditError> {
        let me = Rc::clone(self);
        to_the_end(async move { me.check_now(id).await }).await
    }

    /// Makes a configuration the running configuration, everywhere or nowhere. A commit under way runs to its end, even
    /// if the requester disconnects.
    pub async fn commit(self: &Rc<Self>, request: CommitRequest) -> Result<Done, EditError> {
        let me = Rc::clone(self);
        to_the_end(async move {
            let _turn = me.turn.lock().await;
            let request = me.resolve(request).await?;
            Ok(me.commit_now(request).await?)
        })
        .await
    }

    async fn check_now(self: &Rc<Self>, id: u64) -> Result<(Done, Vec<String>), EditError> {
        let _turn = self.turn.lock().await;
        let started = Instant::now();
        let ToCommit { tree: after, written, .. } = self.to_commit(id)?;
        let shared = self.shared_change(&after)?;
        let Foreseen { changes, effects, others } = self.effects(&after, written.as_deref(), shared).await?;
        let mut warnings = self.warnings(id, &after, written.as_deref(), Some(&effects)).await?;
        warnings.extend(self.refusal_while_waiting(&after, changes > 0));
        let revision = self.running.borrow().revision;
        Ok((Done { revision, effects, changes, took: started.elapsed(), others, confirmed: None }, warnings))
    }

    /// Returns the effects of a commit. Changes nothing.
    pub(super) async fn effects(
        self: &Rc<Self>,
        after: &Tree,
        written: Option<&ConfigText>,
        shared: Option<SharedChange>,
    ) -> Result<Foreseen, Refusal> {
        let (comparison, mut shares) = self.compare(after, written)?;
        shares.plan.is_shared = shared.is_some();
        let carried = self.carry_through(shares.plan.clone(), after.clone(), shared, None).await;
        let (mut effects, others) = carried.map_err(|refused| self.placed(refused, after, written))?;
        self.add_own(&shares, &mut effects);
        Ok(Foreseen { changes: comparison.len(), effects, others })
    }

    /// Returns the dangers of a change for the connection of the editor. Where a protocol brought the route to the operator the effects
    /// count, and are asked for if they are not `known`.
    async fn warnings(
        self: &Rc<Self>,
        id: u64,
        after: &Tree,
        written: Option<&ConfigText>,
        known: Option<&BTreeMap<String, Vec<Effect>>>,
    ) -> Result<Vec<String>, Refusal> {
        let Some(connection) = self.connection(id) else { return Ok(Vec::new()) };
        let (model, before) = (self.model(), self.running_tree());
        let schema = &model.schema;
        let mut found = lockout::warnings(schema, &before, after, &connection);
        if connection.is_by_protocol(schema, &before) {
            let asked = match known {
                Some(_) => BTreeMap::new(),
                None => self.effects(after, written, None).await?.effects,
            };
            found.extend(lockout::of_effects(schema, &before, known.unwrap_or(&asked), &connection));
        }
        Ok(found)
    }

    /// Reads the configuration of a commit whose turn it is.
    async fn resolve(self: &Rc<Self>, request: CommitRequest) -> Result<Request, EditError> {
        let CommitRequest { source, comment, confirm_within, confirms } = request;
        let own = |after, via| Request {
            after,
            user: "sluice".into(),
            comment: comment.clone(),
            via,
            confirm_within,
            confirms,
            of_file: None,
            written: None,
            candidate: None,
        };
        let is_unconfirmed = matches!(source, Source::Unconfirmed(_));
        match source {
            Source::Editor(id) => {
                let ToCommit { tree: after, candidate, written, user } = self.to_commit(id)?;
                if confirm_within.is_none() {
                    let warnings = self.warnings(id, &after, written.as_deref(), None).await?;
                    if !warnings.is_empty() {
                        return Err(EditError::NeedsConfirmation(warnings.join("; ")));
                    }
                }
                Ok(Request { user, written, candidate: Some(candidate), ..own(after, Via::Commit) })
            }
            Source::File { allow_empty } => {
                // A copy that is being written is not somebody's change.
                self.copies.settled().await;
                let file = &self.options.source.file;
                let shown = file.display().to_string();
                let text = std::fs::read_to_string(file)
                    .map_err(|e| EditError::Failed(format!("cannot read {shown}: {e}")))?;
                let read = self.model().read(&shown, &text);
                let after =
                    read.map_err(|errors| EditError::InvalidFile(Box::new(errors.without_lines())))?;
                if !allow_empty && self.running_tree().is_emptied_by(&after) {
                    return Err(EditError::Emptied { text: shown, how: "`sluice reload allow-empty`" });
                }
                let written = Some(Rc::new(ConfigText { file: shown, text: text.clone() }));
                Ok(Request { of_file: Some(text), written, ..own(after, Via::File) })
            }
            Source::Unconfirmed(open) if !self.is_unconfirmed(open.revision) => {
                Err(EditError::Failed("it was confirmed meanwhile".into()))
            }
            Source::Unconfirmed(Unconfirmed { back_to: back, .. }) | Source::Revision(back) => {
                let read = self.revisions.borrow().read(back);
                let (_, text) = read.map_err(|e| EditError::Failed(e.to_string()))?;
                let after = self.model().schema.read(&format!("revision {back}"), &text);
                let after = after.map_err(ConfigError::without_line)?;
                let after = if is_unconfirmed { self.with_decided_part(after) } else { after };
                Ok(own(after, Via::Rollback))
            }
            Source::Shared(shared) => {
                let after = self.model().with_shared_text(&self.running_tree(), &shared.text)?;
                Ok(Request { user: shared.user, ..own(after, Via::Shared) })
            }
        }
    }

    async fn commit_now(self: &Rc<Self>, request: Request) -> Result<Done, Refusal> {
        let started = Instant::now();
        let written = request.written.as_deref();
        let (comparison, mut shares) = self.compare(&request.after, written)?;
        let shared = self.shared_part_of(&request)?;
        shares.plan.is_shared = shared.is_some();
        let waiting = self.effect_on_waiting(&request, !comparison.is_empty())?;
        if comparison.is_empty() || request.confirm_within.is_some() {
            self.store_what_runs().await.map_err(|error| Refusal::Failed(error.to_string()))?;
        }
        if comparison.is_empty() {
            if waiting == Some(confirmation::Effect::Confirms) {
                self.confirm();
            }
            let confirmed = self.confirm_shared(&request).await?;
            if request.confirms && waiting.is_none() && confirmed.is_none() {
                return Err(Refusal::Failed(NOTHING_WAITS.into()));
            }
            self.degraded.refused.take();
            let revision = self.running.borrow().revision;
            self.note_file(&request, revision).await;
            return Ok(Done {
                revision,
                effects: BTreeMap::new(),
                changes: 0,
                took: started.elapsed(),
                others: Others::default(),
                confirmed,
            });
        }
        let after = request.after.clone();
        let to_store = ToStore { request: &request, comparison: &comparison, is_shared: shared.is_some() };
        let carried = self.carry_through(shares.plan.clone(), after, shared, Some(to_store)).await;
        let (mut effects, others) = carried.map_err(|refused| {
            let reason = &refused.reason;
            warn!(event = "config.refused", user = request.user, reason, "a commit was refused");
            self.placed(refused, &request.after, written)
        })?;
        self.add_own(&shares, &mut effects);
        if !shares.gone.is_empty() {
            self.want();
        }
        if request.via == Via::Rollback {
            self.compare_with_decided();
        }
        let plan = &shares.plan;
        for class in plan.changed.iter().chain(&plan.restarted).chain(&shares.absent) {
            // What it died of may be mended with this.
            self.driver.input(sluice_manager::Input::ResetBackoff(class.clone()));
        }
        for class in shares.absent {
            if self.phase(&class).is_some_and(Phase::has_process) {
                Rc::clone(self).configure(class).await;
            }
        }
        let revision = self.running.borrow().revision;
        let took = started.elapsed();
        info!(
            event = "config.commit",
            revision,
            user = request.user,
            comment = request.comment,
            via = request.via.name(),
            changes = comparison.len(),
            took_ms = took.as_millis() as u64,
            "configuration committed"
        );
        Ok(Done { revision, effects, changes: comparison.len(), took, others, confirmed: None })
    }

    pub(super) fn compare(
        &self,
        after: &Tree,
        written: Option<&ConfigText>,
    ) -> Result<(Comparison, Shares), Refusal> {
        let before = self.running.borrow().tree.clone();
        let model = self.model();
        let schema = &model.schema;
        schema.validate(Some(&before), after).map_err(|e| Refusal::Invalid(Box::new(e)))?;
        let named = model.check_ports(Some(&before), after, || written_or_shown(schema, after, written));
        named.map_err(|e| Refusal::Invalid(Box::new(e)))?;
        let comparison = schema.compare(&before, after);
        let (ran, runs) = (self.model().classes(&before), self.model().classes(after));
        // The statements of components that run on other elements are checked here too.
        for class in schema.configured(after).iter().filter(|class| !runs.contains(class)) {
            let checked = model.check(class, after, || written_or_shown(schema, after, written));
            checked.map_err(|e| Refusal::Invalid(Box::new(e)))?;
        }
        let mut shares = Shares { plan: Plan::default(), absent: Vec::new(), gone: Vec::new() };
        shares.gone.extend(ran.iter().filter(|class| !runs.contains(class)).cloned());
        for class in runs {
            let cost = schema.cost(&class, &before, after);
            // A component that does not run cannot be asked.
            let check = || {
                let written = || written_or_shown(schema, after, written);
                model.check(&class, after, written).map_err(|e| Refusal::Invalid(Box::new(e)))
            };
            if !ran.contains(&class) {
                check()?;
                shares.plan.started.push(class);
            } else if cost.is_none() && self.model().change(&class, Some(&before), after).is_none() {
                // It has no share.
            } else if self.phase(&class) != Some(Phase::Ready) {
                check()?;
                shares.absent.push(class);
            } else if cost == Some(Impact::Restart) {
                shares.plan.restarted.push(class);
            } else {
                shares.plan.changed.push(class);
            }
        }
        Ok((comparison, shares))
    }

    /// Adds the effects that the manager itself has on processes.
    fn add_own(&self, shares: &Shares, effects: &mut BTreeMap<String, Vec<Effect>>) {
        let kinds = [(&shares.plan.started, EffectKind::Started), (&shares.gone, EffectKind::Stopped)];
        for (classes, kind) in kinds {
            for class in classes {
                let effect = Effect { kind: kind.into(), subjects: vec![class.clone()] };
                effects.entry(class.clone()).or_default().push(effect);
            }
        }
        for class in &shares.plan.restarted {
            let told = effects.entry(class.clone()).or_default();
            if !told.iter().any(|e| e.kind() == EffectKind::ProcessRestart) {
                told.push(Effect { kind: EffectKind::ProcessRestart.into(), subjects: vec![class.clone()] });
            }
        }
    }

    /// Carries out the core's outputs until the transaction is over. With nothing to store, no component applies
    /// anything.
    async fn carry_through(
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
                // Who dies from here on hears when it is stored what holds: its death does not undo the commit any more.
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
                        self.tell_commit(Input::Decided(decided));
                    }
                    (Output::Store, Some(to_store)) => {
                        let stored = self.store(to_store).await;
                        storing.take();
                        self.tell_commit(Input::Stored(stored.map_err(|error| error.to_string())));
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
    pub fn tell_commit(&self, input: Input<Effect>) {
        if let Some(under_way) = self.under_way.borrow().as_ref() {
            let _over_meanwhile = under_way.inputs.send(input);
        }
    }

    /// The configuration with which a component that starts now is to run.
    pub fn tree_for(&self, class: &str) -> Tree {
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
                    // Who does not hear it has nothing of it left, or prepares the next one in its place.
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
                    tokio::task::yield_now().await; // the supervisor hears first that it is not wanted
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
    pub async fn configure_whole(&self, class: &str) -> Result<(), XrlError> {
        // Whether the new or the old one holds is not known while it is stored.
        drop(self.storing.lock().await);
        let change = self.model().change(class, None, &self.tree_for(class)).unwrap_or_default();
        self.transactions.set(self.transactions.get() + 1);
        let number = self.transactions.get();
        self.prepare(class, number, &change).await?;
        self.apply(class, number).await
    }
}

/// Continues even if the caller stops waiting: a broken editor connection cancels its calls.
async fn to_the_end<T: 'static>(
    work: impl Future<Output = Result<T, EditError>> + 'static,
) -> Result<T, EditError> {
    let done = tokio::task::spawn_local(work).await;
    done.unwrap_or_else(|_| Err(Refusal::Failed("it came to no end".into()).into()))
}

/// Returns a component's message, without the transport's words.
pub(super) fn words(error: &XrlError) -> String {
    match error {
        XrlError::Application { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
