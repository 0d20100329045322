//! The ports of a router of many machines, as far as statements for all machines name them.

use crate::configure::builtin::PortsRule;
use crate::configure::model::Model;
use sluice_config::{ConfigError, ConfigErrors, ConfigText, Ports, Tree};

impl Model {
    /// Returns the ports of the router of many machines in a configuration; `None` for a router of one machine.
    fn ports(&self, tree: &Tree) -> Option<Ports> {
        let (class, rule) = self.ports?;
        Some(Ports::new(rule(self.schema.part(class, tree)?)?))
    }

    /// Checks that statements name only ports that the router has. The cost follows the size of the difference from `before`, unless the
    /// ports changed.
    ///
    /// # Errors
    /// The first statement with another port.
    pub fn check_ports(
        &self,
        before: Option<&Tree>,
        after: &Tree,
        written: impl FnOnce() -> ConfigText,
    ) -> Result<(), ConfigError> {
        let Some(ports) = self.ports(after) else { return Ok(()) };
        let before = before.filter(|before| self.ports(before).as_ref() == Some(&ports));
        self.schema.check_ports(before, after, &ports, written)
    }

    /// Returns an error of a statement with the router's ports, if the statement names a port as people do.
    pub(crate) fn explain_port(&self, error: ConfigError, tree: &Tree) -> ConfigError {
        match self.ports(tree) {
            Some(ports) => ports.explain(error),
            None => error,
        }
    }

    /// Does the same for the errors of a text, by the ports of the text.
    pub(crate) fn explain_ports(&self, errors: ConfigErrors, text: &str) -> ConfigErrors {
        let of_text = |(class, rule): (&str, PortsRule)| rule(self.schema.part_of_text(class, text)?);
        match self.ports.and_then(of_text) {
            Some(names) => Ports::new(names).explain_all(errors),
            None => errors,
        }
    }
}
