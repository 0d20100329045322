//! The calls of packages' commands and metrics.
//!
//! A command runs with the rights of the person at the keyboard, and a role with the command allows the call. A package therefore
//! names only calls with the operator's agreement: calls of the package's own component, and calls of the package's `[calls]`.

use serde::Deserialize;
use sluice_base::class_of;
use sluice_base::component::format::{COMMANDS_FORMAT, FormatHead, UnknownFormat};
use sluice_config::metrics;
use sluice_config::package::Package;
use sluice_process::rights::Rights;
use thiserror::Error;

/// The calls in a `commands.toml`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Commands {
    command: Vec<CommandRow>,
}

/// A command and the command's calls.
#[derive(Deserialize)]
pub struct CommandRow {
    /// The words of the command.
    pub words: String,
    /// The call, TARGET/INTERFACE/METHOD.
    pub call: Option<String>,
    #[serde(default)]
    argument: Vec<Argument>,
}

#[derive(Deserialize)]
struct Argument {
    live: Option<Live>,
}

/// Values for completion, from the router.
#[derive(Deserialize)]
struct Live {
    call: String,
}

/// A call beyond the rights of a package.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// The commands have a format whose calls cannot be checked. A newer command line could read them.
    #[error("commands.toml: {0}")]
    Format(#[from] UnknownFormat),
    /// A call of another component.
    #[error(
        "{what} calls `{call}`, and a package's commands and metrics call its own component, or what `[calls]` of its rights.toml \
         permits without a limit"
    )]
    Foreign {
        /// The command or the metric.
        what: String,
        /// The call.
        call: String,
    },
}

/// Returns the commands of a `commands.toml`. An invalid text has no commands, for the command line too.
pub fn rows(text: &str) -> Vec<CommandRow> {
    toml::from_str::<Commands>(text).unwrap_or_default().command
}

/// Returns the commands of a package with their calls, for the operator who installs the package.
pub fn in_words(package: &Package) -> Vec<String> {
    let rows = rows(package.commands.as_deref().unwrap_or_default());
    rows.into_iter().map(|row| format!("`{}` calls {}", row.words, row.call.unwrap_or_default())).collect()
}

/// Checks the calls of a package's commands and metrics.
///
/// # Errors
/// The first call beyond the package's rights, or a newer format of `commands.toml`.
pub fn check(package: &Package, rights: Option<&Rights>) -> Result<(), CommandError> {
    let may = May { class: package.class.as_deref(), rights };
    let text = package.commands.as_deref().unwrap_or_default();
    toml::from_str::<FormatHead>(text).unwrap_or_default().check(COMMANDS_FORMAT)?;
    for row in rows(text) {
        let what = format!("commands.toml: `{}`", row.words);
        if let Some(call) = &row.call {
            may.check(&what, call)?;
        }
        for live in row.argument.iter().filter_map(|argument| argument.live.as_ref()) {
            may.check(&format!("{what}: completion"), &live.call)?;
        }
    }
    let metrics = package.metrics.as_deref().unwrap_or_default();
    for metric in metrics::parse(&package.name, metrics).unwrap_or_default() {
        let metrics::Call { target, interface, method, .. } = &metric.call;
        let what = format!("metrics.toml: {}", metric.name);
        may.check(&what, &format!("{target}/{interface}/{method}"))?;
    }
    Ok(())
}

/// The permitted calls of a package.
struct May<'a> {
    class: Option<&'a str>,
    rights: Option<&'a Rights>,
}

impl May<'_> {
    fn check(&self, what: &str, call: &str) -> Result<(), CommandError> {
        if self.allows(call) {
            return Ok(());
        }
        Err(CommandError::Foreign { what: what.to_owned(), call: call.to_owned() })
    }

    fn allows(&self, call: &str) -> bool {
        let target = call.split('/').next().unwrap_or_default();
        if self.class == Some(class_of(target)) {
            return true;
        }
        // A guard holds the component to its limits. A command goes past the guard.
        self.rights.is_some_and(|rights| {
            rights.call_patterns().iter().any(|pattern| sluice_xrl::matches(pattern, call))
                && !rights.limit.iter().any(|limit| limit.call == call)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(class: Option<&str>, commands: &str, metrics: &str) -> Package {
        Package {
            name: "prb".into(),
            class: class.map(String::from),
            commands: Some(commands.into()),
            metrics: Some(metrics.into()),
            ..Package::default()
        }
    }

    fn command(words: &str, call: &str) -> String {
        format!("[[command]]\nwords = '{words}'\nhelp = 'x'\ncall = '{call}'\n")
    }

    #[test]
    fn commands_call_the_own_component_or_what_rights_permit() {
        let rights = "class = 'prb'\n[calls]\nrib = ['rib.v1.Rib/*']\nbgp = ['bgp.v1.Bgp/Reset*']\n\
                      [[limit]]\ncall = 'rib/rib.v1.Rib/GetRoutes'\nrate = '5/s'\n";
        let rights = Rights::parse(rights).ok();
        for (words, call, is_taken) in [
            ("show prb x", "prb/prb.v1.Prb/GetX", true),
            ("clear prb x", "prb/prb.v1.Prb/ForgetX", true),
            ("show prb x", "manager/manager.v1.Manager/StopRouter", false),
            ("request prb x", "manager/manager.v1.Manager/StopRouter", false),
            ("show prb x", "manager/manager.v1.Manager/GetProcesses", false),
            ("show prb x", "rib/rib.v1.Rib/LookupRoute", true),
            ("request prb x", "bgp/bgp.v1.Bgp/ResetNeighbor", true),
            ("show prb x", "bgp/bgp.v1.Bgp/SetCheck", false),
        ] {
            let found = check(&package(Some("prb"), &command(words, call), ""), rights.as_ref());
            assert_eq!(found.is_ok(), is_taken, "{words} {call}: {found:?}");
        }
        let own = command("show prb x", "prb/prb.v1.Prb/GetX");
        assert!(check(&package(None, &own, ""), None).is_err());
    }

    #[test]
    fn a_newer_format_is_refused_with_both_versions() {
        let own = command("show prb x", "prb/prb.v1.Prb/GetX");
        let of_format =
            |format: u32| check(&package(Some("prb"), &format!("format = {format}\n{own}"), ""), None);
        assert_eq!(of_format(1), Ok(()));
        assert_eq!(of_format(2), Err(CommandError::Format(UnknownFormat { found: 2, newest: 1 })));
    }

    #[test]
    fn completion_and_metrics_are_calls_too() {
        let live = |call: &str| {
            let own = command("show prb x", "prb/prb.v1.Prb/GetX");
            let argument = "[[command.argument]]\nname = 'a'\nhelp = 'x'\ntype = 'text'\n";
            let text = format!("{own}{argument}live = {{ call = '{call}', path = 'a' }}\n");
            check(&package(Some("prb"), &text, ""), None)
        };
        assert_eq!(live("prb/prb.v1.Prb/GetNames"), Ok(()));
        assert!(live("manager/manager.v1.Manager/StopRouter").is_err());
        let metric = |call: &str| {
            let text = format!(
                "[[metric]]\nname = 'prb_x'\ntype = 'gauge'\nhelp = 'X.'\ncall = '{call}'\nvalue = 'x'\n"
            );
            check(&package(Some("prb"), "", &text), None)
        };
        assert_eq!(metric("prb/prb.v1.Prb/GetX"), Ok(()));
        assert!(metric("bgp/bgp.v1.Bgp/GetSummary").is_err());
    }
}
