//! Inheritance between lists: where an entry has no statement, the statement of an entry of another list holds
//! (`sluice:inherits`).

use super::index::Index;
use crate::error::SchemaError;

impl Index {
    /// Marks the lists with inheritance, and everything inside.
    pub(crate) fn spread_inheritance(&mut self) -> Result<(), SchemaError> {
        for parent in 0..self.defs.len() {
            for child in self.defs[parent].children.clone() {
                let Some(name) = self.defs[child].inherits_from.clone() else { continue };
                let source = self.defs[parent].child(&name).filter(|list| self.defs[*list].keys().len() == 1);
                let Some(source) = source.filter(|_| self.defs[child].child(&name).is_some()) else {
                    let def = &self.defs[child];
                    let reason = format!(
                        "`{}` inherits from `{name}`, which has to be a list with one key beside it, and a leaf in it",
                        def.path
                    );
                    return Err(SchemaError::Module { name: def.module.to_string(), reason });
                };
                self.defs[child].inherits = true;
                self.defs[source].inherits = true;
            }
        }
        // Children follow their parents.
        for id in 0..self.defs.len() {
            if self.defs[id].inherits {
                self.defs[id].children.clone().into_iter().for_each(|child| self.defs[child].inherits = true);
            }
        }
        Ok(())
    }
}
