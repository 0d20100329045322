//! Limits of a principal: connections, running handlers, waiting replies and unfinished frames of one process's callers.
//!
//! A caller that has shown a secret or a key belongs to the account of its principal. An account has a fixed amount of
//! everything: more connections divide the amount and do not multiply it. So a principal that floods a process slows down
//! its own calls only. Root and the operator have no account.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::server::{MAX_REPLIES, MAX_RUNNING};
use crate::stream::Turn;

/// Connections of a principal to a process.
pub const MAX_CONNECTIONS: usize = 64;
/// Octets of an account's unfinished frames, for each octet of the longest frame that its principal may send: the buffer of
/// a frame is at most twice as long as the frame.
const UNFINISHED: usize = 2;
/// The least number of handlers that a connection may run.
const MIN_RUNNING: usize = 16;
/// The least number of octets of waiting replies.
const MIN_REPLIES: usize = 4096;

/// The connections of a principal.
#[derive(Default)]
struct Account {
    connections: Cell<usize>,
    /// Octets of buffers with unfinished frames.
    unfinished: Cell<usize>,
    /// The connection whose turn it is.
    turn_of: Cell<Option<u64>>,
    /// The connections that wait for their turn.
    waiting: RefCell<VecDeque<(u64, Waker)>>,
}

impl Account {
    /// Passes the turn to the connection that has waited longest, after the process has checked every socket.
    fn pass_turn(&self) {
        let next = self.waiting.borrow_mut().pop_front();
        self.turn_of.set(next.as_ref().map(|(connection, _)| *connection));
        if let Some((_, waker)) = next {
            Turn::wake_later(&waker);
        }
    }
}

/// The accounts of a process's callers.
#[derive(Default)]
pub(crate) struct Accounts(RefCell<HashMap<Rc<str>, Rc<Account>>>);

/// A connection's place in an account, given up on drop.
pub(crate) struct Membership {
    accounts: Rc<Accounts>,
    principal: Rc<str>,
    account: Rc<Account>,
    connection: u64,
    /// This connection's part of the account's unfinished frames.
    unfinished: usize,
}

impl Accounts {
    /// Adds a connection to a principal's account; `None` at the limit.
    pub(crate) fn join(self: &Rc<Self>, principal: &Rc<str>, connection: u64) -> Option<Membership> {
        let mut accounts = self.0.borrow_mut();
        let account = Rc::clone(accounts.entry(Rc::clone(principal)).or_default());
        let connections = account.connections.get();
        if connections >= MAX_CONNECTIONS {
            return None;
        }
        account.connections.set(connections + 1);
        let (accounts, principal) = (Rc::clone(self), Rc::clone(principal));
        Some(Membership { accounts, principal, account, connection, unfinished: 0 })
    }
}

impl Membership {
    /// The principal.
    pub(crate) fn principal(&self) -> &Rc<str> {
        &self.principal
    }

    /// Handlers that this connection may run.
    pub(crate) fn max_running(&self) -> usize {
        (MAX_RUNNING / self.account.connections.get()).max(MIN_RUNNING)
    }

    /// Octets of replies that may wait for this connection's caller.
    pub(crate) fn max_replies(&self) -> usize {
        (MAX_REPLIES / self.account.connections.get()).max(MIN_REPLIES)
    }

    /// Returns true if it is this connection's turn: a principal has one turn at a time, whatever number of connections
    /// it has. Otherwise the connection's task is woken when its turn has come.
    pub(crate) fn begin_turn(&self, cx: &Context<'_>) -> bool {
        let account = &self.account;
        if account.turn_of.get().is_none_or(|connection| connection == self.connection) {
            account.turn_of.set(Some(self.connection));
            return true;
        }
        let mut waiting = account.waiting.borrow_mut();
        match waiting.iter_mut().find(|(connection, _)| *connection == self.connection) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => waiting.push_back((self.connection, cx.waker().clone())),
        }
        false
    }

    /// Ends this connection's turn.
    pub(crate) fn end_turn(&self) {
        if self.account.turn_of.get() == Some(self.connection) {
            self.account.pass_turn();
        }
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
        account.waiting.borrow_mut().retain(|(connection, _)| *connection != self.connection);
        self.end_turn();
        account.unfinished.set(account.unfinished.get() - self.unfinished);
        account.connections.set(account.connections.get() - 1);
        if account.connections.get() == 0 {
            self.accounts.0.borrow_mut().remove(&self.principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_has_so_many_connections_and_no_more() {
        let accounts = Rc::new(Accounts::default());
        let (evil, good): (Rc<str>, Rc<str>) = ("evil".into(), "good".into());
        let mut members: Vec<_> = (0..MAX_CONNECTIONS as u64).filter_map(|n| accounts.join(&evil, n)).collect();
        assert_eq!(members.len(), MAX_CONNECTIONS);
        assert!(accounts.join(&evil, 99).is_none());
        assert!(accounts.join(&good, 99).is_some());
        members.pop();
        assert!(accounts.join(&evil, 99).is_some());
        members.clear();
        assert!(accounts.0.borrow().is_empty());
    }

    #[test]
    fn connections_divide_what_a_principal_has() {
        let accounts = Rc::new(Accounts::default());
        let principal: Rc<str> = "evil".into();
        let first = accounts.join(&principal, 0).expect("an empty account has room");
        assert_eq!((first.max_running(), first.max_replies()), (MAX_RUNNING, MAX_REPLIES));
        let others: Vec<_> = (1..16).filter_map(|n| accounts.join(&principal, n)).collect();
        assert_eq!((first.max_running(), first.max_replies()), (MAX_RUNNING / 16, MAX_REPLIES / 16));
        drop(others);
        assert_eq!(first.max_running(), MAX_RUNNING);
    }

    #[test]
    fn unfinished_frames_have_a_limit_together() {
        let accounts = Rc::new(Accounts::default());
        let principal: Rc<str> = "evil".into();
        let mut members: Vec<_> = (0..3).filter_map(|n| accounts.join(&principal, n)).collect();
        assert!(members[0].hold(1000, 1000) && members[1].hold(1000, 1000));
        assert!(!members[2].hold(1, 1000));
        assert!(members[2].hold(0, 1000) && members[0].hold(0, 1000) && members[2].hold(1000, 1000));
        members.clear();
        assert!(accounts.0.borrow().is_empty());
    }

    #[test]
    fn connections_of_a_principal_take_turns() {
        let accounts = Rc::new(Accounts::default());
        let cx = Context::from_waker(Waker::noop());
        let (evil, good): (Rc<str>, Rc<str>) = ("evil".into(), "good".into());
        let mut members: Vec<_> = (0..3).filter_map(|n| accounts.join(&evil, n)).collect();
        let other = accounts.join(&good, 9).expect("an empty account has room");
        assert!(members[0].begin_turn(&cx) && !members[1].begin_turn(&cx) && !members[2].begin_turn(&cx));
        assert!(other.begin_turn(&cx));
        members[0].end_turn();
        assert!(!members[0].begin_turn(&cx) && !members[2].begin_turn(&cx) && members[1].begin_turn(&cx));
        // A connection that ends in its turn passes the turn on.
        drop(members.remove(1));
        assert!(members[1].begin_turn(&cx) && !members[0].begin_turn(&cx));
        members[1].end_turn();
        assert!(members[0].begin_turn(&cx));
        members[0].end_turn();
        assert!(members[1].begin_turn(&cx));
    }
}
