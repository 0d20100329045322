//! The engines of a set for an operation on a route, and the selection of routes for the authority.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::IpPrefix;

/// The engines of a set for an operation. An engine outside a set ignores the scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Scope {
    /// The authority and, after the authority, the engines beside.
    #[default]
    All,
    /// The engines beside the authority. The authority does not hold the route.
    Beside,
    /// The authority. The engines beside the authority are left unchanged.
    Authority,
}

/// The routes for the authority. Further routes are written to the engines beside the authority only.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum AuthorityRoutes {
    /// Every route.
    #[default]
    All,
    /// The routes of internal origins, and the routes of external origins with a prefix in the list or inside a prefix of the list.
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
