//! The engines of a set that an operation on a route is for, and the routes that the authority takes.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::IpPrefix;

/// The engines of a set that carry an operation out. An engine that is not in a set ignores the scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Scope {
    /// The authority and, after the authority, the engines beside it.
    #[default]
    All,
    /// The engines beside the authority. The authority does not hold the route.
    Beside,
    /// The authority. The engines beside it keep what they have.
    Authority,
}

/// The routes that the authority takes. Other routes are written to the engines beside the authority only.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum AuthorityRoutes {
    /// All routes.
    #[default]
    All,
    /// The routes of internal origins, and the routes of external origins whose prefix is equal to one of these or inside it.
    Internal(Vec<IpPrefix>),
}

impl AuthorityRoutes {
    /// Returns true if the authority takes a route.
    pub fn takes(&self, prefix: impl Into<IpPrefix>, is_external: bool) -> bool {
        match self {
            AuthorityRoutes::Internal(others) if is_external => {
                let prefix = prefix.into();
                others.iter().any(|other| other.covers(prefix))
            }
            AuthorityRoutes::All | AuthorityRoutes::Internal(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_prefix_selects_itself_and_what_is_inside() {
        let prefix = |text: &str| -> IpPrefix { text.parse().unwrap() };
        let routes = AuthorityRoutes::Internal(vec![prefix("192.0.2.0/24"), prefix("::/0")]);
        let takes = |text: &str| routes.takes(prefix(text), true);
        assert!(takes("192.0.2.0/24") && takes("192.0.2.128/25") && takes("2001:db8::/32"));
        assert!(!takes("192.0.0.0/16") && !takes("192.0.3.0/24") && !takes("0.0.0.0/0"));
        assert!(routes.takes(prefix("192.0.3.0/24"), false), "the route is internal");
        assert!(AuthorityRoutes::All.takes(prefix("192.0.3.0/24"), true));
    }
}
