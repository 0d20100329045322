//! Connections of callers without a secret or a key so far. The number of a user's guests is limited, and a new guest
//! displaces the oldest: a user with many open connections blocks no foreign user, and a caller that shows its secret
//! at once is let in.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::AbortHandle;

/// Guests of a single user at a listener.
const OF_A_USER: usize = 64;
/// Guests of every user at a listener, at most.
const IN_ALL: usize = 1024;
/// Guests of every user at a listener of a process with few descriptors.
const FEWEST: usize = 8;
/// The part of the process's descriptors that guests may have. The others are for components, operators and the process itself.
const PART: usize = 4;
/// The longest time until a guest shows a secret or a key.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Octets of a guest's frames, and of replies that may wait for a guest.
pub(crate) const MAX_OCTETS: usize = 4096;
/// Methods that a guest may bind: their numbers are lower.
pub(crate) const MAX_METHODS: u16 = 256;

/// A user by its number, if the kernel reports it.
type User = Option<u32>;

/// The guests of a single listener.
pub(crate) struct Guests {
    by_user: RefCell<HashMap<User, VecDeque<(u64, AbortHandle)>>>,
    /// The most guests of every user.
    in_all: usize,
}

/// A place among the guests, given up on drop.
pub(crate) struct Place {
    guests: Rc<Guests>,
    user: User,
    connection: u64,
}

impl Guests {
    /// Makes room for guests in a process with so many descriptors.
    pub(crate) fn new(descriptors: u64) -> Self {
        let part = usize::try_from(descriptors).unwrap_or(usize::MAX) / PART;
        Guests { by_user: RefCell::default(), in_all: part.clamp(FEWEST, IN_ALL) }
    }

    /// Returns a place for a new connection.
    pub(crate) fn place(self: &Rc<Self>, user: User, connection: u64) -> Place {
        Place { guests: Rc::clone(self), user, connection }
    }

    /// Counts a connection that is served now. Ends the oldest guest of the same user if there are too many, or of the user with the
    /// most, and returns that user. Root's connections are not counted.
    pub(crate) fn enter(&self, user: User, connection: u64, task: AbortHandle) -> Option<User> {
        if user == Some(0) {
            return None;
        }
        let mut guests = self.by_user.borrow_mut();
        guests.entry(user).or_default().push_back((connection, task));
        let of_all: usize = guests.values().map(VecDeque::len).sum();
        let crowd = match guests.get(&user).is_some_and(|own| own.len() > OF_A_USER) {
            true => Some(user),
            false if of_all > self.in_all => {
                guests.iter().max_by_key(|(_, own)| own.len()).map(|(crowd, _)| *crowd)
            }
            false => None,
        }?;
        if let Some((_, oldest)) = guests.get_mut(&crowd).and_then(VecDeque::pop_front) {
            oldest.abort();
        }
        guests.retain(|_, own| !own.is_empty());
        Some(crowd)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut guests = self.guests.by_user.borrow_mut();
        if let Some(own) = guests.get_mut(&self.user) {
            own.retain(|(connection, _)| *connection != self.connection);
            if own.is_empty() {
                guests.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(guests: &Guests) -> usize {
        guests.by_user.borrow().values().map(VecDeque::len).sum()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_oldest_guest_of_a_user_makes_room() {
        let guests = Rc::new(Guests::new(u64::MAX));
        let mut tasks = Vec::new();
        let mut places = Vec::new();
        for connection in 0..=OF_A_USER as u64 {
            let task = tokio::spawn(std::future::pending::<()>());
            places.push(guests.place(Some(1), connection));
            let displaced = guests.enter(Some(1), connection, task.abort_handle());
            assert_eq!(displaced.is_some(), connection == OF_A_USER as u64);
            tasks.push(task);
        }
        assert!(tasks.remove(0).await.is_err_and(|end| end.is_cancelled()));
        assert!(tasks.iter().all(|task| !task.is_finished()));
        assert_eq!(count(&guests), OF_A_USER);
        places.clear();
        assert_eq!(count(&guests), 0);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn many_users_have_a_limit_together() {
        let guests = Rc::new(Guests::new(u64::MAX));
        for connection in 0..3 * IN_ALL as u64 {
            let task = tokio::spawn(std::future::pending::<()>());
            guests.enter(Some(1 + (connection % 500) as u32), connection, task.abort_handle());
        }
        assert_eq!(count(&guests), IN_ALL);
        let root = tokio::spawn(std::future::pending::<()>());
        guests.enter(Some(0), 9999, root.abort_handle());
        assert_eq!(count(&guests), IN_ALL);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn guests_leave_descriptors_for_others() {
        let guests = Rc::new(Guests::new(1024));
        for connection in 0..1024 {
            let task = tokio::spawn(std::future::pending::<()>());
            guests.enter(Some(1 + connection as u32), connection, task.abort_handle());
        }
        assert_eq!(count(&guests), 256);
    }
}
