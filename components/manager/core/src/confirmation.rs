//! The effect of a commit on an earlier commit that still waits for its confirmation.
//!
//! A commit that has to be confirmed is a promise to its author: without a confirmation, the earlier configuration runs
//! again. Only a person confirms, and only by saying so: by a commit without changes, or by a commit that names the
//! confirmation. Any other change is refused until then, because the rollback would take the change back too.

/// The origin of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// An editor.
    Person,
    /// The configuration file, read again.
    File,
    /// The router itself: a rollback, or a configuration that was decided for all elements.
    Router,
}

/// A commit that arrives while another commit waits for its confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Next {
    /// The origin.
    pub origin: Origin,
    /// True if the commit changes statements.
    pub changes: bool,
    /// True if the commit names the confirmation.
    pub confirms: bool,
    /// True if the commit has to be confirmed itself.
    pub is_trial: bool,
    /// True if the commit leads back to the configuration that a missing confirmation would bring back.
    pub undoes: bool,
}

/// The effect on the waiting commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The waiting commit holds for good.
    Confirms,
    /// The waiting commit is undone: nothing is left to confirm.
    Undoes,
    /// The waiting commit goes on to wait; a commit with changes waits with it.
    Waits,
    /// The commit is refused.
    Refused,
}

impl Next {
    /// Returns the effect on the waiting commit.
    pub fn effect(self) -> Effect {
        match self.origin {
            Origin::Router => Effect::Waits,
            Origin::Person if self.confirms => Effect::Confirms,
            Origin::Person if !self.changes => Effect::Confirms,
            Origin::File if !self.changes => Effect::Waits,
            Origin::Person | Origin::File if self.undoes => Effect::Undoes,
            Origin::Person if self.is_trial => Effect::Waits,
            Origin::Person | Origin::File => Effect::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_confirms_and_only_by_saying_so() {
        let next = |origin, changes, confirms, is_trial, undoes| {
            Next { origin, changes, confirms, is_trial, undoes }.effect()
        };
        use Origin::{File, Person, Router};
        for (origin, changes, confirms, is_trial, undoes, expected) in [
            (Person, false, false, false, false, Effect::Confirms),
            (Person, true, true, false, false, Effect::Confirms),
            (Person, true, false, false, false, Effect::Refused),
            (Person, true, false, true, false, Effect::Waits),
            (Person, true, false, false, true, Effect::Undoes),
            // A signal of a program that rotates logs reads the file again.
            (File, false, false, false, false, Effect::Waits),
            (File, true, false, false, false, Effect::Refused),
            (File, true, false, false, true, Effect::Undoes),
            (Router, true, false, false, false, Effect::Waits),
        ] {
            let found = next(origin, changes, confirms, is_trial, undoes);
            assert_eq!(found, expected, "{origin:?} {changes} {confirms} {is_trial} {undoes}");
        }
    }

    #[test]
    fn no_change_that_does_not_say_so_becomes_permanent() {
        let both = [false, true];
        for (origin, is_trial, undoes) in [Origin::Person, Origin::File]
            .into_iter()
            .flat_map(|origin| both.map(|trial| (origin, trial)))
            .flat_map(|(origin, trial)| both.map(|undoes| (origin, trial, undoes)))
        {
            let next = Next { origin, changes: true, confirms: false, is_trial, undoes };
            assert_ne!(next.effect(), Effect::Confirms, "{next:?}");
        }
    }
}
