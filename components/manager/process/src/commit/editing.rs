//! The open editors, and their candidates.

use super::candidate::{Candidate, CandidateId, Contested, Side};
use crate::commit::refused::Refusal;
use sluice_config::{ConfigError, ConfigErrors, ConfigText, Schema, Tree};
use sluice_manager::editors::{Conflict, Editors, Mode};
use sluice_process::clock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The reason why an editor is refused.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The statement or the configuration is not valid.
    #[error("{0}")]
    Invalid(Box<ConfigError>),
    /// The configuration file is not valid: every error.
    #[error("{0}")]
    InvalidFile(Box<ConfigErrors>),
    /// Others are in the way.
    #[error("{0}")]
    Conflict(String),
    /// The commit could lock the operator out.
    #[error("{0}; commit it with a time to confirm in: `commit confirmed MINUTES`")]
    NeedsConfirmation(String),
    /// The editor's role does not allow the change of this path.
    #[error("your role does not let you change `{0}`; nothing was changed")]
    NotAllowed(String),
    /// A text without statements would replace a configuration with statements.
    #[error("{text} has no statements, and the router runs some; if you mean it: {how}")]
    Emptied {
        /// The text's name.
        text: String,
        /// The way to carry it out all the same.
        how: &'static str,
    },
    /// The action failed.
    #[error("{0}")]
    Failed(String),
}

impl From<Conflict> for EditError {
    fn from(conflict: Conflict) -> Self {
        EditError::Conflict(conflict.to_string())
    }
}

impl From<ConfigError> for EditError {
    fn from(error: ConfigError) -> Self {
        EditError::Invalid(Box::new(error))
    }
}

impl From<Refusal> for EditError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(error) => EditError::Invalid(error),
            waits @ Refusal::Unconfirmed(_) => EditError::Conflict(waits.to_string()),
            failed @ (Refusal::Failed(_) | Refusal::Open(_)) => EditError::Failed(failed.to_string()),
        }
    }
}

/// A configuration to commit for an editor.
pub struct ToCommit {
    /// The configuration.
    pub tree: Tree,
    /// The number of the candidate.
    pub candidate: CandidateId,
    /// The text that the configuration was read from as a whole, if so.
    pub written: Option<Rc<ConfigText>>,
    /// The editor's user.
    pub user: String,
}

/// The caller who opened an editor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The caller's name at the Finder.
    pub principal: String,
    /// The caller's user, as the kernel reports it.
    pub uid: Option<u32>,
}

/// The present editors and candidates.
pub struct Editing {
    pub(super) editors: RefCell<Editors>,
    pub(super) shared: RefCell<Candidate>,
    pub(super) own: RefCell<BTreeMap<u64, Candidate>>,
    /// The number of the newest candidate.
    pub(super) last: Cell<u64>,
    /// The callers who opened the editors; nobody else may use them.
    pub(super) holders: RefCell<BTreeMap<u64, Holder>>,
    /// The SSH connections of operators that came over the network.
    pub(super) connections: RefCell<BTreeMap<u64, String>>,
}

/// The state at the beginning of an editing session.
pub struct Opened {
    /// Its number.
    pub id: u64,
    /// True if the candidate differs from what runs already.
    pub changed: bool,
    /// The remaining editors: user, mode, and start in milliseconds of Unix time.
    pub others: Vec<(String, Mode, u64)>,
}

impl Editing {
    /// Nobody edits yet.
    pub fn new(running: &Tree) -> Self {
        Editing {
            editors: RefCell::default(),
            shared: RefCell::new(Candidate::new(CandidateId(0), running)),
            own: RefCell::default(),
            last: Cell::new(0),
            holders: RefCell::default(),
            connections: RefCell::default(),
        }
    }

    pub(super) fn begin(&self, running: &Tree) -> Candidate {
        self.last.set(self.last.get() + 1);
        Candidate::new(CandidateId(self.last.get()), running)
    }

    /// Returns the candidates with changes, each with its name for errors.
    pub(crate) fn changed_candidates(&self) -> Vec<(String, Tree)> {
        let is_changed = |candidate: &Candidate| candidate.tree != candidate.base;
        let mut found = Vec::new();
        if is_changed(&self.shared.borrow()) {
            found.push(("the shared candidate".to_owned(), self.shared.borrow().tree.clone()));
        }
        for own in self.own.borrow().values().filter(|own| is_changed(own)) {
            found.push(("a private candidate".to_owned(), own.tree.clone()));
        }
        found
    }

    /// Removes editors whose lease ran out.
    pub(super) fn expire(&self, running: &Tree) {
        let gone = self.editors.borrow_mut().expire(clock::now());
        for (id, editor) in gone {
            self.forget(id, editor.mode, running);
        }
    }

    pub(super) fn forget(&self, id: u64, mode: Mode, running: &Tree) {
        self.own.borrow_mut().remove(&id);
        self.connections.borrow_mut().remove(&id);
        self.holders.borrow_mut().remove(&id);
        if mode == Mode::Exclusive {
            self.shared.replace(self.begin(running));
        }
    }

    /// Returns the shared candidate, moved onto the running configuration.
    pub(super) fn shared_candidate(&self, schema: &Schema, running: &Tree) -> Tree {
        let mut shared = self.shared.borrow_mut();
        // The candidate wins where both changed the same statement.
        let _never = shared.rebase(schema, running, true);
        shared.tree.clone()
    }

    pub(super) fn candidate(&self, schema: &Schema, running: &Tree, id: u64) -> Tree {
        let own = self.own.borrow().get(&id).map(|own| own.tree.clone());
        own.unwrap_or_else(|| self.shared_candidate(schema, running))
    }

    /// Stores the candidate of an editor after a statement.
    pub(super) fn set(&self, id: u64, tree: Tree) {
        let put = |candidate: &mut Candidate| {
            candidate.tree = tree;
            candidate.written = None;
        };
        match self.own.borrow_mut().get_mut(&id) {
            Some(own) => put(own),
            None => put(&mut self.shared.borrow_mut()),
        }
    }

    /// Stores a whole configuration as the candidate of an editor. Its changes are the differences from the running
    /// configuration.
    pub(super) fn replace(&self, running: &Tree, id: u64, tree: Tree, written: Option<Rc<ConfigText>>) {
        let put = |candidate: &mut Candidate| {
            *candidate = Candidate { id: candidate.id, base: running.clone(), tree, written }
        };
        match self.own.borrow_mut().get_mut(&id) {
            Some(own) => put(own),
            None => put(&mut self.shared.borrow_mut()),
        }
    }

    /// Returns `running` with an editor's candidate committed. The error names the paths changed both by a private
    /// candidate and by commits made since the candidate began. The result holds as long as `running` does: the caller
    /// has the turn to commit, and keeps the turn until [`Editing::committed`].
    pub(super) fn to_commit(
        &self,
        schema: &Schema,
        running: &Tree,
        id: u64,
    ) -> Result<Candidate, Vec<String>> {
        if let Some(own) = self.own.borrow_mut().get_mut(&id) {
            own.rebase(schema, running, false)?;
            return Ok(own.clone());
        }
        self.shared_candidate(schema, running);
        Ok(self.shared.borrow().clone())
    }

    /// Decides about contested statements of a private candidate, and moves the candidate onto the running configuration if nothing is
    /// contested any more. Returns what is. Other candidates follow by themselves.
    pub(super) fn update(
        &self,
        schema: &Schema,
        running: &Tree,
        id: u64,
        decision: Option<(Side, &[String])>,
    ) -> Vec<Contested> {
        let mut all = self.own.borrow_mut();
        let Some(own) = all.get_mut(&id) else { return Vec::new() };
        if let Some((side, path)) = decision {
            own.decide(schema, running, side, path);
        }
        let contested = own.contested(schema, running);
        if contested.is_empty() {
            // Without a contested statement there is no refusal.
            let _never = own.rebase(schema, running, false);
        }
        contested
    }

    /// Returns the configuration that the changes of an editor's candidate are relative to.
    pub(super) fn base(&self, running: &Tree, id: u64) -> Tree {
        self.own.borrow().get(&id).map_or_else(|| running.clone(), |own| own.base.clone())
    }

    /// Notes that a candidate runs, as returned by [`Editing::to_commit`]. Statements received during the commit stay
    /// changes of the candidate. A candidate discarded meanwhile is left alone.
    pub fn committed(&self, id: CandidateId, after: &Tree) {
        let (mut shared, mut own) = (self.shared.borrow_mut(), self.own.borrow_mut());
        let all = std::iter::once(&mut *shared).chain(own.values_mut());
        if let Some(candidate) = all.into_iter().find(|candidate| candidate.id == id) {
            candidate.base = after.clone();
        }
    }
}
