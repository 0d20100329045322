//! Limits of a principal: connections, running handlers, waiting replies and unfinished frames of one process's callers.
//!
//! A caller that has shown a secret or a key belongs to the account of its principal, another caller to the account of its
//! user's guests. An account has a fixed amount of everything: more connections divide the amount and do not multiply it.
//! So a principal that floods a process slows down its own calls only. Root and the operator have no account.

use super::service::nobody;
use super::turns::Turns;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

/// Concurrent handlers of a connection; at the limit the connection is not read.
pub const MAX_RUNNING: usize = 1024;

/// Octets of a connection's waiting replies; at the limit the connection is not read.
pub const MAX_REPLIES: usize = 4 << 20;

/// Connections of a principal to a process.
pub const MAX_CONNECTIONS: usize = 64;
/// Octets of an account's unfinished frames, for each octet of the longest frame that its principal may send: the buffer of
/// a frame is at most twice as long as the frame.
const UNFINISHED: usize = 2;
/// The least number of handlers that a connection may run.
const MIN_RUNNING: usize = 16;
/// The least number of octets of waiting replies.
const MIN_REPLIES: usize = 4096;

/// The owner of an account.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Owner {
    /// A principal.
    Principal(Rc<str>),
    /// The callers of a user, if the kernel reports the user, that have not shown a secret or a key.
    Guests(Option<u32>),
}

/// The connections of an owner.
#[derive(Default)]
struct Account {
    connections: Cell<usize>,
    /// Octets of buffers with unfinished frames.
    unfinished: Cell<usize>,
    turns: Arc<Turns>,
}

/// The accounts of a process's callers.
#[derive(Default)]
pub(crate) struct Accounts(RefCell<HashMap<Owner, Rc<Account>>>);

/// A connection's place in an account, given up on drop.
pub(crate) struct Membership {
    accounts: Rc<Accounts>,
    owner: Owner,
    account: Rc<Account>,
    connection: u64,
    /// This connection's part of the account's unfinished frames.
    unfinished: usize,
}

impl Accounts {
    /// Adds a connection to an account; `None` at the limit of a principal. (Guests have a limit at each listener.)
    pub(crate) fn join(self: &Rc<Self>, owner: Owner, connection: u64) -> Option<Membership> {
        let mut accounts = self.0.borrow_mut();
        let account = Rc::clone(accounts.entry(owner.clone()).or_default());
        let connections = account.connections.get();
        if connections >= MAX_CONNECTIONS && matches!(owner, Owner::Principal(_)) {
            return None;
        }
        account.connections.set(connections + 1);
        Some(Membership { accounts: Rc::clone(self), owner, account, connection, unfinished: 0 })
    }
}

impl Membership {
    /// The principal; empty for guests.
    pub(crate) fn principal(&self) -> Rc<str> {
        match &self.owner {
            Owner::Principal(principal) => Rc::clone(principal),
            Owner::Guests(_) => nobody(),
        }
    }

    /// Handlers that this connection may run.
    pub(crate) fn max_running(&self) -> usize {
        (MAX_RUNNING / self.account.connections.get()).max(MIN_RUNNING)
    }

    /// Octets of replies that may wait for this connection's caller.
    pub(crate) fn max_replies(&self) -> usize {
        (MAX_REPLIES / self.account.connections.get()).max(MIN_REPLIES)
    }

    /// Returns true if it is this connection's turn: the connections of an account have the time of one. Otherwise the
    /// connection's task is woken when its turn has come.
    pub(crate) fn begin_turn(&self, cx: &Context<'_>) -> bool {
        self.account.turns.begin(self.connection, cx)
    }

    /// Ends this connection's turn.
    pub(crate) fn end_turn(&self) {
        self.account.turns.end(self.connection, self.account.connections.get());
    }

    /// Counts this connection's buffer of an unfinished frame. Returns false if the account's buffers are larger than
    /// `longest`, the longest frame, allows.
    pub(crate) fn hold(&mut self, buffer: usize, longest: usize) -> bool {
        let all = self.account.unfinished.get() - self.unfinished + buffer;
        self.account.unfinished.set(all);
        self.unfinished = buffer;
        all <= longest.saturating_mul(UNFINISHED)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let account = &self.account;
        account.turns.forget(self.connection);
        account.unfinished.set(account.unfinished.get() - self.unfinished);
        account.connections.set(account.connections.get() - 1);
        if account.connections.get() == 0 {
            self.accounts.0.borrow_mut().remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_so_many_connections_and_no_more() {
        let accounts = Rc::new(Accounts::default());
        let (evil, good) = (Owner::Principal("evil".into()), Owner::Guests(Some(7)));
        let mut members: Vec<_> =
            (0..MAX_CONNECTIONS as u64).filter_map(|n| accounts.join(evil.clone(), n)).collect();
        assert_eq!(members.len(), MAX_CONNECTIONS);
        assert!(accounts.join(evil.clone(), 99).is_none());
        assert!(accounts.join(good.clone(), 99).is_some());
        members.pop();
        assert!(accounts.join(evil.clone(), 99).is_some());
        members.clear();
        assert!(accounts.0.borrow().is_empty());
    }

    #[test]
    fn connections_divide_what_a_principal_has() {
        let accounts = Rc::new(Accounts::default());
        let evil = Owner::Principal("evil".into());
        let first = accounts.join(evil.clone(), 0).expect("an empty account has room");
        assert_eq!((first.max_running(), first.max_replies()), (MAX_RUNNING, MAX_REPLIES));
        let others: Vec<_> = (1..16).filter_map(|n| accounts.join(evil.clone(), n)).collect();
        assert_eq!((first.max_running(), first.max_replies()), (MAX_RUNNING / 16, MAX_REPLIES / 16));
        drop(others);
        assert_eq!(first.max_running(), MAX_RUNNING);
    }

    #[test]
    fn unfinished_frames_have_a_limit_together() {
        let accounts = Rc::new(Accounts::default());
        let evil = Owner::Principal("evil".into());
        let mut members: Vec<_> = (0..3).filter_map(|n| accounts.join(evil.clone(), n)).collect();
        assert!(members[0].hold(1000, 1000) && members[1].hold(1000, 1000));
        assert!(!members[2].hold(1, 1000));
        assert!(members[2].hold(0, 1000) && members[0].hold(0, 1000) && members[2].hold(1000, 1000));
        members.clear();
        assert!(accounts.0.borrow().is_empty());
    }
}
