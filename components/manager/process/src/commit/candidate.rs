//! A candidate: a configuration that is being edited, and what it is based on.

use sluice_config::{Comparison, ConfigText, Schema, Secrets, Tree};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::rc::Rc;

/// The number of a candidate. Numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CandidateId(pub(super) u64);

/// A configuration that is being edited.
#[derive(Clone)]
pub struct Candidate {
    /// The number.
    pub id: CandidateId,
    /// The running configuration that the changes are relative to.
    pub base: Tree,
    /// The configuration with the changes.
    pub tree: Tree,
    /// The text that the whole candidate was read from, unless the candidate changed since.
    pub written: Option<Rc<ConfigText>>,
}

/// A statement that the candidate changed, and that commits since its beginning changed too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contested {
    /// The statement's names and keys.
    pub path: Vec<String>,
    /// The statements of the candidate, without secrets.
    pub mine: Vec<String>,
    /// The statements of the commits, without secrets.
    pub theirs: Vec<String>,
}

/// The side whose statements stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The candidate's.
    Mine,
    /// Those of the commits.
    Theirs,
}

impl Candidate {
    /// Begins with what runs.
    pub fn new(id: CandidateId, running: &Tree) -> Self {
        Candidate { id, base: running.clone(), tree: running.clone(), written: None }
    }

    /// Moves the changes onto the configuration that runs now. Where the changes and the running configuration's changes since `base`
    /// meet, the changes of the candidate win, or with `wins` unset the paths of both are the error.
    pub(crate) fn rebase(&mut self, schema: &Schema, running: &Tree, wins: bool) -> Result<(), Vec<String>> {
        if self.base == *running {
            return Ok(());
        }
        let edited = schema.compare(&self.base, &self.tree);
        if !wins {
            let both = both(&edited, &schema.compare(&self.base, running));
            if !both.is_empty() {
                return Err(both.iter().map(|path| path.join(" ")).collect());
            }
        }
        let tree = applied(schema, running, &edited);
        *self = Candidate { id: self.id, base: running.clone(), tree, written: None };
        Ok(())
    }

    /// Returns the statements that the candidate and commits since its beginning changed.
    pub fn contested(&self, schema: &Schema, running: &Tree) -> Vec<Contested> {
        let (edited, meanwhile) =
            (schema.compare(&self.base, &self.tree), schema.compare(&self.base, running));
        let statements = |of: &Comparison, path: &[String]| {
            of.restricted(|other| is_related(other, path)).set_text(Secrets::Hidden)
        };
        let contested = |path: Vec<String>| Contested {
            mine: edited.restricted(|other| path.iter().eq(other)).set_text(Secrets::Hidden),
            theirs: statements(&meanwhile, &path),
            path,
        };
        both(&edited, &meanwhile).into_iter().map(contested).collect()
    }

    /// Decides for one side at the contested statements at, above and below a path; at all of them for an empty path.
    pub fn decide(&mut self, schema: &Schema, running: &Tree, side: Side, at: &[String]) {
        let (edited, meanwhile) =
            (schema.compare(&self.base, &self.tree), schema.compare(&self.base, running));
        let mut chosen = both(&edited, &meanwhile);
        chosen.retain(|path| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            is_related(&path, at)
        });
        // The changes of the commits become part of the base: they are not changes since then any more.
        let is_met = |path: &[&str]| chosen.iter().any(|chosen| is_related(path, chosen));
        let base = applied(schema, &self.base, &meanwhile.restricted(is_met));
        let is_kept =
            |path: &[&str]| side == Side::Mine || !chosen.iter().any(|chosen| chosen.iter().eq(path));
        let tree = applied(schema, &base, &edited.restricted(is_kept));
        *self = Candidate { id: self.id, base, tree, written: None };
    }
}

/// Returns a configuration with the changes of a comparison.
fn applied(schema: &Schema, tree: &Tree, changes: &Comparison) -> Tree {
    let mut tree = tree.clone();
    for statement in changes.set_text(Secrets::Shown) {
        // A statement that was to be deleted may have been deleted by others already.
        if let Ok(next) = schema.edit(&tree, &statement) {
            tree = next;
        }
    }
    tree
}

/// Returns the paths of `edited` that meet a path of `meanwhile`.
fn both(edited: &Comparison, meanwhile: &Comparison) -> Vec<Vec<String>> {
    let meanwhile: BTreeSet<Vec<&str>> = meanwhile.paths().collect();
    let both = edited.paths().filter(|path| meets(&meanwhile, path));
    let both: BTreeSet<Vec<String>> = both.map(|path| path.into_iter().map(String::from).collect()).collect();
    both.into_iter().collect()
}

/// Returns true if one of two paths is at or above the other one.
fn is_related(path: &[&str], other: &[String]) -> bool {
    path.iter().zip(other).all(|(one, other)| one == other)
}

/// Returns true if any of the paths is above or below `path`, or equal to `path`.
fn meets(paths: &BTreeSet<Vec<&str>>, path: &[&str]) -> bool {
    let below = paths.range::<[&str], _>((Bound::Included(path), Bound::Unbounded)).next();
    below.is_some_and(|first| first.starts_with(path))
        || (0..path.len()).any(|length| paths.contains(&path[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_config::Module;

    const MODULES: [Module; 1] =
        [Module { name: "sluice-static", text: include_str!("../../../../static/static.yang") }];

    fn edit(schema: &Schema, tree: &Tree, statements: &[String]) -> Tree {
        // A deletion of what is not there changes nothing.
        statements.iter().fold(tree.clone(), |tree, statement| schema.edit(&tree, statement).unwrap_or(tree))
    }

    fn begun(schema: &Schema) -> Tree {
        let first = ["set protocols static route 10.0.0.0/16 discard".to_owned()];
        edit(schema, &Tree::empty(), &first)
    }

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    fn contested(theirs: &[&str], mine: &[&str]) -> (Schema, Candidate, Tree) {
        let schema = Schema::of(&MODULES).unwrap();
        let before = begun(&schema);
        let running = edit(&schema, &before, &lines(theirs));
        let mut candidate = Candidate::new(CandidateId(1), &before);
        candidate.tree = edit(&schema, &before, &lines(mine));
        (schema, candidate, running)
    }

    #[test]
    fn a_contested_statement_is_shown_from_both_sides() {
        let (schema, candidate, running) = contested(
            &[
                "set protocols static route 10.0.0.0/16 reject",
                "set protocols static route 10.7.0.0/16 reject",
            ],
            &["delete protocols static route 10.0.0.0/16", "set protocols static route 10.8.0.0/16 reject"],
        );
        let found = candidate.contested(&schema, &running);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path.join(" "), "protocols static route 10.0.0.0/16");
        assert_eq!(found[0].mine, ["delete protocols static route 10.0.0.0/16"]);
        assert!(found[0].theirs.iter().any(|line| line == "set protocols static route 10.0.0.0/16 reject"));
    }

    #[test]
    fn each_statement_is_decided_for_itself() {
        let route = |n: u8, value: &str| format!("set protocols static route 10.{n}.0.0/16 {value}");
        let (theirs, mine) =
            ([route(1, "reject"), route(2, "reject")], [route(1, "discard"), route(2, "discard")]);
        let texts = |all: &'static [String; 2]| all.each_ref().map(String::as_str);
        let (theirs, mine) = (Box::leak(Box::new(theirs)), Box::leak(Box::new(mine)));
        let (schema, mut candidate, running) = contested(&texts(theirs), &texts(mine));
        let path = |n: u8| lines(&["protocols", "static", "route", &format!("10.{n}.0.0/16")]);
        assert_eq!(candidate.contested(&schema, &running).len(), 2);
        candidate.decide(&schema, &running, Side::Mine, &path(1));
        assert_eq!(candidate.contested(&schema, &running).len(), 1);
        assert!(candidate.clone().rebase(&schema, &running, false).is_err());
        candidate.decide(&schema, &running, Side::Theirs, &path(2));
        assert_eq!(candidate.contested(&schema, &running), []);
        candidate.rebase(&schema, &running, false).unwrap();
        let left = schema.compare(&running, &candidate.tree).set_text(Secrets::Shown);
        assert!(left.iter().all(|line| line.contains("10.1.0.0/16")) && !left.is_empty(), "{left:?}");
    }

    fn statements() -> impl Strategy<Value = Vec<String>> {
        let one = (0..4u8, 0..4u8).prop_map(|(n, value)| match value {
            0 => format!("set protocols static route 10.{n}.0.0/16 discard"),
            1 => format!("set protocols static route 10.{n}.0.0/16 reject"),
            2 => "delete protocols static".to_owned(),
            _ => format!("delete protocols static route 10.{n}.0.0/16"),
        });
        prop::collection::vec(one, 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        /// After a decision nothing is contested. Theirs leaves the changes of the candidate that nobody contested, mine leaves all.
        #[test]
        fn a_decision_ends_every_conflict(theirs in statements(), mine in statements()) {
            let schema = Schema::of(&MODULES).unwrap();
            let before = begun(&schema);
            let running = edit(&schema, &before, &theirs);
            for side in [Side::Mine, Side::Theirs] {
                let mut candidate = Candidate::new(CandidateId(1), &before);
                candidate.tree = edit(&schema, &before, &mine);
                let found = candidate.contested(&schema, &running);
                let edited = schema.compare(&before, &candidate.tree);
                let free = edited.restricted(|path| !found.iter().any(|one| one.path.iter().eq(path)));
                candidate.decide(&schema, &running, side, &[]);
                prop_assert_eq!(candidate.contested(&schema, &running), vec![]);
                prop_assert!(candidate.rebase(&schema, &running, false).is_ok());
                if side == Side::Theirs {
                    prop_assert!(candidate.tree == applied(&schema, &running, &free));
                } else {
                    let both = applied(&schema, &running, &edited);
                    prop_assert!(candidate.tree == both);
                }
            }
        }
    }
}
