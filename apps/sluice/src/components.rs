//! The components of this executable: a row each.

use sluice_manager_shell::Builtin;
use sluice_shell::RunOptions;

macro_rules! builtin {
    ($class:literal, module) => {
        builtin!(
            $class,
            Some((
                concat!("sluice-", $class),
                include_str!(concat!("../../../components/", $class, "/", $class, ".yang")),
            ))
        )
    };
    ($class:literal) => {
        builtin!($class, None)
    };
    ($class:literal, $module:expr) => {
        Builtin {
            class: $class,
            rights: include_str!(concat!("../../../components/", $class, "/rights.toml")),
            module: $module,
            commands: None,
            help: include_str!(concat!("../../../components/", $class, "/README.md")),
        }
    };
}

/// What the manager may start.
pub const BUILTINS: &[Builtin] =
    &[builtin!("fea", module), builtin!("rib"), builtin!("bgp", module), builtin!("static", module)];

/// Runs a component until it is told to end.
pub fn run(class: &str, options: RunOptions) -> anyhow::Result<()> {
    match class {
        "fea" => sluice_fea_shell::run(options),
        "rib" => sluice_rib_shell::run(options),
        "bgp" => sluice_bgp_shell::run(options),
        "static" => sluice_static_shell::run(options),
        other => anyhow::bail!("there is no component `{other}` in this executable"),
    }
}
