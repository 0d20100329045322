//! The layers of confinement that a host offers to a process, found by trying.

use crate::view;
use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The layers that the host offers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// True if processes can have users of their own.
    pub users: bool,
    /// The way to an empty network namespace, if there is one.
    pub network: Option<NetworkNamespace>,
    /// True if processes can have views of the host's files.
    pub views: bool,
    /// The version of the kernel's Landlock interface, 0 without Landlock (landlock(7)). Versions above 6 count as 6.
    pub landlock: u32,
    /// True if the kernel filters system calls.
    pub calls: bool,
}

/// A way to an empty network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NetworkNamespace {
    /// By privilege (CAP_SYS_ADMIN).
    Privileged,
    /// Inside a user namespace (user_namespaces(7)).
    InUserNamespace,
}

impl Host {
    /// Finds the layers by trying each. Changes the namespaces of the calling process, which must have one thread: only
    /// for a process that ends afterwards.
    pub fn probe() -> Self {
        Host {
            users: can_change_users(),
            landlock: landlock_version(),
            calls: can_filter_calls(),
            network: network(),
            // In the namespaces of the step before.
            views: view::enter(&view::HIDDEN.map(PathBuf::from), &[]).is_ok(),
        }
    }

    /// Returns the layers that the host does not offer, each with the reason.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut unless = |offered: bool, layer: &str| {
            if !offered {
                missing.push(layer.to_owned());
            }
        };
        unless(
            self.users,
            "users of their own: the router does not run as root, or its user namespace has too few users",
        );
        unless(
            self.network.is_some(),
            "empty network namespaces: neither CAP_SYS_ADMIN nor user namespaces are there",
        );
        unless(self.views, "views of the host's files: the kernel refuses mount namespaces or mounts");
        unless(self.landlock > 0, "Landlock: the kernel has none, or it is not among the kernel's `lsm=`");
        let scopes = self.landlock == 0 || self.landlock >= 6;
        unless(
            scopes,
            "signals kept inside the confinement: Landlock before interface 6 (Linux 6.12) lacks them",
        );
        unless(self.calls, "filters of system calls: the kernel has no seccomp filters");
        missing
    }
}

fn can_change_users() -> bool {
    // In a user namespace of one user there is no other to become.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    has_many_users(&map)
        && [caps::Capability::CAP_SETUID, caps::Capability::CAP_SETGID]
            .iter()
            .all(|capability| caps::has_cap(None, caps::CapSet::Effective, *capability).unwrap_or(false))
}

/// Returns true if a user namespace has the users of a whole host (user_namespaces(7), `uid_map`).
pub(crate) fn has_many_users(map: &str) -> bool {
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<u64>() >= 65_536
}

/// Returns true if a user namespace has a user (user_namespaces(7), `uid_map`).
pub fn has_user(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next().unwrap_or(0), numbers.next(), numbers.next().unwrap_or(0));
        (first..first.saturating_add(count)).contains(&u64::from(user))
    })
}

fn landlock_version() -> u32 {
    let supports = |interface: ABI| {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let handled = ruleset.handle_access(AccessFs::from_all(interface));
        let scopes = Scope::from_all(interface);
        let scoped =
            handled.and_then(|ruleset| if scopes.is_empty() { Ok(ruleset) } else { ruleset.scope(scopes) });
        scoped.and_then(|ruleset| ruleset.create()).is_ok()
    };
    let interfaces = [(6, ABI::V6), (5, ABI::V5), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
    interfaces.into_iter().find(|(_, interface)| supports(*interface)).map_or(0, |(version, _)| version)
}

fn can_filter_calls() -> bool {
    fs::read_to_string("/proc/self/status").unwrap_or_default().contains("\nSeccomp_filters:")
}

fn network() -> Option<NetworkNamespace> {
    let empty = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    if unshare(empty).is_ok() {
        return Some(NetworkNamespace::Privileged);
    }
    unshare(CloneFlags::CLONE_NEWUSER | empty).is_ok().then_some(NetworkNamespace::InUserNamespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_users_are_read() {
        let host = "         0          0 4294967295\n";
        assert!(has_many_users(host) && has_user(host, 78_000));
        let alone = "1000 1000 1\n";
        assert!(!has_many_users(alone) && has_user(alone, 1000) && !has_user(alone, 0));
        let container = "0 100000 65536\n";
        assert!(has_many_users(container) && !has_user(container, 78_000));
        assert!(!has_many_users("") && !has_user("x y z\n", 1));
    }

    #[test]
    fn missing_layers_are_named() {
        let network = Some(NetworkNamespace::Privileged);
        let all = Host { users: true, network, views: true, landlock: 6, calls: true };
        assert!(all.missing().is_empty());
        assert_eq!(Host { landlock: 3, ..all }.missing().len(), 1);
        assert_eq!(Host::default().missing().len(), 5);
    }
}
