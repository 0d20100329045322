//! The RIB's part of the configuration: policies for routes of origins, and the rights to routes, which the manager makes of the
//! components' rights.

use serde::Deserialize;
use serde_json::Value;
use sluice_rib::RibPolicies;
use sluice_rib::policy::ImportError;
use sluice_rib::rights::RoutePolicy;
use thiserror::Error;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tree {
    #[serde(rename = "route-rights")]
    route_rights: RoutePolicy,
    origin: Vec<Origin>,
    #[serde(rename = "resolve-next-hops-by")]
    resolving: Vec<String>,
    policy: sluice_policy::source::Policies,
}

#[derive(Deserialize)]
struct Origin {
    name: String,
    #[serde(default)]
    import: Vec<String>,
}

/// The RIB's configuration.
#[derive(Debug)]
pub struct RibSettings {
    /// The rights to routes.
    pub rights: RoutePolicy,
    /// The policies.
    pub policies: RibPolicies,
}

/// The reason why a configuration is refused. The text begins with the path of the statement, if there is one.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// The tree is not as `rib.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// A named policy cannot be used.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Reads the RIB's part.
///
/// # Errors
/// A policy is not valid for the RIB.
pub fn read(part: &Value) -> Result<RibSettings, ConfigurationError> {
    let tree = Tree::deserialize(part)?;
    let imports = tree.origin.into_iter().map(|origin| (origin.name, origin.import)).collect();
    let policies = RibPolicies::compile(tree.policy, imports, tree.resolving)?;
    Ok(RibSettings { rights: tree.route_rights, policies })
}

/// Checks a configuration tree where the RIB does not run. Returns the reason of a refusal, which begins with the path of the
/// statement, if there is one.
pub fn check(tree: Value) -> Option<String> {
    read(&tree).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part(import: &str) -> Value {
        json!({
            "origin": [{"name": "static", "import": [import]}],
            "policy": {"policy-statement": [
                {"name": "good", "term": [{"name": "t", "from": {"tag": ["7"]}, "then": {"distance": "5", "accept": [null]}}]},
                {"name": "of-bgp", "term": [{"name": "t", "then": {"local-preference": "5"}}]},
            ]},
        })
    }

    #[test]
    fn policies_of_origins_are_compiled() {
        let settings = read(&part("good")).expect("valid");
        assert!(settings.policies.for_subscriber("good").is_ok());
        assert_eq!(read(&json!({})).expect("nothing is configured").policies, RibPolicies::default());
    }

    #[test]
    fn a_refusal_begins_with_the_place() {
        let refused = |import| check(part(import)).expect("refused");
        assert_eq!(
            refused("god"),
            "origin static import: there is no policy-statement `god`; did you mean `good`?"
        );
        let resolving = json!({"resolve-next-hops-by": ["absent"]});
        let refused_resolving = check(resolving).expect("refused");
        assert!(refused_resolving.starts_with("resolve-next-hops-by: "), "{refused_resolving}");
        let place = "policy policy-statement of-bgp term t then local-preference: ";
        assert!(refused("of-bgp").starts_with(place), "{}", refused("of-bgp"));
        let unknown = settings_error();
        assert!(unknown.starts_with("there is no policy-statement `x`"), "{unknown}");
    }

    fn settings_error() -> String {
        let settings = read(&part("good")).expect("valid");
        settings.policies.for_subscriber("x").expect_err("there is none").to_string()
    }
}
