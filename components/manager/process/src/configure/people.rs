//! People: users of this host, by the kernel's word, and their roles.

use super::commands::{self, CommandRow};
use crate::configure::model::Model;
use nix::unistd::{Gid, Group, User, geteuid, getgrouplist};
use serde::Deserialize;
use sluice_config::{Secrets, Tree, with_role_anywhere};
use sluice_manager::roles::{PathPattern, Role, Statements};
use sluice_xrl::{Peer, Principal};
use std::cell::RefCell;
use std::ffi::CString;

/// The group whose members are administrators.
const ADMINISTRATORS: &str = "sluice-admin";
/// The group whose members may look.
const READERS: &str = "sluice";
/// The beginning of a person's name as a principal; no component has such a name.
const PERSON: &str = "user:";

/// The people whom the configuration names (`system user`, `system role`).
#[derive(Default)]
pub struct People {
    configured: RefCell<Configured>,
    /// The statements by which a router is drained.
    drains: RefCell<Vec<PathPattern>>,
    /// The commands of components, and their calls.
    commands: RefCell<Vec<CommandRow>>,
}

impl CommandRow {
    /// Returns true if the command begins with words.
    fn begins_with(&self, words: &str) -> bool {
        let mut own = self.words.split_whitespace();
        words.split_whitespace().all(|word| own.next() == Some(word))
    }
}

/// The part of the configuration about people.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Configured {
    user: Vec<ConfiguredUser>,
    role: Vec<ConfiguredRole>,
}

#[derive(Deserialize)]
struct ConfiguredUser {
    name: String,
    role: String,
    uid: Option<u32>,
    group: Option<String>,
}

#[derive(Deserialize)]
struct ConfiguredRole {
    name: String,
    #[serde(default)]
    call: Vec<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
}

/// A user of the host with the numbers of its groups.
struct HostUser {
    uid: u32,
    /// Empty for a number without a name.
    name: String,
    groups: Vec<Gid>,
}

impl HostUser {
    fn of(uid: u32) -> Self {
        let user = User::from_uid(uid.into()).ok().flatten();
        let groups = user.as_ref().and_then(|user| {
            let name = CString::new(user.name.as_str()).ok()?;
            getgrouplist(&name, user.gid).ok()
        });
        HostUser {
            uid,
            name: user.map(|user| user.name).unwrap_or_default(),
            groups: groups.unwrap_or_default(),
        }
    }

    fn is_in(&self, group: &str) -> bool {
        let gid: Option<Gid> = Group::from_name(group).ok().flatten().map(|group| group.gid);
        gid.is_some_and(|gid| self.groups.contains(&gid))
    }
}

impl ConfiguredUser {
    fn is(&self, user: &HostUser) -> bool {
        match (&self.group, self.uid) {
            (Some(group), _) => user.is_in(group),
            (None, Some(uid)) => uid == user.uid,
            (None, None) => self.name == user.name,
        }
    }
}

impl People {
    /// Reads the people of a configuration.
    pub fn new(model: &Model, tree: &Tree) -> Self {
        let people = People::default();
        people.configure(model, tree);
        people
    }

    /// Replaces the people by those of another configuration, or of the same with other packages.
    pub fn configure(&self, model: &Model, tree: &Tree) {
        let places = with_role_anywhere(model.schema.nodes(), sluice_config::Role::Drain);
        let drains = places.iter().map(|place| {
            let words = place.path.iter().enumerate().flat_map(|(index, name)| {
                let key = place.lists.contains(&index).then(|| "*".to_owned());
                std::iter::once((*name).to_owned()).chain(key)
            });
            words.collect()
        });
        self.drains.replace(drains.collect());
        // The texts were checked when their packages were admitted.
        let texts = model.packages.iter().filter_map(|package| package.commands.as_deref());
        let commands = texts.flat_map(commands::rows);
        self.commands.replace(commands.collect());
        let part = model.schema.json(tree, &["system".to_owned()], Secrets::Hidden).unwrap_or_default();
        // The schema has checked every value; without the statement there is nobody.
        self.configured.replace(serde_json::from_value(part).unwrap_or_default());
    }

    /// Returns the role of a user. Root and the user who started the router are administrators, whatever the
    /// configuration contains; others have the role of the first statement about them, or of their groups.
    fn role_of(&self, uid: u32) -> Option<Role> {
        if uid == 0 || uid == geteuid().as_raw() {
            return Some(Role::admin());
        }
        let user = HostUser::of(uid);
        let configured = self.configured.borrow();
        if let Some(entry) = configured.user.iter().find(|entry| entry.is(&user)) {
            return self.named(&configured, &entry.role);
        }
        match () {
            () if user.is_in(ADMINISTRATORS) => Some(Role::admin()),
            () if user.is_in(READERS) => Some(Role::read_only()),
            () => None,
        }
    }

    /// Returns the role of the user of this host with a name; a number is the name of a user without one.
    pub(crate) fn role_of_name(&self, name: &str) -> Option<Role> {
        let known = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.role_of(known.or_else(|| name.parse().ok())?)
    }

    fn named(&self, configured: &Configured, name: &str) -> Option<Role> {
        match name {
            "read-only" => Some(Role::read_only()),
            "operator" => Some(Role::operator(self.drains.borrow().clone())),
            "admin" => Some(Role::admin()),
            own => {
                let role = configured.role.iter().find(|role| role.name == own)?;
                let known = self.commands.borrow();
                let is_named = |row: &&CommandRow| role.command.iter().any(|words| row.begins_with(words));
                let by_command = known.iter().filter(is_named).filter_map(|row| row.call.clone());
                let calls = role.call.iter().cloned().chain(by_command).collect();
                let mut rights = Role::own(calls, patterns(&role.write));
                if !role.read.is_empty() {
                    rights.reads = Statements::Below(patterns(&role.read));
                }
                Some(rights)
            }
        }
    }

    /// Returns the rights of a person at the Finder.
    pub fn principal(&self, peer: Peer) -> Option<Principal> {
        let role = self.role_of(peer.uid)?;
        Some(Principal {
            name: principal_name(&user_name(peer.uid)),
            uid: Some(peer.uid),
            may_register: role.targets,
            may_call: role.calls,
            may_read: true,
            guarded: Vec::new(),
        })
    }

    /// Returns the statements that a caller may change.
    pub(crate) fn writes_of(&self, principal: &str, uid: Option<u32>) -> Statements {
        self.part_of(principal, uid, |role| role.writes)
    }

    /// Returns the statements that a caller may read.
    pub fn reads_of(&self, principal: &str, uid: Option<u32>) -> Statements {
        self.part_of(principal, uid, |role| role.reads)
    }

    /// Returns a person's part of the configuration. A component's rights say whether it may make the call at all; such a
    /// call concerns every statement.
    fn part_of(&self, principal: &str, uid: Option<u32>, part: impl Fn(Role) -> Statements) -> Statements {
        match person(principal) {
            None => Statements::Everything,
            Some(_) => uid.and_then(|uid| self.role_of(uid)).map_or(Statements::NONE, part),
        }
    }
}

/// Returns the words of each path.
fn patterns(paths: &[String]) -> Vec<PathPattern> {
    paths.iter().map(|path| path.split_whitespace().map(Into::into).collect()).collect()
}

/// Returns the name of a person as a principal.
pub(crate) fn principal_name(person: &str) -> String {
    format!("{PERSON}{person}")
}

/// Returns the person behind a principal; `None` for a component.
pub fn person(principal: &str) -> Option<&str> {
    principal.strip_prefix(PERSON)
}

/// Returns the name of a user, or the number of a user without a name.
pub fn user_name(uid: u32) -> String {
    let known = User::from_uid(uid.into()).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}
