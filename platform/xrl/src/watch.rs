//! Births and deaths, from a component's view.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use tokio::sync::Notify;

use crate::endpoint::Inner;
use crate::finder::core::Subject;
use crate::finder::life::{Life, LifeEvent, LifeQueue};
use crate::idl::finder::v1::WatchRequest;

/// Reports the births and deaths of a class or an instance, beginning with the births of the live instances.
pub struct LifeWatch {
    pub(crate) state: Rc<WatchState>,
    pub(crate) endpoint: Weak<Inner>,
}

impl LifeWatch {
    /// Waits for the next event. `None` when the endpoint is gone.
    pub async fn next(&mut self) -> Option<LifeEvent> {
        loop {
            if let Some(event) = self.state.queue.borrow_mut().pop() {
                return Some(event);
            }
            if self.state.ended.get() {
                return None;
            }
            self.state.notify.notified().await;
        }
    }
}

impl Drop for LifeWatch {
    /// Ends the watch at the Finder, which bounds the watches of a process.
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            endpoint.unwatch(&self.state);
        }
    }
}

pub(crate) struct WatchState {
    pub(crate) subject: Subject,
    queue: RefCell<LifeQueue>,
    notify: Notify,
    ended: Cell<bool>,
    live: RefCell<BTreeMap<String, Life>>,
    /// Lives not yet confirmed by a restarted Finder.
    unconfirmed: RefCell<BTreeSet<String>>,
}

impl WatchState {
    pub(crate) fn new(subject: Subject) -> Rc<Self> {
        Rc::new(WatchState {
            subject,
            queue: RefCell::default(),
            notify: Notify::new(),
            ended: Cell::new(false),
            live: RefCell::default(),
            unconfirmed: RefCell::default(),
        })
    }

    pub(crate) fn request(&self) -> WatchRequest {
        match &self.subject {
            Subject::Class(class) => WatchRequest { class: class.clone(), instance: String::new() },
            Subject::Instance(instance) => WatchRequest { class: String::new(), instance: instance.clone() },
        }
    }

    fn push(&self, event: LifeEvent) {
        self.queue.borrow_mut().push(event);
        self.notify.notify_one();
    }

    pub(crate) fn handle(&self, event: &LifeEvent) {
        if !self.subject.covers(event.life()) {
            return;
        }
        let mut live = self.live.borrow_mut();
        match event {
            LifeEvent::Birth(life) => {
                self.unconfirmed.borrow_mut().remove(&life.instance);
                // A restarted Finder tells of lives that went on all the time.
                match live.insert(life.instance.clone(), life.clone()) {
                    Some(old) if old == *life => return,
                    Some(old) => self.push(LifeEvent::Death(old)),
                    None => {}
                }
                self.push(event.clone());
            }
            LifeEvent::Death(life) => {
                if live.get(&life.instance).is_some_and(|l| l.incarnation == life.incarnation) {
                    live.remove(&life.instance);
                    self.push(event.clone());
                }
            }
        }
    }

    /// Handles the loss of the Finder: every life has to be confirmed by the next Finder.
    pub(crate) fn doubt(&self) {
        self.unconfirmed.borrow_mut().extend(self.live.borrow().keys().cloned());
    }

    /// Declares unconfirmed lives dead.
    pub(crate) fn settle(&self) {
        for instance in std::mem::take(&mut *self.unconfirmed.borrow_mut()) {
            let dead = self.live.borrow_mut().remove(&instance);
            if let Some(life) = dead {
                self.push(LifeEvent::Death(life));
            }
        }
    }

    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.notify.notify_one();
    }
}
