//! The configuration of a router: a part for each protocol, by type.

use std::any::Any;

/// The configuration of each protocol of a router, for running and stopped processes.
#[derive(Default)]
pub struct Configuration(Vec<Box<dyn Any + Send>>);

impl Configuration {
    /// Returns a protocol's part; `None` if the router has no such protocol.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|part| part.downcast_ref())
    }

    /// Changes a protocol's part, creating it if absent.
    pub fn change<T: Any + Default + Send>(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(part) = self.0.iter_mut().find_map(|part| part.downcast_mut()) {
            return change(part);
        }
        let mut part = T::default();
        change(&mut part);
        self.0.push(Box::new(part));
    }
}
