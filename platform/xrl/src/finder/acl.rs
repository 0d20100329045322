//! The rights to register and to call (XORP, section 7).

use crate::wire::frame::Key;
use std::collections::HashMap;

/// A process's secret, passed to the process at its start.
pub type Secret = [u8; 16];

/// The rights of a secret's owner. In patterns `*` stands for any characters but `/`; a pattern of `*` alone for everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Principal {
    /// The name that receivers of calls see; at most 255 octets.
    pub name: String,
    /// The user from whom the secret is accepted; `None`: from any user. Root may use every secret.
    pub uid: Option<u32>,
    /// Patterns of permitted registrations: classes, and names of instances (`bgp@red`).
    pub may_register: Vec<String>,
    /// Patterns `TARGET/INTERFACE/METHOD` of permitted resolutions; TARGET is a class or an instance.
    pub may_call: Vec<String>,
    /// True if the principal may call every method that only reads.
    pub may_read: bool,
    /// Methods `CLASS/INTERFACE/METHOD` whose calls go to the guard of the principal ([`guard_name`]).
    pub guarded: Vec<String>,
}

/// Returns the name of the target that checks a principal's calls of a class.
pub fn guard_name(principal: &str, class: &str) -> String {
    format!("guard@{principal}:{class}")
}

impl Principal {
    /// Makes a principal with every right.
    pub fn all_powerful(name: &str) -> Self {
        Principal {
            name: name.to_owned(),
            uid: None,
            may_register: vec!["*".to_owned()],
            may_call: vec!["*".to_owned()],
            may_read: true,
            guarded: Vec::new(),
        }
    }

    /// Returns true if the principal's calls of a method pass a guard.
    pub(crate) fn is_guarded(&self, class: &str, interface: &str, method: &str) -> bool {
        !self.guarded.is_empty() && self.guarded.contains(&format!("{class}/{interface}/{method}"))
    }

    /// Returns true if nothing that `other` may is missing: keys given to `other` may stay valid. Compares patterns
    /// literally.
    pub(crate) fn includes(&self, other: &Principal) -> bool {
        let covers = |mine: &[String], theirs: &[String]| {
            mine.iter().any(|p| p == "*") || theirs.iter().all(|p| mine.contains(p))
        };
        self.name == other.name
            && self.uid == other.uid
            && covers(&self.may_register, &other.may_register)
            && covers(&self.may_call, &other.may_call)
            && (self.may_read || !other.may_read)
            && self.guarded == other.guarded
    }

    pub(crate) fn can_register(&self, name: &str) -> bool {
        self.may_register.iter().any(|p| matches(p, name))
    }

    pub(crate) fn can_call(&self, class: &str, instance: &str, interface: &str, method: &str) -> bool {
        let allowed = |target| {
            let path = format!("{target}/{interface}/{method}");
            self.may_call.iter().any(|p| matches(p, &path))
        };
        allowed(class) || allowed(instance)
    }
}

/// The access list: the rights of each secret. A caller without a secret of the list has the rights of its user, if
/// the Finder knows the user.
pub type Acl = HashMap<Secret, Principal>;

/// Returns the rights of a user of this host, as the kernel reports the user; `None` for a user without rights.
pub type People = Box<dyn Fn(Peer) -> Option<Principal>>;

/// A process at the Finder's Unix socket, as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The process.
    pub pid: u32,
    /// The user.
    pub uid: u32,
}

/// By what a client is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Identity {
    /// By a secret.
    Secret(Secret),
    /// By the user, as the kernel reports it.
    User(u32),
}

/// The rights of a secret's owner, with a number: keys that were given by these rights carry it.
pub(super) struct Granted {
    pub(super) principal: Principal,
    pub(super) grant: u64,
}

/// Returns the number of a new grant.
pub(super) fn draw_grant(random: &mut dyn FnMut() -> Key) -> u64 {
    random().into_iter().take(8).fold(0, |number, octet| number << 8 | u64::from(octet))
}

/// Returns true if `text` matches `pattern`.
pub fn matches(pattern: &str, text: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit: one more octet goes to that star.
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            again = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = again
            && text[from] != b'/'
        {
            again = Some((star, from + 1));
            (p, t) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let check =
            |pattern, text, expected| assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        check("*", "rib/rib.v1.Rib/AddRoute", true);
        check("rib/*/*", "rib/rib.v1.Rib/AddRoute", true);
        check("rib/rib.v1.Rib/*", "rib/rib.v1.RibX/AddRoute", false);
        check("rib/*", "rib/rib.v1.Rib/AddRoute", false);
        check("*/common.v1.*/Get*", "bgp-1/common.v1.Component/GetStatus", true);
        check("*/common.v1.*/Get*", "bgp-1/common.v1.Component/Shutdown", false);
        check("bgp", "bgp", true);
        check("bgp", "bgp2", false);
        check("bgp*", "bgp", true);
        check("", "", true);
        check("", "x", false);
        check("*a*b", "xxaxxb", true);
        check("*a*b", "xxa/xxb", false);
    }
}
