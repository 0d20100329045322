//! The methods of the process, with their keys.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::frame::{KEY, Key};
use crate::service::Handler;
use crate::{Family, XrlError};

/// Valid keys of a method: the key of its last registration, and earlier keys, so that callers continue while the
/// Finder restarts.
const MAX_KEYS: usize = 4;
/// Prefixes of the names of reading methods.
const READING: [&str; 3] = ["Get", "List", "Lookup"];
/// The instance in the path of a caller that reads without the Finder, and so does not know the instance's name.
pub(crate) const ANY_INSTANCE: &str = "*";
/// The key of a caller without a key.
pub(crate) const NO_KEY: Key = [0; KEY];

/// A method of a registered target.
pub(crate) struct MethodEntry {
    pub(crate) instance: String,
    pub(crate) families: Vec<Family>,
    pub(crate) handler: Rc<dyn Handler>,
    pub(crate) typed: Rc<dyn Any>,
    keys: RefCell<Vec<Key>>,
    live: Cell<bool>,
}

impl MethodEntry {
    pub(crate) fn new(
        instance: &str,
        families: &[Family],
        handler: Rc<dyn Handler>,
        typed: Rc<dyn Any>,
    ) -> Self {
        MethodEntry {
            instance: instance.to_owned(),
            families: families.to_vec(),
            handler,
            typed,
            keys: RefCell::new(Vec::new()),
            live: Cell::new(true),
        }
    }

    /// Returns true if the target is still registered.
    pub(crate) fn is_live(&self) -> bool {
        self.live.get()
    }

    /// Takes the key of the latest registration.
    pub(crate) fn add_key(&self, key: Key) {
        let mut keys = self.keys.borrow_mut();
        if keys.len() == MAX_KEYS {
            keys.remove(0);
        }
        keys.push(key);
    }

    fn offers(&self, family: Family) -> bool {
        self.families.is_empty() || self.families.contains(&family)
    }
}

/// Compares two keys in a time that does not depend on the first difference.
fn same(a: &Key, b: &Key) -> bool {
    let mut difference = 0;
    for i in 0..KEY {
        difference |= std::hint::black_box(a[i] ^ b[i]);
    }
    difference == 0
}

/// The methods of the process.
#[derive(Default)]
pub(crate) struct Registry {
    methods: RefCell<HashMap<String, Rc<MethodEntry>>>,
    /// The Finder's methods, which need no key.
    open: Option<Open>,
    /// The user who started the router, who may call reading methods without a key, as root may.
    operator: Cell<Option<u32>>,
}

/// Methods without a key, and the callers with a secret.
struct Open {
    is_known: Box<dyn Fn(u64) -> bool>,
    on_close: Box<dyn Fn(u64)>,
}

impl Registry {
    /// Returns a registry of methods without keys. `is_known` returns true if the caller of a connection has shown a
    /// secret, `on_close` is called at the end of a connection.
    pub(crate) fn open(is_known: impl Fn(u64) -> bool + 'static, on_close: impl Fn(u64) + 'static) -> Self {
        let open = Open { is_known: Box::new(is_known), on_close: Box::new(on_close) };
        Registry { open: Some(open), ..Registry::default() }
    }

    /// Returns true if the caller of a connection has identified itself: to the Finder by a secret, to a target by a
    /// key.
    pub(crate) fn trusts(&self, connection: u64, has_key: impl Fn() -> bool) -> bool {
        self.open.as_ref().map_or_else(has_key, |open| (open.is_known)(connection))
    }

    /// Lets a user call reading methods without a key.
    pub(crate) fn set_operator(&self, uid: u32) {
        self.operator.set(Some(uid));
    }

    pub(crate) fn insert(&self, path: String, entry: Rc<MethodEntry>) {
        if let Some(old) = self.methods.borrow_mut().insert(path, entry) {
            old.live.set(false);
        }
    }

    /// Removes a target's methods: later calls to them fail.
    pub(crate) fn remove(&self, paths: &[String]) {
        let mut methods = self.methods.borrow_mut();
        for path in paths {
            if let Some(entry) = methods.remove(path) {
                entry.live.set(false);
            }
        }
    }

    /// Returns the method at `path` if the key is right. Root and the operator, `uid` as the kernel tells it, read without a key: so a
    /// router can be asked while there is no Finder that could give keys.
    pub(crate) fn find(
        &self,
        path: &str,
        key: &Key,
        family: Family,
        uid: Option<u32>,
    ) -> Result<Rc<MethodEntry>, XrlError> {
        let methods = self.methods.borrow();
        let entry = if self.may_read(path, key, uid) { lookup(&methods, path) } else { methods.get(path) };
        let Some(entry) = entry else {
            // Who has no key need not learn what there is.
            return Err(XrlError::BadKey);
        };
        let known = entry.keys.borrow().iter().fold(false, |known, k| known | same(k, key));
        if self.open.is_none() && !known && !self.may_read(path, key, uid) {
            return Err(XrlError::BadKey);
        }
        if !entry.offers(family) {
            return Err(XrlError::NoFamily(family.to_string()));
        }
        Ok(Rc::clone(entry))
    }

    /// Returns true for a call without a key, by root or the operator, of a method that only reads.
    fn may_read(&self, path: &str, key: &Key, uid: Option<u32>) -> bool {
        let method = path.rsplit('/').next().unwrap_or_default();
        let is_operator = uid.is_some_and(|uid| uid == 0 || Some(uid) == self.operator.get());
        is_operator && *key == NO_KEY && READING.iter().any(|word| method.starts_with(word))
    }

    /// The method at `path`, for a caller of the same process with the Finder's permission.
    pub(crate) fn local(&self, path: &str) -> Option<Rc<MethodEntry>> {
        self.methods.borrow().get(path).map(Rc::clone)
    }

    pub(crate) fn connection_closed(&self, connection: u64) {
        if let Some(open) = &self.open {
            (open.on_close)(connection);
        }
    }
}

/// Returns the method at a path whose instance may be [`ANY_INSTANCE`].
fn lookup<'a>(methods: &'a HashMap<String, Rc<MethodEntry>>, path: &str) -> Option<&'a Rc<MethodEntry>> {
    match path.split_once('/') {
        Some((ANY_INSTANCE, wanted)) => {
            let mut all = methods.iter();
            all.find(|(path, _)| path.split_once('/').is_some_and(|(_, rest)| rest == wanted)).map(|(_, e)| e)
        }
        _ => methods.get(path),
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn keys_are_compared_whole() {
        let key = [7; 16];
        assert!(same(&key, &key));
        for i in 0..16 {
            let mut other = key;
            other[i] ^= 0x80;
            assert!(!same(&key, &other));
        }
    }
}
