//! `sluice package install|upgrade|remove|list`: packages of the running router.

use crate::Where;
use crate::connection::connect::with_router;
use crate::connection::refusal::refused;
use crate::output::{Failure, Table, print_json, say};
use crate::packages::check;
use crate::packages::commands::package_state;
use serde_json::json;
use sluice_xrl::XrlEndpoint;
use sluice_xrl::idl::manager::v1 as pb;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for a package to come or go: a hand-over is part of an upgrade.
const DEADLINE: Duration = Duration::from_secs(120);

/// What is installed.
#[derive(clap::Args)]
pub struct InstallArgs {
    /// The package's folder, or its archive (NAME.tar.zst).
    package: PathBuf,
    /// Take the package although nobody of trust signed it.
    #[arg(long)]
    unsigned: bool,
}

/// What is replaced.
#[derive(clap::Args)]
pub struct UpgradeArgs {
    #[command(flatten)]
    package: InstallArgs,
    /// Agree to rights that the installed version does not have; without this, a question at the terminal.
    #[arg(long)]
    accept_rights: bool,
}

/// Installs a package.
pub fn install(args: InstallArgs, place: &Where) -> Result<(), Failure> {
    let request = request(&args.package, args.unsigned, false)?;
    let as_json = place.json;
    with_router(place, move |router| async move {
        let reply = client(&router).install(request).await.map_err(refused)?;
        print(&reply, "package-install", as_json);
        Ok(())
    })
}

/// Replaces a package by another version.
pub fn upgrade(args: UpgradeArgs, place: &Where) -> Result<(), Failure> {
    let request = request(&args.package.package, args.package.unsigned, true)?;
    let as_json = place.json;
    with_router(place, move |router| async move {
        let mut reply = client(&router).install(request.clone()).await.map_err(refused)?;
        if reply.asks {
            if !args.accept_rights && !(is_agreed(&reply, as_json)?) {
                let text = format!(
                    "package `{}` asks for more rights, and they were not agreed to; nothing is changed",
                    reply.name
                );
                return Err(Failure::failed(text));
            }
            let request = pb::InstallPackageRequest { accepted: reply.digest.clone(), ..request };
            reply = client(&router).install(request).await.map_err(refused)?;
        }
        print(&reply, "package-upgrade", as_json);
        Ok(())
    })
}

/// Removes a package.
pub fn remove(name: &str, place: &Where) -> Result<(), Failure> {
    let (name, as_json) = (name.to_owned(), place.json);
    with_router(place, move |router| async move {
        let request = pb::RemovePackageRequest { name: name.clone() };
        let reply = client(&router).remove(request).await.map_err(refused)?;
        match as_json {
            true => print_json("package-remove", &json!({ "name": name, "version": reply.version })),
            false => say(&format!("package {name} {} is removed", reply.version)),
        }
        Ok(())
    })
}

/// Lists the packages that are not part of the executable.
pub fn list(place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        let client = pb::ConfigurationClient::new(&router, "manager");
        let reply = client.get_packages(pb::GetPackagesRequest {}).await.map_err(refused)?;
        let packages: Vec<pb::Package> =
            reply.packages.into_iter().filter(|package| !package.builtin).collect();
        if as_json {
            let row = |package: &pb::Package| {
                json!({
                    "name": package.name, "version": package.version, "state": package_state(package),
                    "signed": package.signed, "refused": package.refused, "path": package.path,
                    "description": package.description,
                })
            };
            print_json("package-list", &json!({ "packages": packages.iter().map(row).collect::<Vec<_>>() }));
            return Ok(());
        }
        let mut table = Table::new(&["package", "version", "state", "signature", "description"]);
        for package in &packages {
            let description = match package.refused.is_empty() {
                true => package.description.clone(),
                false => format!("refused: {}", package.refused),
            };
            let (name, version) = (package.name.clone(), package.version.clone());
            table.row(vec![
                name,
                version,
                package_state(package).into(),
                package.signed.clone(),
                description,
            ]);
        }
        if packages.is_empty() {
            sluice_print::outln!("no packages; `sluice package install FOLDER` installs one");
        }
        table.print();
        Ok(())
    })
}

fn client(router: &XrlEndpoint) -> pb::PackagesClient {
    pb::PackagesClient::new(router, "manager").with_deadline(DEADLINE)
}

fn request(package: &Path, unsigned: bool, upgrade: bool) -> Result<pb::InstallPackageRequest, Failure> {
    let shown = package.display().to_string();
    let problems = check::unknown_names(package);
    if !problems.is_empty() {
        return Err(Failure::new(Failure::CONFIG, "config-invalid", problems.join("\n")));
    }
    let path = package.canonicalize().map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let path = path.into_os_string().into_string();
    let path = path.map_err(|_| Failure::failed(format!("{shown}: the path is not UTF-8")))?;
    Ok(pb::InstallPackageRequest { path, upgrade, unsigned, accepted: String::new() })
}

/// Shows the wider rights and asks at the terminal; without a terminal nobody agrees.
fn is_agreed(reply: &pb::InstallPackageReply, as_json: bool) -> Result<bool, Failure> {
    let is_asked = !as_json && std::io::stdin().is_terminal();
    if !as_json {
        reply.more.iter().for_each(|phrase| say(&format!("{} may from now on {phrase}", reply.name)));
    }
    if !is_asked {
        let text = format!(
            "version {} of package `{}` asks for more rights: {}; --accept-rights agrees to them",
            reply.version,
            reply.name,
            reply.more.join("; ")
        );
        return Err(Failure::failed(text));
    }
    sluice_print::out!("Agree? [y/N] ");
    let failed = |error: std::io::Error| Failure::io("the terminal", &error);
    std::io::stdout().flush().map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn print(reply: &pb::InstallPackageReply, schema: &str, as_json: bool) {
    if as_json {
        let before = (!reply.before.is_empty()).then_some(&reply.before);
        print_json(
            schema,
            &json!({
                "name": reply.name, "version": reply.version, "before": before, "signed": reply.signed,
                "digest": reply.digest, "more_rights": reply.more, "fewer_rights": reply.fewer,
                "replaced": reply.replaced, "commands": reply.commands,
            }),
        );
        return;
    }
    let (name, version) = (&reply.name, &reply.version);
    match reply.before.as_str() {
        "" => say(&format!("package {name} {version} is installed, {}", reply.signed)),
        before => say(&format!("package {name} {version} is in the place of {before}, {}", reply.signed)),
    }
    reply.more.iter().for_each(|phrase| say(&format!("  it may {phrase}")));
    reply.commands.iter().for_each(|command| say(&format!("  its command {command}")));
    reply.fewer.iter().for_each(|phrase| say(&format!("  it may no longer {phrase}")));
    reply.replaced.iter().for_each(|component| say(&format!("  {component} runs in a new process")));
}
