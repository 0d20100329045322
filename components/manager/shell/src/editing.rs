//! What is being edited: the candidate that all share, and those of editors that work in private.

use crate::ManagerShell;
use crate::committing::{Done, Refusal, Request};
use crate::lockout;
use crate::revisions::Via;
use sluice_config::{ConfigError, Schema, Secrets, Tree};
use sluice_manager::editors::{Conflict, Editors, Mode};
use sluice_shell::clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Why an editor is refused.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// What it says is not valid.
    #[error("{0}")]
    Invalid(Box<ConfigError>),
    /// Others are in the way.
    #[error("{0}")]
    Conflict(String),
    /// It could lock the operator out.
    #[error("{0}; commit it with a time to confirm in: `commit confirmed MINUTES`")]
    NeedsConfirmation(String),
    /// It cannot be done.
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
            failed @ Refusal::Failed(_) => EditError::Failed(failed.to_string()),
        }
    }
}

/// A configuration that is being edited.
#[derive(Clone)]
struct Candidate {
    /// What ran when the editing began.
    base: Tree,
    tree: Tree,
}

impl Candidate {
    fn of(running: &Tree) -> Self {
        Candidate { base: running.clone(), tree: running.clone() }
    }

    /// The same editing as if it had begun with what runs now. Where both changed the same thing: fails with what, or, if that does not
    /// matter, the editing wins.
    fn rebase(&mut self, schema: &Schema, running: &Tree, wins: bool) -> Result<(), Vec<String>> {
        if self.base == *running {
            return Ok(());
        }
        let edited = schema.compare(&self.base, &self.tree);
        if !wins {
            let meanwhile = schema.compare(&self.base, running);
            let meanwhile: Vec<Vec<&str>> = meanwhile.paths().collect();
            let is_within = |a: &[&str], b: &[&str]| a.starts_with(b) || b.starts_with(a);
            let both = edited.paths().filter(|path| meanwhile.iter().any(|other| is_within(path, other)));
            let both: Vec<String> = both.map(|path| path.join(" ")).collect();
            if !both.is_empty() {
                return Err(both);
            }
        }
        let mut tree = running.clone();
        for statement in edited.set_text(Secrets::Shown) {
            // What was to be deleted may be gone already.
            if let Ok(next) = schema.edit(&tree, &statement) {
                tree = next;
            }
        }
        *self = Candidate { base: running.clone(), tree };
        Ok(())
    }
}

/// All that is being edited.
pub struct Editing {
    editors: RefCell<Editors>,
    shared: RefCell<Candidate>,
    own: RefCell<BTreeMap<u64, Candidate>>,
    /// How operators came here, for those that came over the network.
    connections: RefCell<BTreeMap<u64, String>>,
}

/// What editing begins with.
pub struct Opened {
    /// Its number.
    pub id: u64,
    /// Whether the candidate differs from what runs already.
    pub changed: bool,
    /// The others: who, what they work on, and since when in milliseconds of Unix time.
    pub others: Vec<(String, Mode, u64)>,
}

impl Editing {
    /// Nobody edits yet.
    pub fn new(running: &Tree) -> Self {
        Editing {
            editors: RefCell::default(),
            shared: RefCell::new(Candidate::of(running)),
            own: RefCell::default(),
            connections: RefCell::default(),
        }
    }

    /// Those that said nothing for too long are gone.
    fn expire(&self, running: &Tree) {
        let gone = self.editors.borrow_mut().expire(clock::now());
        for (id, editor) in gone {
            self.forget(id, editor.mode, running);
        }
    }

    fn forget(&self, id: u64, mode: Mode, running: &Tree) {
        self.own.borrow_mut().remove(&id);
        self.connections.borrow_mut().remove(&id);
        if mode == Mode::Exclusive {
            self.shared.replace(Candidate::of(running));
        }
    }
}

impl ManagerShell {
    fn running_tree(&self) -> Tree {
        self.running.borrow().tree.clone()
    }

    /// Begins editing.
    pub fn open_editor(
        &self,
        user: String,
        mode: Mode,
        connection: String,
        now_ms: u64,
    ) -> Result<Opened, EditError> {
        let running = self.running_tree();
        self.editing.expire(&running);
        let changed = self.shared_candidate() != running;
        let id = self.editing.editors.borrow_mut().open(clock::now(), user, mode, now_ms, changed)?;
        if mode == Mode::Private {
            self.editing.own.borrow_mut().insert(id, Candidate::of(&running));
        }
        if !connection.is_empty() {
            self.editing.connections.borrow_mut().insert(id, connection);
        }
        let editors = self.editing.editors.borrow();
        let others = editors.others(id).map(|e| (e.user.clone(), e.mode, e.since_unix_ms)).collect();
        Ok(Opened { id, changed: changed && mode != Mode::Private, others })
    }

    /// Ends editing.
    pub fn close_editor(&self, id: u64) {
        if let Some(editor) = self.editing.editors.borrow_mut().close(id) {
            self.editing.forget(id, editor.mode, &self.running_tree());
        }
    }

    /// An editor is still there.
    pub fn renew_editor(&self, id: u64) -> Result<(), EditError> {
        self.editing.expire(&self.running_tree());
        self.editing.editors.borrow_mut().renew(clock::now(), id)?;
        Ok(())
    }

    /// The candidate that all share, on what runs now.
    fn shared_candidate(&self) -> Tree {
        let mut shared = self.editing.shared.borrow_mut();
        // The editing wins where both changed the same.
        let _never = shared.rebase(&self.model.schema, &self.running_tree(), true);
        shared.tree.clone()
    }

    /// An editor's candidate.
    pub fn candidate(&self, id: u64) -> Result<Tree, EditError> {
        self.renew_editor(id)?;
        let own = self.editing.own.borrow().get(&id).map(|own| own.tree.clone());
        Ok(own.unwrap_or_else(|| self.shared_candidate()))
    }

    /// Puts another one in its place.
    pub fn set_candidate(&self, id: u64, tree: Tree) -> Result<(), EditError> {
        self.editing.editors.borrow().may_change(Some(id))?;
        match self.editing.own.borrow_mut().get_mut(&id) {
            Some(own) => own.tree = tree,
            None => self.editing.shared.borrow_mut().tree = tree,
        }
        Ok(())
    }

    /// Carries out statements, all or none.
    pub fn edit(&self, id: u64, statements: &[String]) -> Result<(), EditError> {
        let mut tree = self.candidate(id)?;
        for statement in statements {
            tree = self.model.schema.edit(&tree, statement)?;
        }
        self.set_candidate(id, tree)
    }

    /// What is to be committed. In private it is based on what runs now, and what others changed meanwhile must be something else.
    fn to_commit(&self, id: u64) -> Result<Tree, EditError> {
        self.candidate(id)?;
        self.editing.editors.borrow().may_change(Some(id))?;
        let running = self.running_tree();
        if let Some(own) = self.editing.own.borrow_mut().get_mut(&id) {
            own.rebase(&self.model.schema, &running, false).map_err(|both| {
                EditError::Conflict(format!(
                    "others have committed changes of the same since you began: {}; look at them with `show`, then `rollback 0` and edit again",
                    both.join("; ")
                ))
            })?;
            return Ok(own.tree.clone());
        }
        Ok(self.shared_candidate())
    }

    /// What could go wrong for the operator.
    pub fn warnings(&self, id: u64, after: &Tree) -> Vec<String> {
        let connections = self.editing.connections.borrow();
        let connection = connections.get(&id).map(String::as_str).unwrap_or_default();
        lockout::warnings(&self.model.schema, &self.running_tree(), after, connection)
    }

    /// What committing an editor's candidate would touch, and what could go wrong.
    pub async fn check_editor(self: &Rc<Self>, id: u64) -> Result<(Done, Vec<String>), EditError> {
        let after = self.to_commit(id)?;
        let warnings = self.warnings(id, &after);
        Ok((self.check(after).await?, warnings))
    }

    /// Commits an editor's candidate.
    pub async fn commit_editor(
        self: &Rc<Self>,
        id: u64,
        comment: String,
        confirm_within: Option<Duration>,
    ) -> Result<Done, EditError> {
        let after = self.to_commit(id)?;
        let warnings = self.warnings(id, &after);
        if confirm_within.is_none() && !warnings.is_empty() {
            return Err(EditError::NeedsConfirmation(warnings.join("; ")));
        }
        let user = self.editing.editors.borrow_mut().renew(clock::now(), id)?.user.clone();
        let request = Request {
            after,
            user,
            comment,
            via: Via::Commit,
            confirm_within,
            of_file: None,
            takes_back: None,
        };
        let done = self.commit(request).await?;
        if let Some(own) = self.editing.own.borrow_mut().get_mut(&id) {
            *own = Candidate::of(&self.running_tree());
        }
        Ok(done)
    }
}
