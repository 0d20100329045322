//! Commits of a configuration that several machines share: the component that shares the configuration asks the other elements, and decides.
//!
//! The manager knows no store. Before anything changes here, the owner of the configuration ([`pb::ConfigurationOwner`]) offers the shared
//! part to all other elements. When all components here run with the new configuration, the owner decides by one write. The manager stores its
//! revision after that: a manager that dies in between runs the old configuration, and takes the decided one when the owner hands it over.

use super::editing::EditError;
use crate::ManagerProcess;
use crate::commit::refused::{Refusal, words};
use crate::commit::request::{CommitRequest, Others, Request, SharedText, Source};
use crate::configure::sharing::SharedChange;
use crate::revisions::Via;
use sluice_config::{ConfigError, Tree};
use sluice_manager::Reason;
use sluice_manager::commit::Input;
use sluice_process::Effect;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as pb;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

/// The longest wait for the answers of all other elements, and for the decision.
const OWNER: Duration = Duration::from_secs(40);
/// The number of the error by which the owner does not know whether the change is decided.
const OPEN: u32 = 8;

/// A shared part that is offered to the other elements.
pub struct Offered {
    change: SharedChange,
    /// The place at which the owner decides.
    base: u64,
    /// The answers of the other elements.
    pub others: Others,
}

/// The effects of a commit by component, and the answers of the other elements.
pub(super) type Effects = (BTreeMap<String, Vec<Effect>>, Others);

impl Offered {
    /// Makes an offer that nobody has answered yet.
    pub fn new(change: SharedChange) -> Self {
        Offered { change, base: 0, others: Others::default() }
    }
}

/// Shows whether a commit of this machine waits for other elements: such a commit keeps the turn, and other elements may wait for this one.
#[derive(Default)]
pub struct Waiting {
    waits: Cell<bool>,
    begins: Notify,
}

impl Waiting {
    fn set(&self, waits: bool) {
        self.waits.set(waits);
        if waits {
            self.begins.notify_waiters();
        }
    }
}

impl ManagerProcess {
    /// Returns the change of the shared part if a configuration runs, for an element that shares its configuration.
    pub(super) fn shared_change(&self, after: &Tree) -> Result<Option<SharedChange>, Refusal> {
        let change = self.model().shared_change(&self.running_tree(), after);
        change.map_err(|error| Refusal::Invalid(Box::new(error)))
    }

    /// Returns the change that has to be decided for all elements with a request.
    pub(super) fn shared_part_of(&self, request: &Request) -> Result<Option<SharedChange>, Refusal> {
        // What was decided already, and the way back from what a component refused at the start, are nobody else's.
        if !matches!(request.via, Via::Commit | Via::File) {
            return Ok(None);
        }
        let shared = self.shared_change(&request.after)?;
        if shared.is_some() && request.confirm_within.is_some() {
            let (schema, before) = (&self.model().schema, self.running_tree());
            if schema.local_part(&before) != schema.local_part(&request.after) {
                return Err(Refusal::Failed(
                    "a commit that has to be confirmed changes statements of all elements and statements of this element: commit one after \
                     the other"
                        .into(),
                ));
            }
        }
        Ok(shared)
    }

    /// Returns a configuration with the shared part that runs, on an element that shares its configuration: only all elements together go
    /// back.
    pub(super) fn with_decided_part(&self, after: Tree) -> Tree {
        let (model, running) = (self.model(), self.running_tree());
        if model.sharing(&running).is_some() && model.sharing(&after).is_some() {
            return model.schema.joined(&running, &after);
        }
        after
    }

    /// Returns the open commit of this element's own statements, which goes on to wait for its confirmation after a commit for all elements.
    pub(super) fn own_open(&self, request: &Request) -> Option<(u64, u64)> {
        let open = self.revisions.borrow().unconfirmed().filter(|_| request.via == Via::Shared)?;
        Some((open.back_to, open.until_unix_ms))
    }

    fn owner(&self, class: &str) -> pb::ConfigurationOwnerClient {
        pb::ConfigurationOwnerClient::new(&self.router, class).with_deadline(OWNER)
    }

    /// Offers the shared part of the commit under way to the other elements.
    pub(super) fn offer(self: &Rc<Self>, inputs: UnboundedSender<Input<Effect>>) {
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let request = me.under_way.borrow().as_ref().and_then(|under_way| {
                let change = &under_way.shared.as_ref()?.change;
                let (before, after) = (change.before.clone(), change.after.clone());
                Some((change.class, pb::OfferRequest { before, after }))
            });
            let Some((class, request)) = request else { return };
            me.waiting.set(true);
            let offered = me.owner(class).offer(request).await;
            me.waiting.set(false);
            let offered = offered.map(|reply| {
                if let Some(under_way) = me.under_way.borrow_mut().as_mut()
                    && let Some(shared) = &mut under_way.shared
                {
                    shared.base = reply.base;
                    shared.others = Others { absent: reply.absent, effects: reply.elements };
                }
            });
            let _over_meanwhile = inputs.send(Input::Offered(offered.map_err(|error| words(&error))));
        });
    }

    /// Has the shared part of the commit under way decided.
    pub(super) async fn decide(&self, request: &Request) -> Result<(), Reason> {
        let decide = self.under_way.borrow().as_ref().and_then(|under_way| {
            let Offered { change, base, .. } = under_way.shared.as_ref()?;
            let within = request.confirm_within.map_or(0, |within| within.as_secs());
            let decide = pb::DecideRequest {
                base: *base,
                after: change.after.clone(),
                user: request.user.clone(),
                comment: request.comment.clone(),
                confirm_within_s: u32::try_from(within).unwrap_or(u32::MAX),
                confirms: request.confirms,
            };
            Some((change.class, decide))
        });
        let Some((class, decide)) = decide else { return Err("nothing was offered".into()) };
        self.waiting.set(true);
        let decided = self.owner(class).decide(decide).await;
        self.waiting.set(false);
        decided.map(drop).map_err(|error| {
            // Without an answer of the owner, the store may have the change.
            let is_refusal = matches!(&error, XrlError::Application { code, .. } if *code != OPEN);
            if let Some(under_way) = self.under_way.borrow_mut().as_mut() {
                under_way.is_open = !is_refusal;
            }
            match &error {
                XrlError::Application { .. } => words(&error),
                other => format!(
                    "{class} does not say whether the change is decided ({other}): this element goes back, and takes what is decided"
                ),
            }
        })
    }

    /// Confirms the configuration of all elements, for a person's commit without changes. Returns its number, if there was one to confirm.
    pub(super) async fn confirm_shared(&self, request: &Request) -> Result<Option<u64>, Refusal> {
        let sharing = self.model().sharing(&self.running_tree());
        let Some((class, _)) = sharing.filter(|_| request.via == Via::Commit) else { return Ok(None) };
        let (user, comment) = (request.user.clone(), request.comment.clone());
        let confirmed = self.owner(class).confirm(pb::ConfirmRequest { user, comment }).await;
        let confirmed = confirmed.map_err(|error| Refusal::Failed(words(&error)))?;
        Ok((confirmed.number > 0).then_some(confirmed.number))
    }

    /// Has the owner compare what runs with what is decided, after a revision was taken back without the other elements.
    pub(super) fn compare_with_decided(self: &Rc<Self>) {
        let Some((class, _)) = self.model().sharing(&self.running_tree()) else { return };
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // An owner that starts now compares by itself.
            let _ = me.owner(class).compare(pb::CompareSharedRequest {}).await;
        });
    }

    /// Checks whether a shared part could be committed here, and returns the effects. `None` if this machine keeps a configuration of its own.
    pub(crate) async fn check_shared(
        self: Rc<Self>,
        text: String,
    ) -> Result<Option<BTreeMap<String, Vec<Effect>>>, EditError> {
        let after = |me: &Self| {
            let (model, running) = (me.model(), me.running_tree());
            let sharing = model.sharing(&running);
            sharing.map(|_| model.with_shared_text(&running, &text)).transpose()
        };
        let begins = self.waiting.begins.notified();
        let turn = match self.waiting.waits.get() {
            true => None,
            false => tokio::select! {
                turn = self.turn.lock() => Some(turn),
                () = begins => None,
            },
        };
        let Some(after) = after(&self).map_err(ConfigError::without_line)? else { return Ok(None) };
        Ok(Some(match turn {
            Some(_turn) => self.effects(&after, None, None).await?.effects,
            // A commit of this element waits for others, perhaps for the one that asks. One of the two commits is decided first, and the
            // other one is refused: it is enough that the configuration is valid.
            None => {
                self.compare(&after, None)?;
                BTreeMap::new()
            }
        }))
    }

    pub(crate) async fn take_shared(
        self: &Rc<Self>,
        request: pb::TakeSharedRequest,
    ) -> Result<pb::TakeSharedReply, EditError> {
        let pb::TakeSharedRequest { text, user, comment } = request;
        let source = Source::Shared(SharedText { text, user });
        let request = CommitRequest { source, comment, confirm_within: None, confirms: false };
        let done = self.commit(request).await?;
        Ok(pb::TakeSharedReply { revision: done.revision, changes: done.changes as u64 })
    }
}
