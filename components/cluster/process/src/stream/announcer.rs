//! Routes of the stream on their way to the element's own RIB: an origin in the RIB for each of the leader's.

use crate::ClusterProcess;
use sluice_base::{Duration, TableId};
use sluice_cluster::event::Event;
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::wire::Routes;
use sluice_process::{RibChange, RibOrigin, RibOriginSettings, Tasks};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::warn;

/// Routes of a call to the RIB.
const BATCH: usize = 1024;
/// The shortest time for which routes outlive this process: a router forwards on while the process, or the store, is away.
const GRACE: Duration = Duration::from_secs(3600);

type Key = (TableId, String);

/// An origin of the leader in this element's RIB.
struct Announced {
    registration: StreamOrigin,
    origin: Rc<RibOrigin>,
    work: Rc<Notify>,
    tasks: Tasks,
}

/// The origins.
#[derive(Default)]
pub(crate) struct Announcer {
    origins: RefCell<BTreeMap<Key, Announced>>,
    /// The follower compares, or announces, all routes.
    walks: Notify,
}

impl Announcer {
    /// Makes origins for sections that are new, and has changes announced.
    pub(super) fn follow(&self, process: &ClusterProcess) {
        let sections = process.stream.follower.borrow().sections().to_vec();
        for (section, registration) in sections {
            let key = (section.table, section.origin);
            let is_known = |known: &Announced| known.registration == registration;
            if !self.origins.borrow().get(&key).is_some_and(is_known)
                && let Some(process) = process.me.upgrade()
            {
                let announced = Announced::start(&process, &key, registration);
                if let Some(before) = self.origins.borrow_mut().insert(key, announced) {
                    before.tasks.replace([]);
                }
            }
        }
        self.wake();
    }

    /// Has all routes looked at.
    pub(super) fn walk(&self) {
        self.walks.notify_one();
    }

    /// Has changes announced.
    pub(super) fn wake(&self) {
        self.origins.borrow().values().for_each(|announced| announced.work.notify_one());
    }

    /// Forgets the origins; the next change makes them again. Their routes stay in the RIB meanwhile.
    pub(super) fn restart(&self) {
        self.origins.take().into_values().for_each(|announced| announced.tasks.replace([]));
    }

    /// Withdraws all routes.
    pub(super) async fn stop(&self) {
        for (_, announced) in self.origins.take() {
            announced.tasks.replace([]);
            announced.origin.unregister().await;
        }
    }

    /// Returns the reasons for which the RIB takes no routes.
    pub(super) fn problems(&self) -> Vec<String> {
        self.origins.borrow().values().filter_map(|announced| announced.origin.problem()).collect()
    }
}

impl Announced {
    fn start(process: &Rc<ClusterProcess>, (table, name): &Key, registration: StreamOrigin) -> Self {
        let settings = RibOriginSettings {
            name: name.clone(),
            table: *table,
            distance: registration.distance,
            external: registration.external,
            grace: registration.grace.max(GRACE),
            kinds: registration.kinds.clone(),
        };
        let router = &process.protocol.frame.router;
        let (origin, work) = (RibOrigin::new(router, settings), Rc::new(Notify::new()));
        let changed = {
            let process = Rc::clone(process);
            move |change| {
                if change == RibChange::Registered {
                    process.stream.follower.borrow_mut().announce_all();
                    process.stream.announcer.wake();
                    process.stream.announcer.walk();
                }
            }
        };
        let instance = process.stream.instance.borrow().clone();
        let tasks = Tasks::default();
        tasks.replace([
            tokio::task::spawn_local(Rc::clone(&origin).keep_registered(router.clone(), instance, changed)),
            tokio::task::spawn_local(announce(
                Rc::clone(process),
                (*table, name.clone()),
                Rc::clone(&origin),
                Rc::clone(&work),
            )),
        ]);
        Announced { registration, origin, work, tasks }
    }
}

/// Looks at all routes after they were read, and for a RIB that is new: a chunk at a time, and others of this thread between, for ever.
pub(crate) async fn walk(process: Rc<ClusterProcess>) {
    let stream = &process.stream;
    loop {
        stream.announcer.walks.notified().await;
        loop {
            let goes_on = stream.follower.borrow_mut().run_slice();
            stream.announcer.wake();
            if !goes_on {
                break;
            }
            tokio::task::yield_now().await;
        }
        if let Some(mended) = stream.follower.borrow_mut().take_mended() {
            let event = Event::StreamMended(mended);
            warn!(event = event.id(), "{event}");
        }
    }
}

/// Announces the changes of an origin as fast as the RIB takes them, for ever.
async fn announce(process: Rc<ClusterProcess>, (table, name): Key, origin: Rc<RibOrigin>, work: Rc<Notify>) {
    let follower = &process.stream.follower;
    loop {
        let is_own = |section: &&Section| section.table == table && section.origin == name;
        let next = follower.borrow().waiting().find(is_own).cloned();
        let Some(section) = next.filter(|_| origin.is_registered()) else {
            if origin.is_refresh_due()
                && follower.borrow().is_complete()
                && let Err(error) = origin.end_of_refresh(true).await
            {
                warn!(origin = name, %error, "the RIB keeps stale routes until their grace time is over");
            }
            work.notified().await;
            continue;
        };
        origin.room().await;
        let routes = follower.borrow_mut().take(&section, BATCH);
        match routes {
            Routes::V4(batch) => origin.send(&batch),
            Routes::V6(batch) => origin.send(&batch),
        }
    }
}
