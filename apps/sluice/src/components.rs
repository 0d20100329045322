//! The components of the executable: a row each.

pub use sluice_cluster_cli::{
    ClusterCommand as ElementCommand, SPELLINGS as ELEMENT_SPELLINGS, at as at_element, whole,
};

use sluice_console::ComponentCommands;
use sluice_manager_process::{Builtin, Sharing};
use sluice_process::RunOptions;

/// A file of a component's folder, if the row names the file.
macro_rules! shipped {
    ($class:literal, module) => {
        Some((
            concat!("sluice-", $class),
            include_str!(concat!("../../../components/", $class, "/", $class, ".yang")),
        ))
    };
    ($class:literal, commands) => {
        Some(include_str!(concat!("../../../components/", $class, "/commands.toml")))
    };
    ($class:literal, metrics) => {
        Some(include_str!(concat!("../../../components/", $class, "/metrics.toml")))
    };
    ($class:literal, none) => {
        None
    };
}

/// A component's check of its part of a configuration, if the row names one.
macro_rules! checked {
    (none) => {
        None
    };
    ($check:path) => {
        Some($check)
    };
}

macro_rules! builtin {
    ($class:literal) => {
        builtin!($class, none, none, none, none)
    };
    ($class:literal, module) => {
        builtin!($class, module, none, none, none)
    };
    ($class:literal, $module:ident, $commands:ident, $metrics:ident) => {
        builtin!($class, $module, $commands, $metrics, none)
    };
    // The last one is a module with the rule by which the component shares the configuration with other machines (`sharing`), and with the
    // names of the router's ports (`ports`).
    ($class:literal, $module:ident, $commands:ident, $metrics:ident, none, $($rules:ident)::+) => {
        Builtin {
            sharing: Some(|part| {
                $($rules)::+::sharing(part).map(|(element, elsewhere)| Sharing { element, elsewhere })
            }),
            ports: Some($($rules)::+::ports),
            ..builtin!($class, $module, $commands, $metrics, none)
        }
    };
    ($class:literal, $module:ident, $commands:ident, $metrics:ident, $($check:tt)+) => {
        Builtin {
            class: $class,
            rights: include_str!(concat!("../../../components/", $class, "/rights.toml")),
            module: shipped!($class, $module),
            commands: shipped!($class, $commands),
            metrics: shipped!($class, $metrics),
            help: include_str!(concat!("../../../components/", $class, "/README.md")),
            check: checked!($($check)+),
            sharing: None,
            ports: None,
        }
    };
}

/// Commands of the manager, which no manager starts.
pub const MANAGER_COMMANDS: &str = include_str!("../../../components/manager/commands.toml");
/// Metrics of the manager.
pub const MANAGER_METRICS: &str = include_str!("../../../components/manager/metrics.toml");

/// The components offered to the manager.
pub const BUILTINS: &[Builtin] = &[
    builtin!("fea", module, none, metrics),
    builtin!("rib", module, none, metrics, sluice_rib_process::configuration::check),
    builtin!("bgp", module, commands, metrics, sluice_bgp_process::config::check),
    builtin!("static", module, none, metrics, sluice_static_process::config::check),
    builtin!("xip", module, commands, metrics),
    builtin!("cluster", module, commands, metrics, none, sluice_cluster_process::config),
    builtin!("rpki", module, commands, metrics),
    builtin!("guard"),
];

/// The components with commands in code of their own.
pub const COMMANDS: &[(&str, ComponentCommands)] =
    &[("bgp", sluice_bgp_cli::COMMANDS), ("xip", sluice_xip_cli::COMMANDS)];

/// Runs a component until asked to end.
pub fn run(class: &str, options: RunOptions) -> anyhow::Result<()> {
    match class {
        "fea" => sluice_fea_process::run(options),
        "rib" => sluice_rib_process::run(options),
        "bgp" => sluice_bgp_process::run(options),
        "static" => sluice_static_process::run(options),
        "xip" => sluice_xip_process::run(options),
        "cluster" => sluice_cluster_process::run(options),
        "rpki" => sluice_rpki_process::run(options),
        "guard" => sluice_guard_process::run(options),
        other => anyhow::bail!("there is no component `{other}` in this executable"),
    }
}
