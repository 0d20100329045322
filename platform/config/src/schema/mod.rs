//! The schema: the modules of every package there is.

pub mod addresses;
pub mod build;
pub mod impact;
pub mod index;
pub mod inheritance;
pub mod metrics;
pub mod node;
pub mod origins;
pub mod package;
pub mod places;
pub mod role;
pub mod spot;
pub mod values;
pub mod yang;

use crate::error::SchemaError;
use crate::schema::index::Index;
use crate::schema::package::{Package, Refused};
use crate::schema::yang::Yang;
use crate::{Impact, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use yang5::context::{Context, ContextFlags};
use yang5::schema::{SchemaInputFormat, SchemaModule};

/// A YANG module that is part of the executable.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// The module's name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The modules used by every further module.
const PLATFORM: [Module; 3] = [
    Module { name: "sluice-extensions", text: include_str!("../../yang/sluice-extensions.yang") },
    Module { name: "sluice-router", text: include_str!("../../yang/sluice-router.yang") },
    Module { name: "sluice-policy", text: include_str!("../../yang/sluice-policy.yang") },
];

/// The modules of the router, and the extensions for the manager. libyang requires use by a single
/// thread at a time.
pub struct Schema {
    pub(crate) yang: Yang,
    pub(crate) index: Arc<Index>,
    nodes: Vec<Node>,
    paths: BTreeMap<String, Vec<String>>,
    /// The origins of routes of the packages; `None` for a schema of modules alone.
    pub(crate) origins: Option<BTreeSet<String>>,
}

impl Schema {
    /// Loads a schema of packages; returns the packages in the schema too, and the refused packages, with the reason.
    /// Each package that is not builtin is tried together with the packages before in a context of its own, so that a
    /// bad package does no harm.
    pub fn load(packages: Vec<Package>) -> Result<(Schema, Vec<Package>, Vec<Refused>), SchemaError> {
        let (mut taken, others): (Vec<Package>, Vec<Package>) = packages.into_iter().partition(|p| p.builtin);
        let mut schema = Schema::of_packages(&taken)?;
        let mut refused = Vec::new();
        for package in others {
            if let Some(reason) = package.collision(&taken) {
                refused.push(Refused { name: package.name, reason });
                continue;
            }
            taken.push(package);
            match Schema::of_packages(&taken) {
                Ok(larger) => schema = larger,
                Err(error) => {
                    let reason = match &error {
                        // libyang keeps the place to itself.
                        SchemaError::Module { name, .. } => {
                            format!(
                                "{error}; `yanglint {name}.yang` shows where (Debian's package libyang2-tools)"
                            )
                        }
                        other => other.to_string(),
                    };
                    refused.extend(taken.pop().map(|p| Refused { name: p.name, reason }));
                }
            }
        }
        Ok((schema, taken, refused))
    }

    /// A schema of modules that are part of the executable.
    pub fn of(modules: &[Module]) -> Result<Schema, SchemaError> {
        Schema::of_texts(modules.iter().map(|m| (m.name, m.text)))
    }

    fn of_packages(packages: &[Package]) -> Result<Schema, SchemaError> {
        let mut schema = Schema::of_texts(
            packages.iter().flat_map(|p| &p.modules).map(|(n, t)| (n.as_str(), t.as_str())),
        )?;
        schema.origins = Some(origins::of_packages(packages));
        for package in packages {
            let Some((class, (name, _))) = package.class.as_ref().zip(package.modules.first()) else {
                continue;
            };
            if !schema.index.classes.contains_key(class.as_str()) {
                let reason = format!("no container is marked `sluice:component \"{class}\"`");
                return Err(SchemaError::Module { name: name.clone(), reason });
            }
        }
        Ok(schema)
    }

    fn of_texts<'m>(modules: impl Iterator<Item = (&'m str, &'m str)>) -> Result<Schema, SchemaError> {
        let flags = ContextFlags::NO_YANGLIBRARY | ContextFlags::DISABLE_SEARCHDIR_CWD;
        let context = Context::new(flags).map_err(|e| SchemaError::Library(e.to_string()))?;
        let mut waiting: Vec<(&str, &str)> =
            PLATFORM.iter().map(|m| (m.name, m.text)).chain(modules).collect();
        // A module may come before one that it imports: so as long as some get in, the others are tried again.
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut failed = None;
            let mut left = Vec::new();
            for (name, text) in waiting {
                if let Err(error) = SchemaModule::parse_string(&context, text, SchemaInputFormat::YANG) {
                    failed.get_or_insert((name, words_of(&error)));
                    left.push((name, text));
                }
            }
            if let Some((name, reason)) = failed
                && left.len() == before
            {
                return Err(SchemaError::Module { name: name.into(), reason });
            }
            waiting = left;
        }
        let (yang, built) = Yang::new(context, build::build);
        let (mut index, nodes) = built?;
        index.settle_defaults(&yang);
        let words = |path: &str| path.split('/').map(Into::into).collect();
        let single = index.classes.iter().filter_map(|(class, places)| Some((class, places.single?)));
        let paths = single.map(|(class, id)| (class.to_string(), words(&index[id].path))).collect();
        Ok(Schema { yang, index: Arc::new(index), nodes, paths, origins: None })
    }

    /// Everything that an operator may write, choices taken out.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Iterates over the component classes with configuration and without instances, with the path of their container.
    pub fn components(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.paths.iter().map(|(class, path)| (class.as_str(), path.as_slice()))
    }

    /// Returns the impact of a change of the leaf at a schema path (names joined with `/`, keys left out).
    pub fn impact(&self, path: &str) -> Option<Impact> {
        let mut id = index::ROOT;
        for name in path.split('/') {
            id = self.index[id].child(name)?;
        }
        matches!(self.index[id].kind, index::Kind::Leaf | index::Kind::Values { .. })
            .then(|| self.index[id].impact)
    }
}

/// Returns libyang's message in one line.
pub(crate) fn words_of(e: &yang5::Error) -> String {
    let all = e.msg.clone().unwrap_or_else(|| e.to_string());
    all.lines().next().unwrap_or_default().trim_end_matches('.').to_string()
}
