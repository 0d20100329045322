//! The confinement of a running process, as the kernel reports it, and its differences from the plan.

use crate::plan::{Network, Plan};
use caps::Capability;
use std::collections::BTreeSet;
use std::fs;
use std::str::FromStr;

/// The kernel's report on a process: `/proc/PID/status` and `/proc/PID/ns`. Landlock reports nothing about a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// The effective user.
    pub user: u32,
    /// The effective group and the further groups.
    pub groups: BTreeSet<u32>,
    /// The permitted capabilities, as a mask.
    pub capabilities: u64,
    /// The capabilities that an executed program could gain, as a mask.
    pub bounding: u64,
    /// True if no program that the process executes can gain privileges.
    pub no_new_privileges: bool,
    /// The number of filters of system calls.
    pub filters: u32,
    /// True if the process is in the network namespace of the asking process; `None` if the kernel does not answer.
    pub shares_network: Option<bool>,
    /// True if the process is in the mount namespace of the asking process; `None` if the kernel does not answer.
    pub shares_mounts: Option<bool>,
}

impl Observed {
    /// Asks the kernel about a process; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        let mut observed = Observed::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?);
        let shares = |kind: &str| {
            let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/{kind}")).ok();
            namespace(&pid.to_string()).zip(namespace("self")).map(|(its, own)| its == own)
        };
        observed.shares_network = shares("net");
        observed.shares_mounts = shares("mnt");
        Some(observed)
    }

    /// Parses the text of `/proc/PID/status` (proc(5)).
    pub fn parse(status: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().split_whitespace()
        };
        let number =
            |name: &str, place: usize| field(name).nth(place).and_then(|n| n.parse().ok()).unwrap_or(0);
        let mask = |name: &str| field(name).next().and_then(|n| u64::from_str_radix(n, 16).ok()).unwrap_or(0);
        let mut groups: BTreeSet<u32> = field("Groups").filter_map(|group| group.parse().ok()).collect();
        groups.insert(number("Gid", 1));
        Observed {
            user: number("Uid", 1),
            groups,
            capabilities: mask("CapPrm"),
            bounding: mask("CapBnd"),
            no_new_privileges: number("NoNewPrivs", 0) == 1,
            filters: number("Seccomp_filters", 0),
            shares_network: None,
            shares_mounts: None,
        }
    }

    /// Returns the differences from a plan, each in words: the state in the kernel, and the intended one.
    pub fn differences(&self, plan: &Plan) -> Vec<String> {
        let mut differences = Vec::new();
        if let Some(user) = plan.user {
            if self.user != user {
                differences.push(format!("runs as user {}, not {user}", self.user));
            }
            let others: Vec<String> =
                self.groups.iter().filter(|g| **g != user).map(u32::to_string).collect();
            if !others.is_empty() {
                differences.push(format!("is in the groups {}", others.join(", ")));
            }
        }
        let kept = plan.capabilities.iter().filter_map(|name| Capability::from_str(name).ok());
        let kept = kept.fold(0, |mask, capability| mask | capability.bitmask());
        let more = names(self.capabilities & !kept);
        if !more.is_empty() {
            differences.push(format!("has the capabilities {}", more.join(", ")));
        }
        // Without a user of its own, the bounding set of the router stays as it was.
        if plan.user.is_some() && self.bounding & !kept != 0 {
            differences
                .push(format!("could gain the capabilities {}", names(self.bounding & !kept).join(", ")));
        }
        if !self.no_new_privileges {
            differences.push("may gain privileges by executing programs".into());
        }
        if plan.calls.is_some() && self.filters == 0 {
            differences.push("has no filter of system calls".into());
        }
        if plan.network != Network::Kept && self.shares_network == Some(true) {
            differences.push("is in the router's network namespace".into());
        }
        if plan.view.is_some() && self.shares_mounts == Some(true) {
            differences.push("sees the host's files".into());
        }
        differences
    }
}

/// Returns the names of the capabilities of a mask.
pub fn names(mask: u64) -> Vec<String> {
    let all = caps::all().into_iter().filter(|capability| mask & capability.bitmask() != 0);
    let mut names: Vec<String> = all.map(|capability| capability.to_string()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CallList, View};

    const CONFINED: &str = "Name:\tsluice\nUid:\t78000\t78000\t78000\t78000\nGid:\t78000\t78000\t78000\t78000\n\
                            Groups:\t \nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
                            CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t5\n";

    fn plan() -> Plan {
        Plan {
            user: Some(78_000),
            network: Network::Empty,
            view: Some(View::default()),
            calls: Some(CallList::Component),
            ..Plan::default()
        }
    }

    #[test]
    fn a_process_as_planned_has_no_differences() {
        let observed = Observed { shares_network: Some(false), ..Observed::parse(CONFINED) };
        assert_eq!(observed.differences(&plan()), Vec::<String>::new());
    }

    #[test]
    fn every_difference_is_said() {
        let root = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t27 \nCapPrm:\t0000000000001000\n\
                    CapBnd:\t0000000000003000\nNoNewPrivs:\t0\nSeccomp_filters:\t0\n";
        let observed =
            Observed { shares_network: Some(true), shares_mounts: Some(true), ..Observed::parse(root) };
        assert_eq!(
            observed.differences(&plan()),
            [
                "runs as user 0, not 78000",
                "is in the groups 0, 27",
                "has the capabilities CAP_NET_ADMIN",
                "could gain the capabilities CAP_NET_ADMIN, CAP_NET_RAW",
                "may gain privileges by executing programs",
                "has no filter of system calls",
                "is in the router's network namespace",
                "sees the host's files",
            ]
        );
        let network = Plan { capabilities: vec!["CAP_NET_ADMIN".into(), "CAP_NET_RAW".into()], ..plan() };
        assert!(!observed.differences(&network).iter().any(|d| d.contains("capabilities")));
    }

    #[test]
    fn text_of_another_form_is_nothing() {
        assert_eq!(Observed::parse("Uid\nGid:\nCapPrm:\tzz\n").capabilities, 0);
    }
}
