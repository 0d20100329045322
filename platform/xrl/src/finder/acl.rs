//! The rights to register and to call (XORP, section 7).

use std::collections::HashMap;

/// A process's secret, passed to the process at its start.
pub type Secret = [u8; 16];

/// The rights of a secret's owner. In patterns `*` stands for any characters but `/`; a pattern of `*` alone for everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Principal {
    /// The name for lists and logs.
    pub name: String,
    /// Patterns of permitted registrations: classes, and names of instances (`bgp@red`).
    pub may_register: Vec<String>,
    /// Patterns `TARGET/INTERFACE/METHOD` of permitted resolutions; TARGET is a class or an instance.
    pub may_call: Vec<String>,
}

impl Principal {
    /// Makes a principal with every right.
    pub fn all_powerful(name: &str) -> Self {
        Principal {
            name: name.to_owned(),
            may_register: vec!["*".to_owned()],
            may_call: vec!["*".to_owned()],
        }
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

/// The access list: the rights of each secret. A caller without a secret of the list has no rights.
pub type Acl = HashMap<Secret, Principal>;

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
