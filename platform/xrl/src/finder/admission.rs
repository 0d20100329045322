//! Who is let in, by which word, and with which rights; what is refused is counted. Pure, as the Finder's whole state.

use super::acl::{Granted, Identity, Peer, Principal, Secret, draw_grant};
use super::actions::PeoplesActions;
use super::core::Core;
use super::denials::Denial;
use super::life::LifeQueue;
use super::records::{Client, ClientId, MAX_NAME};
use crate::XrlError;
use crate::idl::finder::v1::{RefusalReport, ReportRefusalsRequest};
use crate::server::registry::MAX_REVOKED;
use crate::wire::denied::Denied;
use crate::wire::frame::Key;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Characters of a denial's subject.
const MAX_SUBJECT: usize = 4 * MAX_NAME;

impl Client {
    fn notify_revoked(&mut self, grant: u64) {
        if self.revoked.len() == MAX_REVOKED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(grant);
    }
}

impl Core {
    /// Sets the rights of a secret's owner. If the owner loses a right, its keys are void at once; otherwise they stay
    /// valid until the owner has resolved anew.
    pub(crate) fn set_principal(
        &mut self,
        secret: Secret,
        principal: Principal,
        random: &mut dyn FnMut() -> Key,
    ) {
        self.grant(Identity::Secret(secret), principal, random);
    }

    fn grant(&mut self, identity: Identity, principal: Principal, random: &mut dyn FnMut() -> Key) {
        let old = self.acl.get(&identity);
        let kept = old.filter(|old| principal.includes(&old.principal)).map(|old| old.grant);
        let granted = Granted { principal, grant: kept.unwrap_or_else(|| draw_grant(random)) };
        let old = self.acl.insert(identity, granted);
        self.invalidate_all_of(identity);
        if let (Some(old), None) = (old, kept) {
            self.revoke(old.grant);
        }
    }

    pub(crate) fn remove_principal(&mut self, secret: &Secret) {
        self.withdraw(Identity::Secret(*secret));
    }

    /// Asks again for the rights of each user who is or was connected without a secret.
    pub(crate) fn review_people(
        &mut self,
        people: &dyn Fn(Peer) -> Option<Principal>,
        random: &mut dyn FnMut() -> Key,
    ) {
        let users = self.acl.keys().filter_map(|identity| match identity {
            Identity::User(uid) => Some(*uid),
            Identity::Secret(_) => None,
        });
        for uid in users.collect::<Vec<_>>() {
            let identity = Identity::User(uid);
            match people(Peer { pid: 0, uid }) {
                Some(person) if self.acl.get(&identity).is_some_and(|old| old.principal == person) => {}
                Some(person) => self.grant(identity, person, random),
                None => self.withdraw(identity),
            }
        }
    }

    fn withdraw(&mut self, identity: Identity) {
        let removed = self.acl.remove(&identity);
        self.invalidate_all_of(identity);
        if let Some(removed) = removed {
            self.revoke(removed.grant);
        }
    }

    /// Notifies every process with targets that the keys of a grant are void.
    fn revoke(&mut self, grant: u64) {
        if self.revoked.len() == MAX_REVOKED {
            self.revoked.pop_front();
        }
        self.revoked.push_back(grant);
        let owners: BTreeSet<ClientId> = self.targets.values().map(|t| t.owner).collect();
        for owner in owners {
            if let Some(client) = self.clients.get_mut(&owner) {
                client.notify_revoked(grant);
                self.woken.push(owner);
            }
        }
    }

    pub(crate) fn take_actions(&mut self) -> PeoplesActions {
        std::mem::take(&mut self.actions)
    }

    /// Takes the denials since the last call, and the number of those that were counted together.
    pub(crate) fn take_denials(&mut self) -> (Vec<(Denial, u64)>, u64) {
        self.denials.take()
    }

    pub(super) fn deny(&mut self, id: ClientId, denied: Denied, subject: &str) {
        let subject = subject.chars().take(MAX_SUBJECT).collect();
        let Some(client) = self.clients.get(&id) else { return };
        let principal = self.acl.get(&client.identity).map(|g| g.principal.name.clone()).unwrap_or_default();
        let (pid, uid) = (client.pid, client.uid);
        self.denials.note(Denial { denied, principal, pid, uid, subject, reporter: String::new() }, 1);
    }

    /// Takes a process's report of what it refused, and of how much more it refused without details.
    pub(crate) fn report(
        &mut self,
        id: ClientId,
        reports: Vec<RefusalReport>,
        others: u64,
    ) -> Result<(), XrlError> {
        let (_, principal) = self.client(id)?;
        let reporter = principal.name.clone();
        self.reported_by(&reporter, reports, others)
    }

    /// Takes the refusals of the Finder's own connections.
    pub(crate) fn refused(&mut self, refused: ReportRefusalsRequest) {
        // The numbers are the Finder's own.
        let _all_known = self.reported_by("", refused.refusals, refused.others);
    }

    fn reported_by(
        &mut self,
        reporter: &str,
        reports: Vec<RefusalReport>,
        others: u64,
    ) -> Result<(), XrlError> {
        for report in reports {
            let denied = Denied::reported(report.denied)
                .ok_or_else(|| XrlError::BadArguments("denied: expected 4 to 8".to_owned()))?;
            let denial = Denial {
                denied,
                principal: report.claimed.chars().take(MAX_NAME).collect(),
                pid: report.pid,
                uid: report.uid.unwrap_or(u32::MAX),
                subject: report.subject.chars().take(MAX_SUBJECT).collect(),
                reporter: reporter.to_owned(),
            };
            self.denials.note(denial, report.times.max(1));
        }
        self.denials.others(others);
        Ok(())
    }

    /// Invalidates the resolutions of clients: calls may not be allowed any more.
    fn invalidate_all_of(&mut self, identity: Identity) {
        for (id, client) in self.clients.iter_mut().filter(|(_, c)| c.identity == identity) {
            let names = std::mem::take(&mut client.resolved).into_keys();
            client.invalid.extend(names);
            self.woken.push(*id);
        }
    }

    /// Lets a client in: by its secret, or without a secret by its user, whose present rights are `person`.
    pub(crate) fn hello(
        &mut self,
        id: ClientId,
        peer: Peer,
        secret: &[u8],
        person: Option<Principal>,
        random: &mut dyn FnMut() -> Key,
    ) -> Result<String, XrlError> {
        let Peer { pid, uid } = peer;
        let identity = match <Secret>::try_from(secret) {
            Ok(secret) => Some(Identity::Secret(secret)).filter(|identity| {
                let owner = self.acl.get(identity).map(|granted| granted.principal.uid);
                owner.is_some_and(|owner| owner.is_none_or(|owner| owner == uid || uid == 0))
            }),
            Err(_) if secret.is_empty() => {
                let identity = Identity::User(uid);
                match person {
                    Some(person) if self.acl.get(&identity).is_some_and(|old| old.principal == person) => {}
                    Some(person) => self.grant(identity, person, random),
                    None => self.withdraw(identity),
                }
                Some(identity)
            }
            Err(_) => None,
        };
        let granted =
            identity.and_then(|identity| Some((identity, self.acl.get(&identity)?.principal.name.clone())));
        let Some((identity, name)) = granted else {
            let (principal, subject, reporter) = (String::new(), "Hello".to_owned(), String::new());
            let denied = Denied::Secret;
            self.denials.note(Denial { denied, principal, pid, uid, subject, reporter }, 1);
            let why = if secret.is_empty() {
                format!("user {uid} has no role")
            } else {
                "unknown secret".to_owned()
            };
            return Err(XrlError::AccessDenied(why));
        };
        if let Identity::User(_) = identity {
            self.actions.connected(&name, peer);
        }
        self.clients.entry(id).or_insert_with(|| Client {
            identity,
            pid,
            uid,
            watches: BTreeSet::new(),
            resolved: BTreeMap::new(),
            lives: LifeQueue::default(),
            invalid: BTreeSet::new(),
            revoked: VecDeque::new(),
        });
        Ok(name)
    }

    /// The client and its rights; an error without a secret or with a revoked secret.
    pub(super) fn client(&self, id: ClientId) -> Result<(&Client, &Principal), XrlError> {
        let denied = || XrlError::AccessDenied("say Hello with a secret first".to_owned());
        let client = self.clients.get(&id).ok_or_else(denied)?;
        let granted = self.acl.get(&client.identity).ok_or_else(denied)?;
        Ok((client, &granted.principal))
    }

    pub(crate) fn check(&self, id: ClientId) -> Result<(), XrlError> {
        self.client(id).map(|_| ())
    }
}
