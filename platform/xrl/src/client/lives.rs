//! The lives that a watch knows, also over the loss of the Finder.

use crate::finder::life::{Life, LifeEvent, LifeQueue};
use crate::finder::records::Subject;
use crate::idl::finder::v1::WatchRequest;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Notify;

pub(crate) struct WatchState {
    pub(crate) subject: Subject,
    pub(crate) queue: RefCell<LifeQueue>,
    pub(crate) notify: Notify,
    pub(crate) ended: Cell<bool>,
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
                // A restarted Finder reports lives that went on all the time.
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
