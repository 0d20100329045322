//! The selection of routes for the kernel: all, or with the engine `xdp` the internal routes and a list.
//!
//! A new process keeps external routes out of the kernel from its first configuration on: a full table never floods the kernel, and
//! the program of an earlier process forwards meanwhile. A running process removes external routes once the fast path forwards, and
//! has the routes written again before the fast path stops.

use sluice_base::{Family, IpPrefix};
use sluice_fea::AuthorityRoutes;
use std::cell::{Cell, RefCell};
use tokio::sync::watch;

/// The selection, and the facts for the decision.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The external routes for the kernel.
    prefixes: RefCell<Vec<IpPrefix>>,
    /// The core's selection.
    current: RefCell<AuthorityRoutes>,
    /// True if every route is placed by the core's selection.
    is_followed: watch::Sender<bool>,
    /// The families completely announced by the owner since the start of the process.
    resynced: [Cell<bool>; 2],
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            prefixes: RefCell::default(),
            current: RefCell::default(),
            is_followed: watch::Sender::new(true),
            resynced: Default::default(),
        }
    }
}

impl Selection {
    /// Sets the external routes for the kernel.
    pub(crate) fn set_prefixes(&self, prefixes: Vec<IpPrefix>) {
        self.prefixes.replace(prefixes);
    }

    /// Returns the selection for the core if changed. `is_wanted`: the engine `xdp` is configured and available;
    /// `is_live`: the fast path forwards.
    pub(crate) fn follow(&self, is_wanted: bool, is_live: bool) -> Option<AuthorityRoutes> {
        let is_internal = matches!(*self.current.borrow(), AuthorityRoutes::Internal(_));
        let routes = match is_wanted && (is_live || is_internal || !self.is_resynced()) {
            true => AuthorityRoutes::Internal(self.prefixes.borrow().clone()),
            false => AuthorityRoutes::All,
        };
        if *self.current.borrow() == routes {
            return None;
        }
        self.current.replace(routes.clone());
        self.is_followed.send_replace(false);
        Some(routes)
    }

    /// Records that every route is placed by the core's selection.
    pub(crate) fn note_followed(&self) {
        self.is_followed.send_replace(true);
    }

    /// Waits until every route is placed by the core's selection.
    pub(crate) async fn followed(&self) {
        // The sender lives as long as the wait.
        let _ = self.is_followed.subscribe().wait_for(|is_followed| *is_followed).await;
    }

    /// Records that the owner has announced a family completely.
    pub(crate) fn note_resynced(&self, family: Family) {
        self.resynced[usize::from(family == Family::Ipv6)].set(true);
    }

    /// Returns true once the owner has announced both families completely.
    pub(crate) fn is_resynced(&self) -> bool {
        self.resynced.iter().all(Cell::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resynced() -> Selection {
        let selection = Selection::default();
        Family::ALL.into_iter().for_each(|family| selection.note_resynced(family));
        selection
    }

    #[test]
    fn a_new_process_never_floods_the_kernel() {
        let selection = Selection::default();
        selection.set_prefixes(vec!["192.0.2.0/24".parse().unwrap()]);
        let internal = AuthorityRoutes::Internal(vec!["192.0.2.0/24".parse().unwrap()]);
        assert_eq!(selection.follow(true, false), Some(internal));
        selection.note_resynced(Family::Ipv4);
        assert!(!selection.is_resynced());
        selection.note_resynced(Family::Ipv6);
        assert!(selection.is_resynced());
        // The tables of the fast path may still be incomplete.
        assert_eq!(selection.follow(true, false), None);
        selection.set_prefixes(Vec::new());
        assert_eq!(selection.follow(true, true), Some(AuthorityRoutes::Internal(Vec::new())));
        assert_eq!(
            selection.follow(false, true),
            Some(AuthorityRoutes::All),
            "another engine, or XDP does not work"
        );
    }

    #[test]
    fn a_running_process_waits_for_the_fast_path() {
        let selection = resynced();
        assert_eq!(selection.follow(true, false), None);
        assert_eq!(selection.follow(true, true), Some(AuthorityRoutes::Internal(Vec::new())));
        assert_eq!(selection.follow(false, true), Some(AuthorityRoutes::All));
    }

    #[tokio::test]
    async fn the_fast_path_stops_once_the_kernel_has_all_routes() {
        let selection = resynced();
        selection.followed().await;
        selection.follow(true, true);
        selection.note_followed();
        selection.follow(false, true);
        let mut followed = Box::pin(selection.followed());
        assert!(poll_once(&mut followed).await.is_none());
        selection.note_followed();
        followed.await;
    }

    /// Polls once.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                Poll::Ready(output) => Some(output),
                Poll::Pending => None,
            })
        })
        .await
    }
}
