//! `sluice package check`: the errors of a package that can be found without a router.

use crate::output::{self, Failure};
use prost_reflect::DescriptorPool;
use serde_json::json;
use sluice_process::rights::Rights;
use std::path::Path;
use std::process::ExitCode;

/// Checks the package in `folder` and prints its problems.
pub fn run(folder: &Path, json: bool) -> ExitCode {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    let mut problems = {
        let executable = sluice_process::own_executable().ok();
        sluice_manager_process::check_package(crate::components::BUILTINS, &folder, executable.as_deref())
    };
    problems.extend(unknown_names(&folder));
    match json {
        true => output::print_json(
            "package-check",
            &json!({ "folder": folder, "valid": problems.is_empty(), "problems": problems }),
        ),
        false if problems.is_empty() => output::say(&format!("{}: valid", folder.display())),
        false => problems.iter().for_each(|problem| output::say_lines(problem)),
    }
    ExitCode::from(if problems.is_empty() { 0 } else { Failure::CONFIG })
}

/// Returns what a package in a folder names that this executable does not have. `package install` refuses the same.
pub fn unknown_names(folder: &Path) -> Vec<String> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let rights = text("rights.toml").and_then(|text| Rights::parse(&text).ok());
    let mut problems = rights.map(|rights| unknown_calls(&rights)).unwrap_or_default();
    problems.extend(text("commands.toml").map(|commands| wrong_commands(&commands)).unwrap_or_default());
    problems
}

/// Returns the calls in a package's rights that no component of the router serves. Calls of further packages are not
/// known here.
fn unknown_calls(rights: &Rights) -> Vec<String> {
    let own = crate::components::COMMANDS.iter().map(|(_, commands)| commands.descriptors);
    let pools: Vec<DescriptorPool> = [sluice_xrl::idl::DESCRIPTORS]
        .into_iter()
        .chain(own)
        .filter_map(|octets| DescriptorPool::decode(octets).ok())
        .collect();
    let is_ours = |target: &str| crate::components::BUILTINS.iter().any(|b| b.class == target);
    let mut problems = Vec::new();
    for (target, methods) in rights.calls.iter().filter(|(target, _)| is_ours(target)) {
        for pattern in methods {
            let (interface, method) = pattern.split_once('/').unwrap_or((pattern, ""));
            let service = pools.iter().find_map(|pool| pool.get_service_by_name(interface));
            let problem = match service {
                _ if interface == "*" => continue,
                None => format!("there is no interface `{interface}`"),
                Some(_) if method == "*" => continue,
                Some(service) if service.methods().any(|m| m.name() == method) => continue,
                Some(service) => {
                    let names: Vec<String> = service.methods().map(|m| m.name().to_string()).collect();
                    format!("`{interface}` has no method `{method}`; it has {}", names.join(", "))
                }
            };
            problems.push(format!("rights.toml: calls.{target}: {problem}"));
        }
    }
    problems
}

/// Returns the errors of a `commands.toml`: in its text, and words already in use.
fn wrong_commands(text: &str) -> Vec<String> {
    let commands = match sluice_cli::package::parse(text) {
        Ok(commands) => commands,
        Err(error) => return vec![error.to_string()],
    };
    let mut taken: Vec<String> = crate::shipped::in_code().iter().map(|c| c.name()).collect();
    taken.extend(crate::shipped::builtin().iter().map(|c| c.command.name()));
    let names = commands.iter().map(|c| c.command.name());
    names
        .filter(|name| taken.contains(name))
        .map(|name| format!("commands.toml: `{name}` is taken already"))
        .collect()
}
