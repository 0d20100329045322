//! The methods of the process, and the callers that may use them.

use super::accounts::Accounts;
use super::refusals::Refusals;
use super::service::{Handler, Method};
use crate::wire::denied::Denied;
use crate::wire::frame::{Bind, KEY, Key};
use crate::wire::seal::{Holder, Seals};
use crate::{Family, XrlError};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// The instance in the path of a caller that reads without the Finder, and so does not know the instance's name.
pub(crate) const ANY_INSTANCE: &str = "*";
/// The principal of a caller that reads without a key.
const OPERATOR: &str = "operator";
/// Grants from which those without a bound method are forgotten.
const MAX_GRANTS: usize = 1024;
/// Grants that were taken away and are remembered: keys made by earlier ones are those of processes that have ended.
pub(crate) const MAX_REVOKED: usize = 4096;
/// The key of a caller without a key.
pub(crate) const NO_KEY: Key = [0; KEY];

/// A method of a registered target.
pub(crate) struct MethodEntry {
    pub(crate) instance: String,
    pub(crate) families: Vec<Family>,
    /// True for a method that only reads.
    reads: bool,
    pub(crate) handler: Rc<dyn Handler>,
    pub(crate) typed: Rc<dyn Any>,
    seals: Rc<Seals>,
    live: Cell<bool>,
}

impl MethodEntry {
    pub(crate) fn new(instance: &str, method: Method, seals: &Rc<Seals>) -> Self {
        MethodEntry {
            instance: instance.to_owned(),
            families: method.families,
            reads: method.reads,
            handler: method.handler,
            typed: method.typed,
            seals: Rc::clone(seals),
            live: Cell::new(true),
        }
    }

    /// Returns true if the target is still registered.
    pub(crate) fn is_live(&self) -> bool {
        self.live.get()
    }

    fn offers(&self, family: Family) -> bool {
        self.families.is_empty() || self.families.contains(&family)
    }
}

/// Rights of a principal, as the Finder granted them, from the view of a receiver.
pub(crate) struct Grant {
    pub(crate) principal: Rc<str>,
    live: Cell<bool>,
}

impl Grant {
    fn new(principal: &str) -> Self {
        Grant { principal: principal.into(), live: Cell::new(true) }
    }

    /// Returns true until the Finder takes the rights away.
    pub(crate) fn is_live(&self) -> bool {
        self.live.get()
    }
}

/// A method that a caller may call.
pub(crate) struct Bound {
    pub(crate) entry: Rc<MethodEntry>,
    pub(crate) grant: Rc<Grant>,
}

/// The longest frame of a caller, in octets, unless the process sets another. Decoded, a frame can take 50 times as
/// much memory.
pub(crate) const MAX_FRAME: usize = 1 << 20;

/// The methods of the process.
pub(crate) struct Registry {
    methods: RefCell<HashMap<String, Rc<MethodEntry>>>,
    /// The Finder's methods, which need no key.
    open: Option<Open>,
    /// The user who started the router, who may call reading methods without a key, as root may.
    operator: Cell<Option<u32>>,
    /// The grants by which callers bound methods.
    grants: RefCell<HashMap<u64, Rc<Grant>>>,
    /// The latest grants that the Finder took away.
    revoked: RefCell<VecDeque<u64>>,
    /// What the Finder was not notified of yet.
    pub(crate) refusals: Refusals,
    /// Limits of the callers, by principal.
    pub(crate) accounts: Rc<Accounts>,
    /// The longest frame of a caller other than root and the operator, in octets.
    pub(crate) max_frame: Cell<usize>,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            methods: RefCell::default(),
            open: None,
            operator: Cell::default(),
            grants: RefCell::default(),
            revoked: RefCell::default(),
            refusals: Refusals::default(),
            accounts: Rc::default(),
            max_frame: Cell::new(MAX_FRAME),
        }
    }
}

/// Methods without a key, and the callers with a secret.
struct Open {
    principal_of: Box<dyn Fn(u64) -> Option<Rc<str>>>,
    on_close: Box<dyn Fn(u64)>,
}

impl Registry {
    /// Returns a registry of methods without keys. `principal_of` returns the principal of a connection whose caller has
    /// shown a secret, `on_close` is called at the end of a connection.
    pub(crate) fn open(
        principal_of: impl Fn(u64) -> Option<Rc<str>> + 'static,
        on_close: impl Fn(u64) + 'static,
    ) -> Self {
        let open = Open { principal_of: Box::new(principal_of), on_close: Box::new(on_close) };
        Registry { open: Some(open), ..Registry::default() }
    }

    /// Returns the principal of a connection whose caller has identified itself: to the Finder by a secret, to a target
    /// by a key.
    pub(crate) fn principal_of(
        &self,
        connection: u64,
        by_key: impl Fn() -> Option<Rc<str>>,
    ) -> Option<Rc<str>> {
        self.open.as_ref().map_or_else(by_key, |open| (open.principal_of)(connection))
    }

    /// Returns true for a user without limits: root, and the operator.
    pub(crate) fn is_trusted(&self, uid: Option<u32>) -> bool {
        uid.is_some_and(|uid| uid == 0 || Some(uid) == self.operator.get())
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

    /// Returns the method that a caller binds, if the Finder vouches for the caller. `pid` and `uid` are the kernel's
    /// words. Root and the operator read without a key: a router can be asked while no Finder could give keys.
    pub(crate) fn find(
        &self,
        bind: &Bind<'_>,
        family: Family,
        pid: Option<u32>,
        uid: Option<u32>,
    ) -> Result<Bound, XrlError> {
        let methods = self.methods.borrow();
        let is_trusted = self.is_trusted(uid) && bind.key == NO_KEY;
        let entry = if is_trusted { lookup(&methods, bind.path) } else { methods.get(bind.path) };
        let may_read = is_trusted && entry.is_some_and(|entry| entry.reads);
        let holder = match (family, pid, uid) {
            (Family::Unix, Some(pid), Some(uid)) => Holder::Process { pid, uid },
            _ => Holder::Network,
        };
        let is_vouched = |entry: &MethodEntry| {
            entry.seals.vouch(bind, holder) && !self.revoked.borrow().contains(&bind.grant)
        };
        let entry = entry.filter(|entry| self.open.is_some() || may_read || is_vouched(entry));
        let Some(entry) = entry else {
            self.refusals.note(Denied::Key, bind.principal, bind.path, (pid, uid));
            // Who has no key need not learn what there is.
            return Err(XrlError::BadKey);
        };
        if !entry.offers(family) {
            return Err(XrlError::NoFamily(family.to_string()));
        }
        let grant = match (&self.open, may_read) {
            (Some(_), _) => Rc::new(Grant::new("")),
            (None, true) => Rc::new(Grant::new(OPERATOR)),
            (None, false) => self.grant(bind),
        };
        Ok(Bound { entry: Rc::clone(entry), grant })
    }

    /// Returns the grant of a caller for whom the Finder vouches.
    fn grant(&self, bind: &Bind<'_>) -> Rc<Grant> {
        let mut grants = self.grants.borrow_mut();
        if grants.len() >= MAX_GRANTS {
            grants.retain(|_, grant| Rc::strong_count(grant) > 1);
        }
        Rc::clone(grants.entry(bind.grant).or_insert_with(|| Rc::new(Grant::new(bind.principal))))
    }

    /// Ends a grant: what was bound by it is refused from now on.
    pub(crate) fn revoke(&self, grant: u64) {
        if let Some(grant) = self.grants.borrow_mut().remove(&grant) {
            grant.live.set(false);
        }
        let mut revoked = self.revoked.borrow_mut();
        if !revoked.contains(&grant) {
            if revoked.len() == MAX_REVOKED {
                revoked.pop_front();
            }
            revoked.push_back(grant);
        }
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
