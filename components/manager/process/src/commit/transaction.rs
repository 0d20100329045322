//! Commits: what a configuration changes, and the turn to commit.

use super::editing::{EditError, ToCommit};
use crate::ManagerProcess;
use crate::commit::lockout;
use crate::commit::refused::{NOTHING_WAITS, Refusal, written_or_shown};
use crate::commit::request::{CommitRequest, Done, Others, Request, Source};
use crate::commit::store::ToStore;
use crate::configure::sharing::SharedChange;
use crate::revisions::{Unconfirmed, Via};
use sluice_config::{Comparison, ConfigError, ConfigText, Impact, Tree};
use sluice_manager::component::Phase;
use sluice_manager::confirmation;
use sluice_manager::shares::{Share, Shares};
use sluice_xrl::idl::common::v1::{Effect, EffectKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;
use tracing::{info, warn};

/// The foreseen effects of a commit.
pub(super) struct Foreseen {
    /// The number of changed statements.
    changes: usize,
    /// The effects by component.
    pub(super) effects: BTreeMap<String, Vec<Effect>>,
    /// The answers of the other elements.
    others: Others,
}

impl ManagerProcess {
    /// Returns the effects and the dangers of committing an editor's candidate. Changes nothing.
    pub(crate) async fn check_editor(self: &Rc<Self>, id: u64) -> Result<(Done, Vec<String>), EditError> {
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
        let mut shares = Shares::default();
        shares.gone.extend(ran.iter().filter(|class| !runs.contains(class)).cloned());
        for class in runs {
            let cost = schema.cost(&class, &before, after);
            let differs = || cost.is_some() || model.change(&class, Some(&before), after).is_some();
            let share = match ran.contains(&class) {
                true => Share::of_running(differs, self.phase(&class), cost == Some(Impact::Restart)),
                false => Share::Start,
            };
            if !share.is_asked() {
                let written = || written_or_shown(schema, after, written);
                model.check(&class, after, written).map_err(|e| Refusal::Invalid(Box::new(e)))?;
            }
            shares.add(class, share);
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
            let of_class = effects.entry(class.clone()).or_default();
            if !of_class.iter().any(|e| e.kind() == EffectKind::ProcessRestart) {
                of_class
                    .push(Effect { kind: EffectKind::ProcessRestart.into(), subjects: vec![class.clone()] });
            }
        }
    }
}

/// Continues even if the caller stops waiting: a broken editor connection cancels its calls.
async fn to_the_end<T: 'static>(
    work: impl Future<Output = Result<T, EditError>> + 'static,
) -> Result<T, EditError> {
    let done = tokio::task::spawn_local(work).await;
    done.unwrap_or_else(|_| Err(Refusal::Failed("it came to no end".into()).into()))
}
