//! A user of its own for each component class, from a block of numbers that the manager owns.
//!
//! Debian and systemd leave the numbers from 65,536 to 99,999 unused: Debian's ranges for packages and people end at
//! 64,999 (Debian policy, section 9.2.2), systemd's dynamic users at 65,519 (its UIDS-GIDS document), and subordinate
//! users begin at 100,000 (subuid(5)). The allocation is kept in the state folder, so that a class has the same user in
//! every life of the router.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The first user of the block if the operator names none.
pub const FIRST: u32 = 78_000;
/// The number of users in the block.
pub const BLOCK: u32 = 256;

const FILE: &str = "users.json";

/// The users of component classes.
#[derive(Debug)]
pub struct Users {
    file: PathBuf,
    allocated: Allocated,
}

/// The allocation as written to the state folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allocated {
    first: u32,
    classes: BTreeMap<String, u32>,
}

impl Users {
    /// Reads the allocation of a state folder. A block that begins elsewhere than `first`, or a damaged file, begins anew.
    pub fn open(state_dir: &Path, first: u32) -> Self {
        let file = state_dir.join(FILE);
        let allocated = fs::read(&file).ok().and_then(|octets| parse(&octets)).filter(|a| a.first == first);
        let allocated = allocated.unwrap_or(Allocated { first, classes: BTreeMap::new() });
        Users { file, allocated }
    }

    /// Returns the user of a class. A class without a user gets the first free user of the block. `taken` returns true for
    /// a number that a user or a running process of the host has.
    ///
    /// # Errors
    ///
    /// If no user is free.
    pub fn of_class(&mut self, class: &str, taken: impl Fn(u32) -> bool) -> io::Result<u32> {
        if let Some(user) = self.allocated.classes.get(class) {
            return Ok(*user);
        }
        let user = self.allocated.free(taken).ok_or_else(|| {
            let (first, last) = (self.allocated.first, self.allocated.first.saturating_add(BLOCK - 1));
            io::Error::other(format!(
                "every user from {first} to {last} is taken; name another block with --first-user"
            ))
        })?;
        self.allocated.classes.insert(class.into(), user);
        Ok(user)
    }

    /// Returns the users by class.
    pub fn classes(&self) -> &BTreeMap<String, u32> {
        &self.allocated.classes
    }

    /// Writes the allocation.
    ///
    /// # Errors
    ///
    /// If the state folder cannot be written; the allocation holds for the life of the router all the same.
    pub fn write(&self) -> io::Result<()> {
        let new = self.file.with_extension("json.new");
        let mut file =
            fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&self.allocated)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.file)
    }
}

impl Allocated {
    fn free(&self, taken: impl Fn(u32) -> bool) -> Option<u32> {
        let block = self.first..=self.first.checked_add(BLOCK - 1)?;
        let given = |user: &u32| self.classes.values().any(|other| other == user);
        block.into_iter().find(|user| !given(user) && !taken(*user))
    }
}

/// Parses an allocation. `None` for text that no router wrote: a number outside the block, or one number for two classes.
fn parse(octets: &[u8]) -> Option<Allocated> {
    let allocated: Allocated = serde_json::from_slice(octets).ok()?;
    let last = allocated.first.checked_add(BLOCK - 1)?;
    let mut users: Vec<u32> = allocated.classes.values().copied().collect();
    users.sort_unstable();
    let distinct = users.windows(2).all(|pair| pair[0] < pair[1]);
    let in_block = users.iter().all(|user| (allocated.first..=last).contains(user));
    (allocated.first > 0 && distinct && in_block).then_some(allocated)
}

/// Returns true if the host knows a user or a group of this number, or runs a process of the user.
pub fn is_taken(user: u32) -> bool {
    let known = nix::unistd::User::from_uid(user.into()).is_ok_and(|user| user.is_some());
    let group = nix::unistd::Group::from_gid(user.into()).is_ok_and(|group| group.is_some());
    known || group || runs(user)
}

fn runs(user: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbered =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit());
    processes.filter(numbered).any(|entry| entry.metadata().is_ok_and(|process| process.uid() == user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_keeps_its_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut users = Users::open(folder.path(), 1000);
        let bgp = users.of_class("bgp", |_| false).expect("free");
        let rip = users.of_class("rip", |_| false).expect("free");
        assert_eq!((bgp, rip), (1000, 1001));
        users.write().expect("written");
        let mut again = Users::open(folder.path(), 1000);
        assert_eq!(again.of_class("rip", |_| true).ok(), Some(1001));
        // Another block: all users are new.
        assert_eq!(Users::open(folder.path(), 2000).of_class("rip", |_| false).ok(), Some(2000));
    }

    #[test]
    fn a_taken_number_is_skipped_and_a_full_block_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut users = Users::open(folder.path(), 1000);
        assert_eq!(users.of_class("bgp", |user| user < 1005).ok(), Some(1005));
        let error = users.of_class("rip", |_| true).expect_err("nothing is free");
        assert!(error.to_string().contains("1000 to 1255"), "{error}");
    }

    #[test]
    fn a_damaged_file_begins_anew() {
        for damaged in [
            "",
            "{}",
            "{\"first\":1000,\"classes\":{\"bgp\":0}}",
            "{\"first\":1000,\"classes\":{\"bgp\":1000,\"rip\":1000}}",
            "{\"first\":4294967295,\"classes\":{}}",
        ] {
            assert_eq!(parse(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
