//! The gateways that groups looked up.

use super::looked_up::LookedUp;
use alloc::collections::BTreeMap;
use sluice_base::{Address, AnyPrefix, GroupId};

/// The groups that looked up a gateway, by gateway, with the length of the prefix that reached the gateway.
#[derive(Default)]
pub struct Gateways {
    users: BTreeMap<Address, BTreeMap<GroupId, u8>>,
}

impl Gateways {
    pub(crate) fn note(&mut self, group: GroupId, gateways: &[LookedUp]) {
        for looked_up in gateways {
            self.users.entry(looked_up.gateway).or_default().insert(group, looked_up.len);
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId, gateways: &[LookedUp]) {
        for LookedUp { gateway, .. } in gateways {
            if let Some(users) = self.users.get_mut(gateway) {
                users.remove(&group);
                if users.is_empty() {
                    self.users.remove(gateway);
                }
            }
        }
    }

    /// Returns the groups that a changed route of `prefix` may concern: a gateway that a longer prefix reaches is not concerned.
    pub(crate) fn concerned(&self, prefix: AnyPrefix) -> impl Iterator<Item = GroupId> {
        let groups = self.users.range(prefix.addr()..=prefix.last_addr()).flat_map(|(_, groups)| groups);
        groups.filter(move |(_, len)| **len <= prefix.len()).map(|(group, _)| *group)
    }

    /// Returns the groups that looked up a gateway.
    pub(crate) fn users(&self, gateway: Address) -> impl Iterator<Item = GroupId> {
        self.users.get(&gateway).into_iter().flat_map(|users| users.keys().copied())
    }
}
