//! Values with stable numbers.

use alloc::vec::Vec;

/// A vector with holes; a hole's number is given to the next value.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    holes: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), holes: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.holes.pop() {
            Some(n) => {
                self.values[n as usize] = Some(value);
                n
            }
            None => {
                self.values.push(Some(value));
                u32::try_from(self.values.len() - 1).expect("memory ends before u32 does")
            }
        }
    }

    pub(crate) fn remove(&mut self, n: u32) -> Option<T> {
        let value = self.values.get_mut(n as usize)?.take();
        if value.is_some() {
            self.holes.push(n);
        }
        value
    }

    pub(crate) fn get(&self, n: u32) -> Option<&T> {
        self.values.get(n as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, n: u32) -> Option<&mut T> {
        self.values.get_mut(n as usize)?.as_mut()
    }

    /// Returns the number above the highest number ever given.
    pub(crate) fn end(&self) -> u32 {
        self.values.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.holes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.values.iter().enumerate().filter_map(|(n, v)| Some((n as u32, v.as_ref()?)))
    }
}
