//! The configuration of a router: a part for each protocol, by type.

use std::any::Any;

/// What each protocol of a router is configured with, whether or not its process runs.
#[derive(Default)]
pub struct Configuration(Vec<Box<dyn Any + Send>>);

impl Configuration {
    /// Returns a protocol's part; `None` if the router has none of its kind.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|part| part.downcast_ref())
    }

    /// Changes a protocol's part, beginning with an empty one.
    pub fn change<T: Any + Default + Send>(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(part) = self.0.iter_mut().find_map(|part| part.downcast_mut()) {
            return change(part);
        }
        let mut part = T::default();
        change(&mut part);
        self.0.push(Box::new(part));
    }
}
