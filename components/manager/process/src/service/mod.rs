//! The interfaces of the manager.

pub mod configuration;
pub mod manager;
pub mod packages;
pub mod remote;
pub mod shared;

use crate::ManagerProcess;
use std::rc::Rc;

/// The manager for handlers: handlers need the shared pointer to start tasks.
pub struct Served(pub Rc<ManagerProcess>);

impl std::ops::Deref for Served {
    type Target = Rc<ManagerProcess>;

    fn deref(&self) -> &Rc<ManagerProcess> {
        &self.0
    }
}
