//! Texts read into trees.

use crate::error::{ConfigError, ConfigErrors};
use crate::schema::Schema;
use crate::schema::index::ROOT;
use crate::text;
use crate::text::bind::Binder;
use crate::tree::Tree;
use std::sync::Arc;

impl Schema {
    /// Reads and validates a configuration text; `file` is the name used in errors. The error is the first one.
    pub fn read(&self, file: &str, text: &str) -> Result<Tree, ConfigError> {
        let tree = self.bind(&Tree::empty(), file, text, false)?;
        self.check(None, &tree).map_err(|fault| self.placed(file, text, fault))?;
        Ok(tree)
    }

    /// Reads and validates a configuration text, and goes on after an error to find the others.
    pub fn read_all(&self, file: &str, text: &str) -> Result<Tree, ConfigErrors> {
        let statements = text::parse(file, text)?;
        let mut tree = Tree::empty();
        let mut binder = Binder::new(self, file, text);
        binder.most = ConfigErrors::MOST;
        let last = binder.block(&statements, ROOT, Arc::make_mut(&mut tree.root)).err();
        let mut errors = std::mem::take(&mut binder.errors);
        errors.extend(last);
        if errors.is_empty() {
            let pending = std::mem::take(&mut binder.pending);
            errors.extend(binder.settle(&mut tree, pending).err());
        }
        if !errors.is_empty() {
            return Err(ConfigErrors::new(errors));
        }
        self.check(None, &tree).map_err(|fault| self.placed(file, text, fault))?;
        Ok(tree)
    }

    /// Returns a component's part of a text that may have errors elsewhere; `None` without the part.
    pub fn part_of_text(&self, component: &str, text: &str) -> Option<serde_json::Value> {
        let statements = text::parse("", text).ok()?;
        let mut tree = Tree::empty();
        let mut binder = Binder::new(self, "", text);
        binder.most = usize::MAX;
        // Statements with errors are left out.
        let _never = binder.block(&statements, ROOT, Arc::make_mut(&mut tree.root));
        self.part(component, &tree)
    }

    /// Returns a tree with a text's statements added. Each statement replaces statements excluded by its presence;
    /// [`Schema::validate`] checks the whole tree.
    pub fn merge(&self, tree: &Tree, file: &str, text: &str) -> Result<Tree, ConfigError> {
        self.bind(tree, file, text, true)
    }

    fn bind(&self, tree: &Tree, file: &str, text: &str, replaces: bool) -> Result<Tree, ConfigError> {
        let statements = text::parse(file, text)?;
        let mut tree = tree.clone();
        let mut binder = Binder::new(self, file, text);
        binder.replaces = replaces;
        binder.block(&statements, ROOT, Arc::make_mut(&mut tree.root))?;
        let pending = std::mem::take(&mut binder.pending);
        binder.settle(&mut tree, pending)?;
        Ok(tree)
    }
}
