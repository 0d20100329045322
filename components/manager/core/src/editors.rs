//! The editors of the configuration, and their permissions. The texts themselves are with the manager's process.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sluice_base::{Duration, Instant};

/// The candidate that an editor works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The shared candidate.
    Shared,
    /// A candidate of its own.
    Private,
    /// The shared candidate, and nobody else changes or commits anything.
    Exclusive,
}

/// An editor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Editor {
    /// As the log of revisions shows it.
    pub user: String,
    /// The candidate.
    pub mode: Mode,
    /// Since when, in milliseconds of Unix time.
    pub since_unix_ms: u64,
    expires: Instant,
}

/// The reason why something is not allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// An editor has exclusive access to the configuration.
    Exclusive(String),
    /// The shared candidate has uncommitted changes, so that exclusive access is refused.
    Changed(Vec<String>),
    /// There are as many editors as there may be.
    TooMany,
    /// There is no such editor; perhaps the editor was silent for too long.
    Gone,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Conflict::Exclusive(user) => {
                write!(f, "{user} edits the configuration exclusively; wait until that is over")
            }
            Conflict::Changed(users) => {
                f.write_str("the shared candidate has changes that were not committed")?;
                if !users.is_empty() {
                    write!(f, " ({} edit it)", users.join(", "))?;
                }
                f.write_str("; commit or discard them first, or edit in private")
            }
            Conflict::TooMany => f.write_str("too many edit the configuration at once; wait until one has ended"),
            Conflict::Gone => {
                f.write_str("this editor is gone, as it said nothing for too long or the manager was started anew; begin again")
            }
        }
    }
}

/// The present editors.
#[derive(Default)]
pub struct Editors {
    editors: BTreeMap<u64, Editor>,
    last: u64,
}

impl Editors {
    /// The longest silence of an editor.
    pub const LEASE: Duration = Duration::from_secs(60);
    /// The most at once.
    pub const MOST: usize = 64;

    /// Begins editing. `changed`: whether the shared candidate differs from what runs.
    pub fn open(
        &mut self,
        now: Instant,
        user: String,
        mode: Mode,
        since_unix_ms: u64,
        changed: bool,
    ) -> Result<u64, Conflict> {
        self.may_change(None)?;
        if self.editors.len() >= Self::MOST {
            return Err(Conflict::TooMany);
        }
        if mode == Mode::Exclusive && changed {
            let sharing = self.editors.values().filter(|e| e.mode == Mode::Shared);
            return Err(Conflict::Changed(sharing.map(|e| e.user.clone()).collect()));
        }
        self.last += 1;
        self.editors.insert(self.last, Editor { user, mode, since_unix_ms, expires: now + Self::LEASE });
        Ok(self.last)
    }

    /// Ends editing.
    pub fn close(&mut self, id: u64) -> Option<Editor> {
        self.editors.remove(&id)
    }

    /// An editor has said something.
    pub fn renew(&mut self, now: Instant, id: u64) -> Result<&Editor, Conflict> {
        let editor = self.editors.get_mut(&id).ok_or(Conflict::Gone)?;
        editor.expires = now + Self::LEASE;
        Ok(editor)
    }

    /// Returns an error unless an editor, or with `None` a caller without an editor, may change or commit now.
    pub fn may_change(&self, id: Option<u64>) -> Result<(), Conflict> {
        let other = self.editors.iter().find(|(other, e)| e.mode == Mode::Exclusive && Some(**other) != id);
        other.map_or(Ok(()), |(_, editor)| Err(Conflict::Exclusive(editor.user.clone())))
    }

    /// Removes the editors silent for too long.
    pub fn expire(&mut self, now: Instant) -> Vec<(u64, Editor)> {
        self.editors.extract_if(.., |_, editor| editor.expires <= now).collect()
    }

    /// Returns the time when the next one expires.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.editors.values().map(|e| e.expires).min()
    }

    /// Iterates over every editor except `id`.
    pub fn others(&self, id: u64) -> impl Iterator<Item = &Editor> {
        self.editors.iter().filter(move |(other, _)| **other != id).map(|(_, editor)| editor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::default() + Duration::from_secs(s)
    }

    #[test]
    fn exclusive_keeps_others_out_until_it_is_gone() {
        let mut editors = Editors::default();
        let shared = editors.open(at(0), "ann".into(), Mode::Shared, 0, false).unwrap();
        let refused = editors.open(at(0), "bob".into(), Mode::Exclusive, 0, true);
        assert_eq!(refused, Err(Conflict::Changed(alloc::vec!["ann".into()])));
        let exclusive = editors.open(at(1), "bob".into(), Mode::Exclusive, 0, false).unwrap();
        assert_eq!(editors.may_change(Some(shared)), Err(Conflict::Exclusive("bob".into())));
        assert_eq!(editors.may_change(Some(exclusive)), Ok(()));
        assert!(editors.open(at(2), "eve".into(), Mode::Private, 0, false).is_err());
        editors.renew(at(50), shared).unwrap();
        assert_eq!(editors.next_deadline(), Some(at(61)));
        assert_eq!(editors.expire(at(61)).len(), 1);
        assert_eq!(editors.renew(at(62), exclusive).err(), Some(Conflict::Gone));
        assert_eq!(editors.may_change(Some(shared)), Ok(()));
        assert_eq!(editors.others(0).count(), 1);
        assert!(editors.close(shared).is_some() && editors.close(shared).is_none());
    }

    #[test]
    fn editors_are_bounded() {
        let mut editors = Editors::default();
        for _ in 0..Editors::MOST {
            editors.open(at(0), "x".into(), Mode::Private, 0, false).unwrap();
        }
        assert_eq!(editors.open(at(0), "x".into(), Mode::Private, 0, false), Err(Conflict::TooMany));
    }
}
