//! Turns of connections that share the time of one connection.

use crate::wire::stream::Turn;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::task::spawn_local;

/// Connections without a pause between their turns. A component has one or two to each process.
const FEW: usize = 4;
/// The pause between two turns of more connections: three times the length of a turn.
const PAUSE: Duration = Duration::from_millis(3);

/// The turns of some connections: one of them has a turn between two looks of the process at its sockets.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    /// A connection has had its turn since the process looked at its sockets.
    is_over: bool,
    /// The connection whose turn is the next one, if several wait.
    next: Option<u64>,
    /// The connections that wait for a turn, and their tasks.
    waiting: VecDeque<(u64, Waker)>,
}

impl State {
    /// Reserves the next turn for the connection that has waited longest.
    fn reserve(&mut self) -> Option<Waker> {
        let next = self.waiting.pop_front();
        self.next = next.as_ref().map(|(connection, _)| *connection);
        next.map(|(_, waker)| waker)
    }
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a connection may begin a turn. Otherwise its task is woken later.
    pub(crate) fn begin(&self, connection: u64, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        if !state.is_over && state.next.is_none_or(|next| next == connection) {
            return true;
        }
        // Another connection has ended a turn since: a reservation does not outlive that.
        if state.next == Some(connection) {
            state.next = None;
        }
        match state.waiting.iter_mut().find(|(waiting, _)| *waiting == connection) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.waiting.push_back((connection, cx.waker().clone())),
        }
        false
    }

    /// Ends a connection's turn. A connection that is alone among `connections` may have its next turn at once. Many
    /// connections have a pause between two turns, so that a flood leaves processors to others.
    pub(crate) fn end(self: &Arc<Self>, connection: u64, connections: usize) {
        let mut state = self.state();
        if state.next == Some(connection) {
            state.next = None;
        }
        if connections <= 1 || std::mem::replace(&mut state.is_over, true) {
            return;
        }
        drop(state);
        if connections <= FEW {
            return Turn::wake_later(&Waker::from(Arc::clone(self)));
        }
        let turns = Arc::clone(self);
        spawn_local(async move {
            tokio::time::sleep(PAUSE).await;
            turns.wake();
        });
    }

    /// Forgets a connection that has ended.
    pub(crate) fn forget(&self, connection: u64) {
        let mut state = self.state();
        state.waiting.retain(|(waiting, _)| *waiting != connection);
        if state.next != Some(connection) {
            return;
        }
        state.next = None;
        // A turn that is over is passed on by `wake`.
        let waker = if state.is_over { None } else { state.reserve() };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Wake for Turns {
    /// The process has looked at its sockets: the next turn may begin.
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        state.is_over = false;
        let waker = if state.next.is_none() { state.reserve() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns() {
        let turns = Arc::new(Turns::default());
        let cx = Context::from_waker(Waker::noop());
        // Outside of a runtime, the process looks at its sockets at once.
        let look = || Arc::clone(&turns).wake();
        let end = |connection| {
            turns.end(connection, 2);
            turns.state().is_over = true;
        };
        assert!(turns.begin(0, &cx));
        end(0);
        assert!(!turns.begin(0, &cx) && !turns.begin(1, &cx) && !turns.begin(2, &cx));
        look();
        assert!(!turns.begin(1, &cx) && !turns.begin(2, &cx) && turns.begin(0, &cx));
        end(0);
        look();
        // A connection that ends passes its turn on.
        assert!(!turns.begin(2, &cx));
        turns.forget(1);
        assert!(!turns.begin(0, &cx) && turns.begin(2, &cx));
        end(2);
        look();
        assert!(turns.begin(0, &cx));
        // A connection may end a turn that it began elsewhere: no reservation is lost.
        end(0);
        assert!(!turns.begin(1, &cx) && !turns.begin(2, &cx));
        look();
        end(9);
        assert!(!turns.begin(1, &cx));
        look();
        assert!(!turns.begin(1, &cx) && turns.begin(2, &cx));
        end(2);
        look();
        assert!(turns.begin(1, &cx));
        end(1);
        look();
        turns.end(0, 1);
        assert!(turns.begin(0, &cx), "a connection that is alone does not wait");
    }
}
