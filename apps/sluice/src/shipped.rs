//! The commands of the executable: those in code, and those of its packages.

use crate::components;
use sluice_cli::package::{self, PackageCommand};
use sluice_cli::{Command, builtin};
use sluice_console::ComponentCommands;

/// Returns the names of the executable's components.
pub fn shipped() -> impl Iterator<Item = &'static str> {
    components::BUILTINS.iter().filter_map(|b| b.commands).chain([components::MANAGER_COMMANDS])
}

/// Returns the commands implemented in code: the platform's and the components'.
pub fn in_code() -> Vec<Command> {
    let own = components::COMMANDS.iter().flat_map(|(_, own)| (own.commands)());
    own.chain(builtin::operational().commands).collect()
}

/// Returns the component that implements a command in code, with its class.
pub fn component_of(id: &str) -> Option<&'static (&'static str, ComponentCommands)> {
    components::COMMANDS.iter().find(|(_, own)| (own.commands)().iter().any(|command| command.id == id))
}

/// Returns the commands of the executable's components.
pub fn builtin() -> Vec<PackageCommand> {
    // A test reads them all; what is wrong in one never gets this far.
    shipped().flat_map(|text| package::parse(text).unwrap_or_default()).collect()
}
