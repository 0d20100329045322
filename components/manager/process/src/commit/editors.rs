//! Candidates: the shared candidate, and the candidates of editors in private mode.

use super::candidate::{Candidate, Contested, Side};
use super::editing::{EditError, Holder, Opened, ToCommit};
use crate::ManagerProcess;
use crate::commit::lockout::Connection;
use crate::commit::request::{CommitRequest, Done, Source};
use std::rc::Rc;
use std::time::Duration;

pub use super::candidate::CandidateId;
use sluice_config::{ConfigError, ConfigText, Tree};
use sluice_manager::editors::Mode;
use sluice_manager::roles::Statements;
use sluice_process::clock;

/// The most conflicting paths named by a message.
const CONFLICTS: usize = 10;

impl ManagerProcess {
    /// Returns the configuration that runs.
    pub(crate) fn running_tree(&self) -> Tree {
        self.running.borrow().tree.clone()
    }

    /// Begins editing.
    pub(crate) fn open_editor(
        &self,
        (user, holder): (String, Holder),
        mode: Mode,
        connection: String,
        now_ms: u64,
    ) -> Result<Opened, EditError> {
        let running = self.running_tree();
        self.editing.expire(&running);
        let changed = self.editing.shared_candidate(&self.model().schema, &running) != running;
        let id = self.editing.editors.borrow_mut().open(clock::now(), user, mode, now_ms, changed)?;
        self.editing.holders.borrow_mut().insert(id, holder);
        if mode == Mode::Private {
            self.editing.own.borrow_mut().insert(id, self.editing.begin(&running));
        }
        if !connection.is_empty() {
            self.editing.connections.borrow_mut().insert(id, connection);
        }
        let editors = self.editing.editors.borrow();
        let others = editors.others(id).map(|e| (e.user.clone(), e.mode, e.since_unix_ms)).collect();
        Ok(Opened { id, changed: changed && mode != Mode::Private, others })
    }

    /// Returns the caller who opened an editor, if the editor exists.
    pub(crate) fn holder_of(&self, id: u64) -> Option<Holder> {
        self.editing.holders.borrow().get(&id).cloned()
    }

    /// Returns an error with the first path whose change the editor's role does not allow.
    fn check_writes(&self, id: u64, after: &Tree) -> Result<(), EditError> {
        let Some(holder) = self.holder_of(id) else { return Ok(()) };
        let writes = self.people.writes_of(&holder.principal, holder.uid);
        if writes == Statements::Everything {
            return Ok(());
        }
        let comparison = self.model().schema.compare(&self.running_tree(), after);
        let refused = comparison.paths().find(|path| !writes.allow(path));
        refused.map_or(Ok(()), |path| Err(EditError::NotAllowed(path.join(" "))))
    }

    /// Ends editing.
    pub(crate) fn close_editor(&self, id: u64) {
        if let Some(editor) = self.editing.editors.borrow_mut().close(id) {
            self.editing.forget(id, editor.mode, &self.running_tree());
        }
    }

    /// An editor is still there.
    pub(crate) fn renew_editor(&self, id: u64) -> Result<(), EditError> {
        self.editing.expire(&self.running_tree());
        self.editing.editors.borrow_mut().renew(clock::now(), id)?;
        Ok(())
    }

    /// Returns an editor's candidate.
    pub fn candidate(&self, id: u64) -> Result<Tree, EditError> {
        self.renew_editor(id)?;
        Ok(self.editing.candidate(&self.model().schema, &self.running_tree(), id))
    }

    /// Returns the shared candidate.
    pub(crate) fn shared_candidate(&self) -> Tree {
        self.editing.shared_candidate(&self.model().schema, &self.running_tree())
    }

    /// Returns the configuration that the changes of an editor's candidate are relative to.
    pub(crate) fn candidate_base(&self, id: u64) -> Result<Tree, EditError> {
        self.renew_editor(id)?;
        Ok(self.editing.base(&self.running_tree(), id))
    }

    /// Moves an editor's candidate onto what runs, after a decision about contested statements. Returns those without a decision, for which
    /// the candidate stays where it is.
    pub fn update(&self, id: u64, decision: Option<(Side, &[String])>) -> Result<Vec<Contested>, EditError> {
        self.renew_editor(id)?;
        self.editing.editors.borrow().may_change(Some(id))?;
        Ok(self.editing.update(&self.model().schema, &self.running_tree(), id, decision))
    }

    /// Carries out statements on an editor's candidate, atomically.
    pub fn edit(&self, id: u64, statements: &[String]) -> Result<(), EditError> {
        let mut tree = self.candidate(id)?;
        for statement in statements {
            let model = self.model();
            let next = model.schema.edit(&tree, statement);
            tree = next.map_err(|error| model.explain_port(error, &tree))?;
        }
        self.editing.editors.borrow().may_change(Some(id))?;
        self.editing.set(id, tree);
        Ok(())
    }

    /// Puts a whole configuration in the place of an editor's candidate. `written` is the text that the configuration was read from, if
    /// the editor has the text.
    pub(crate) fn replace_candidate(
        &self,
        id: u64,
        tree: Tree,
        written: Option<Rc<ConfigText>>,
    ) -> Result<(), EditError> {
        self.renew_editor(id)?;
        self.editing.editors.borrow().may_change(Some(id))?;
        self.editing.replace(&self.running_tree(), id, tree, written);
        Ok(())
    }

    /// Adds the statements of texts to an editor's candidate, atomically.
    pub(crate) fn merge_into_candidate(&self, id: u64, texts: &[ConfigText]) -> Result<(), EditError> {
        let tree = self.merged(self.candidate(id)?, texts)?;
        self.editing.editors.borrow().may_change(Some(id))?;
        self.editing.set(id, tree);
        Ok(())
    }

    /// Returns a tree with the statements of texts, in order: those of a later text replace those of earlier ones.
    pub fn merged(&self, mut tree: Tree, texts: &[ConfigText]) -> Result<Tree, ConfigError> {
        let model = self.model();
        for ConfigText { file, text } in texts {
            let merged = model.schema.merge(&tree, file, text);
            tree = merged.map_err(|error| model.explain_port(error, &tree))?;
        }
        Ok(tree)
    }

    /// Puts texts that are together a whole configuration in the place of an editor's candidate.
    pub(crate) fn load_whole(
        &self,
        id: u64,
        mut texts: Vec<ConfigText>,
        allow_empty: bool,
    ) -> Result<(), EditError> {
        let model = self.model();
        let tree = match &texts[..] {
            [only] => model.schema.read(&only.file, &only.text).map_err(|error| {
                EditError::InvalidFile(Box::new(model.explain_ports(error.into(), &only.text)))
            })?,
            texts => {
                let tree = self.merged(Tree::empty(), texts)?;
                model.schema.validate(None, &tree)?;
                tree
            }
        };
        if !allow_empty && self.running_tree().is_emptied_by(&tree) {
            let text = texts.iter().map(|text| &*text.file).collect::<Vec<_>>().join(", ");
            return Err(EditError::Emptied { text, how: "say `allow-empty`" });
        }
        // Comments and the order of statements are kept of one text.
        let written = texts.pop().filter(|_| texts.is_empty()).map(Rc::new);
        self.replace_candidate(id, tree, written)
    }

    /// Returns the configuration to commit for an editor. The caller has the turn to commit.
    pub(crate) fn to_commit(&self, id: u64) -> Result<ToCommit, EditError> {
        self.renew_editor(id)?;
        self.editing.editors.borrow().may_change(Some(id))?;
        let user = self.editing.editors.borrow_mut().renew(clock::now(), id)?.user.clone();
        let found = self.editing.to_commit(&self.model().schema, &self.running_tree(), id);
        let candidate = found.map_err(|both| {
            let (shown, more) = both.split_at(both.len().min(CONFLICTS));
            let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
            EditError::Conflict(format!(
                "others have committed changes of the same statements since you began: {}{more}; `update` shows both, `update mine` and \
                 `update theirs` decide, `save FILE` keeps your statements",
                shown.join("; ")
            ))
        })?;
        let Candidate { id: candidate, tree, written, .. } = candidate;
        self.check_writes(id, &tree)?;
        Ok(ToCommit { tree, candidate, written, user })
    }

    /// Returns the connection of an editor connected over the network, with the kernel's current way to the client.
    pub fn connection(&self, id: u64) -> Option<Connection> {
        let connections = self.editing.connections.borrow();
        Some(Connection::of(connections.get(&id)?)?.looked_up())
    }

    /// Commits an editor's candidate.
    pub(crate) async fn commit_editor(
        self: &Rc<Self>,
        id: u64,
        comment: String,
        confirm_within: Option<Duration>,
        confirms: bool,
    ) -> Result<Done, EditError> {
        self.renew_editor(id)?;
        self.commit(CommitRequest { source: Source::Editor(id), comment, confirm_within, confirms }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::editing::Editing;
    use proptest::prelude::*;
    use sluice_config::Module;
    use sluice_config::Schema;
    use std::collections::BTreeMap;

    const MODULES: [Module; 1] =
        [Module { name: "sluice-static", text: include_str!("../../../../static/static.yang") }];

    /// The configured treatments of prefixes: nothing, discard or reject.
    type Routes = BTreeMap<u8, &'static str>;

    /// A step of one of the editors.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Sets (true: discard, false: reject) or deletes what is said of a prefix.
        Edit(usize, u8, Option<bool>),
        /// Asks for a commit, and waits until no commit is under way.
        Ask(usize),
        /// The commit that is under way is stored.
        Store,
    }

    fn step() -> impl Strategy<Value = Step> {
        let editor = 0..4usize;
        prop_oneof![
            3 => (editor.clone(), 0..4u8, any::<Option<bool>>()).prop_map(|(e, n, v)| Step::Edit(e, n, v)),
            2 => editor.prop_map(Step::Ask),
            2 => Just(Step::Store),
        ]
    }

    /// The model of a candidate: the configuration at its beginning, and the edited configuration.
    #[derive(Clone, Default)]
    struct Model {
        base: Routes,
        tree: Routes,
    }

    impl Model {
        /// Moves the changes onto the running configuration; `None` if both changed the same prefix and the candidate
        /// does not win.
        fn onto(&self, running: &Routes, wins: bool) -> Option<Model> {
            let mut tree = running.clone();
            for prefix in 0..4u8 {
                let (was, is, runs) = (self.base.get(&prefix), self.tree.get(&prefix), running.get(&prefix));
                if was == is {
                    continue;
                }
                if !wins && was != runs {
                    return None;
                }
                match is {
                    Some(value) => drop(tree.insert(prefix, value)),
                    None => drop(tree.remove(&prefix)),
                }
            }
            Some(Model { base: running.clone(), tree })
        }
    }

    fn statement(prefix: u8, value: Option<bool>) -> String {
        match value {
            Some(true) => format!("set protocols static route 10.{prefix}.0.0/16 discard"),
            Some(false) => format!("set protocols static route 10.{prefix}.0.0/16 reject"),
            None => format!("delete protocols static route 10.{prefix}.0.0/16"),
        }
    }

    fn tree_of(schema: &Schema, routes: &Routes) -> Tree {
        // The container means that static routes are announced, and stays when the last one is deleted.
        let empty = schema.edit(&Tree::empty(), "set protocols static").unwrap();
        routes.iter().fold(empty, |tree, (prefix, value)| {
            let statement = format!("set protocols static route 10.{prefix}.0.0/16 {value}");
            schema.edit(&tree, &statement).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
        /// Two editors share a candidate, and two have a private candidate each. Commits run in sequence, statements
        /// arrive at any time. Each commit leaves the configuration before the commit plus the changes of its
        /// candidate, and loses no statement.
        #[test]
        fn overlapping_commits_equal_a_serial_order(steps in prop::collection::vec(step(), 1..60)) {
            let schema = Schema::of(&MODULES).unwrap();
            let mut running = tree_of(&schema, &Routes::new());
            let editing = Editing::new(&running);
            let mut routes = Routes::new();
            let mut models = vec![Model::default(); 3];
            for id in [2, 3] {
                editing.own.borrow_mut().insert(id, editing.begin(&running));
            }
            // The editors 0 and 1 share a candidate.
            let model_of = |editor: usize| editor.saturating_sub(1);
            let is_private = |editor: usize| editor > 1;
            let mut waiting: std::collections::VecDeque<usize> = Default::default();
            let mut under_way: Option<(usize, Tree, CandidateId, Routes)> = None;
            for step in steps.into_iter().chain([Step::Store; 120]) {
                match step {
                    Step::Edit(editor, prefix, value) => {
                        let id = editor as u64;
                        let model = &mut models[model_of(editor)];
                        if !is_private(editor) {
                            *model = model.onto(&routes, true).unwrap();
                        }
                        let before = editing.candidate(&schema, &running, id);
                        if let Ok(tree) = schema.edit(&before, &statement(prefix, value)) {
                            editing.set(id, tree);
                            match value {
                                Some(discard) => drop(model.tree.insert(prefix, if discard { "discard" } else { "reject" })),
                                None => drop(model.tree.remove(&prefix)),
                            }
                        }
                    }
                    Step::Ask(editor) => waiting.push_back(editor),
                    Step::Store => {
                        if let Some((editor, after, candidate, said)) = under_way.take() {
                            editing.committed(candidate, &after);
                            running = after;
                            models[model_of(editor)].base = said.clone();
                            routes = said;
                            prop_assert!(running == tree_of(&schema, &routes));
                        }
                    }
                }
                while under_way.is_none() && let Some(editor) = waiting.pop_front() {
                    let expected = models[model_of(editor)].onto(&routes, !is_private(editor));
                    match (editing.to_commit(&schema, &running, editor as u64), expected) {
                        (Ok(Candidate { id: candidate, tree: after, .. }), Some(expected)) => {
                            models[model_of(editor)] = expected.clone();
                            under_way = Some((editor, after, candidate, expected.tree));
                        }
                        (Err(both), None) => prop_assert!(!both.is_empty()),
                        (found, _) => prop_assert!(false, "{editor}: {:?}", found.map(drop)),
                    }
                }
            }
            prop_assert!(under_way.is_none() && waiting.is_empty());
        }
    }
}
