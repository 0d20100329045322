//! The schema: every module there is.

use crate::impact::{self, Impact};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;
use yang5::context::{Context, ContextFlags, EmbeddedModuleKey, EmbeddedModules};
use yang5::schema::SchemaNode;

/// A YANG module that is part of the executable.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// The module's name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl Module {
    /// What other modules build on.
    pub const PLATFORM: [Module; 2] = [
        Module { name: "sluice-extensions", text: include_str!("../yang/sluice-extensions.yang") },
        Module { name: "sluice-router", text: include_str!("../yang/sluice-router.yang") },
    ];
}

/// Why there is no schema.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// libyang could not start.
    #[error("libyang does not start: {0}")]
    Library(String),
    /// A module is not valid.
    #[error("module {name}: {reason}")]
    Module {
        /// Its name.
        name: String,
        /// What libyang says.
        reason: String,
    },
    /// A folder of modules cannot be read.
    #[error("cannot read the modules in {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A leaf says nothing about what its change costs.
    #[error("module {module}: {path} has no sluice:impact; add one of none, soft, refilter, reset, restart")]
    NoImpact {
        /// The module.
        module: String,
        /// The leaf.
        path: String,
    },
}

/// All modules, and what they say to the manager.
pub struct Schema {
    pub(crate) context: Context,
    components: BTreeMap<String, Vec<String>>,
    impacts: BTreeMap<String, Impact>,
    pub(crate) keys: BTreeMap<String, Vec<String>>,
}

impl Schema {
    /// A schema of built-in modules and of every `.yang` file in `folder`, if that exists.
    pub fn load(modules: &[Module], folder: Option<&Path>) -> Result<Self, SchemaError> {
        let flags = ContextFlags::NO_YANGLIBRARY | ContextFlags::DISABLE_SEARCHDIR_CWD;
        let mut context = Context::new(flags).map_err(|e| SchemaError::Library(e.to_string()))?;
        let all = || Module::PLATFORM.iter().chain(modules);
        let embedded: EmbeddedModules =
            all().map(|m| (EmbeddedModuleKey::new(m.name, None, None, None), m.text)).collect();
        context.set_embedded_modules(&embedded);
        let mut schema =
            Schema { context, components: BTreeMap::new(), impacts: BTreeMap::new(), keys: BTreeMap::new() };
        for module in all() {
            schema.load_module(module.name, module.text)?;
        }
        if let Some(folder) = folder.filter(|f| f.is_dir()) {
            schema.load_folder(folder)?;
        }
        schema.context.unset_embedded_modules();
        Ok(schema)
    }

    fn load_folder(&mut self, folder: &Path) -> Result<(), SchemaError> {
        let failed = |source| SchemaError::Folder { path: folder.display().to_string(), source };
        self.context.set_searchdir(folder).map_err(|e| SchemaError::Library(e.to_string()))?;
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|e| e == "yang") {
                names.push(path);
            }
        }
        names.sort();
        for path in names {
            let text = std::fs::read_to_string(&path).map_err(failed)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = name.split('@').next().unwrap_or_default().to_string();
            self.load_module(&name, &text)?;
        }
        Ok(())
    }

    fn load_module(&mut self, name: &str, text: &str) -> Result<(), SchemaError> {
        self.context
            .load_module(name, None, &[])
            .map_err(|e| SchemaError::Module { name: name.into(), reason: crate::bind::words_of(&e) })?;
        let marks = impact::marks(text);
        if let Some(path) = marks.unmarked.first() {
            return Err(SchemaError::NoImpact { module: name.into(), path: path.clone() });
        }
        self.components.extend(marks.components);
        self.impacts.extend(marks.impacts);
        self.keys.extend(marks.keys);
        Ok(())
    }

    /// The component classes that have configuration, with the path of their container.
    pub fn components(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.components.iter().map(|(class, path)| (class.as_str(), path.as_slice()))
    }

    /// The keys of the list at a path.
    pub fn keys(&self, path: &[String]) -> Option<&[String]> {
        self.keys.get(&path.join("/")).map(Vec::as_slice)
    }

    /// What a change of the leaf at a path (names joined with `/`, keys left out) costs.
    pub fn impact(&self, path: &str) -> Option<Impact> {
        self.impacts.get(path).copied()
    }

    /// The nodes that may stand at the top.
    pub(crate) fn top(&self) -> Vec<SchemaNode<'_>> {
        self.context.modules(true).flat_map(|m| m.data().collect::<Vec<_>>()).collect()
    }
}
