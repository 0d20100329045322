//! Origins of routes that statements name: they must exist.
//!
//! An origin is a name under which a component registers routes at the RIB. Those of packages are known by the packages' rights. A program
//! without a package may register a name too: by a statement of the RIB about that name.

use super::node::Role;
use super::package::Package;
use super::role::with_role_anywhere;
use crate::error::Fault;
use crate::schema::Schema;
use crate::tree::key::key_words;
use crate::tree::{Block, Item, Tree};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The origin of the RIB itself: the subnets of the interfaces.
const CONNECTED: &str = "connected";
/// The method by which an origin is registered.
const REGISTER: &str = "rib.v1.Rib/RegisterOrigin";

/// The part of `rights.toml` with the origins that a component may register.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Rights {
    calls: BTreeMap<String, Vec<String>>,
    routes: Routes,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Routes {
    origins: Vec<String>,
}

/// Returns the names of the origins that components of packages may register, and of the RIB's own. Rights that cannot be read are refused
/// elsewhere.
pub(crate) fn of_packages(packages: &[Package]) -> BTreeSet<String> {
    let of_package = |package: &Package| -> Vec<String> {
        let rights = package.rights.as_ref().and_then(|text| toml::from_str::<Rights>(text).ok());
        let may_register = |rights: &Rights| {
            rights.calls.values().flatten().any(|method| method == REGISTER || method == "rib.v1.Rib/*")
        };
        match rights.filter(may_register) {
            Some(rights) if !rights.routes.origins.is_empty() => rights.routes.origins,
            Some(_) => package.class.clone().into_iter().collect(),
            None => Vec::new(),
        }
    };
    packages.iter().flat_map(of_package).chain([CONNECTED.to_owned()]).collect()
}

/// The keys of a list's entries, with the names and keys down to each.
type Keys = Vec<(Vec<Arc<str>>, Arc<str>)>;

/// Collects the keys of the lists at a path below a block.
fn keys(block: &Block, path: &[&str], trail: &[Arc<str>], found: &mut Keys) {
    let Some((name, rest)) = path.split_first() else { return };
    let here = |more: &[Arc<str>]| [trail, &[Arc::from(*name)], more].concat();
    match block.get(name) {
        Some(Item::Container(inner)) => keys(inner, rest, &here(&[]), found),
        Some(Item::List(entries)) => {
            for (key, inner) in entries.iter() {
                let words: Vec<Arc<str>> = key_words(key).map(Arc::from).collect();
                match rest.is_empty() {
                    true => found.extend(words.first().map(|word| (here(&words), word.clone()))),
                    false => keys(inner, rest, &here(&words), found),
                }
            }
        }
        _ => {}
    }
}

impl Schema {
    fn keys_with_role(&self, tree: &Tree, role: Role) -> Keys {
        let mut found = Keys::new();
        for place in with_role_anywhere(self.nodes(), role) {
            keys(&tree.root, &place.path, &[], &mut found);
        }
        found
    }

    /// Returns an error for a statement that names an origin that no package has, nor a statement of the RIB.
    pub(crate) fn check_origins(&self, tree: &Tree) -> Result<(), Fault> {
        let Some(origins) = &self.origins else { return Ok(()) };
        let named = self.keys_with_role(tree, Role::Origin);
        if named.iter().all(|(_, name)| origins.contains(&**name)) {
            return Ok(());
        }
        let others = self.keys_with_role(tree, Role::NamedOrigin);
        let is_known =
            |name: &str| origins.contains(name) || others.iter().any(|(_, other)| &**other == name);
        let unknown = named.into_iter().find(|(_, name)| !is_known(name));
        unknown.map_or(Ok(()), |(path, name)| {
            let all: Vec<&str> = origins.iter().map(String::as_str).collect();
            Err(Fault {
                path,
                message: format!("there is no origin of routes `{name}`"),
                expected: Some(format!("one of {}, or a name that `rib origin` has", all.join(", "))),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(class: &str, module: &str, text: &str, rights: &str) -> Package {
        Package {
            name: class.into(),
            class: Some(class.into()),
            modules: vec![(module.into(), text.into())],
            rights: Some(rights.into()),
            builtin: true,
            ..Package::default()
        }
    }

    fn schema() -> Schema {
        let registers = "[calls]\nrib = [\"rib.v1.Rib/RegisterOrigin\"]\n";
        let packages = vec![
            package("bgp", "sluice-bgp", include_str!("../../../../components/bgp/bgp.yang"), registers),
            package("rib", "sluice-rib", include_str!("../../../../components/rib/rib.yang"), ""),
            package(
                "static",
                "sluice-static",
                include_str!("../../../../components/static/static.yang"),
                &format!("{registers}[routes]\norigins = [\"static\", \"nwp\"]\n"),
            ),
        ];
        Schema::load(packages).expect("a schema").0
    }

    #[test]
    fn origins_that_do_not_exist_are_refused() {
        let schema = schema();
        let read = |origin: &str, more: &str| {
            let text = format!(
                "{more} protocols {{ bgp {{ local-as 1; router-id 1.1.1.1; redistribute {origin}; }} }}"
            );
            schema.read("test", &text).map(|_| ()).map_err(|error| error.to_string())
        };
        for origin in ["static", "connected", "nwp"] {
            assert_eq!(read(origin, ""), Ok(()), "{origin}");
        }
        let refused = read("staitc", "").expect_err("no package has it");
        assert!(refused.contains("no origin of routes `staitc`"), "{refused}");
        assert!(refused.contains("bgp, connected, nwp, static"), "{refused}");
        // A component that registers nothing, and a program that an operator runs.
        assert!(read("rib", "").is_err());
        assert_eq!(read("own-program", "rib { origin own-program; }"), Ok(()));
        // Origins of packages are not known to a schema of modules alone.
        assert!(Schema::of(&[]).expect("a schema").origins.is_none());
    }
}
