//! `sluice show version`, `show packages`, `show revisions`.

use crate::connection::session::Session;
use crate::output::{Failure, Output, Table};
use crate::packages::commands::{package_json, package_state};
use serde_json::{Value, json};
use sluice_cli::render;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as pb;

/// Shows the versions of the executable and of the router, if a router runs.
pub async fn version(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let own = env!("CARGO_PKG_VERSION");
    let reply = match session.router().await {
        Ok(router) => {
            let client = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
            match client.get_processes(pb::GetProcessesRequest {}).await {
                Err(XrlError::NoFinder) => None,
                reply => Some(reply?),
            }
        }
        Err(failure) if failure.status == Failure::NOT_CONNECTED => None,
        Err(failure) => return Err(failure),
    };
    if out.is_json() {
        let router = reply.map(|r| json!({ "version": r.version, "uptime_ms": r.uptime_ms }));
        out.json(&json!({ "program": own, "router": router }));
        return Ok(());
    }
    out.line(&format!("program  {own}"));
    match reply {
        Some(r) => out.line(&format!("router   {}, running for {}", r.version, render::span(r.uptime_ms))),
        None => out.line("router   not running"),
    }
    Ok(())
}

/// Prints the packages; with a name, the description of a package.
pub async fn packages(session: &Session, name: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let mut reply = session.configuration().await?.get_packages(pb::GetPackagesRequest {}).await?;
    if let Some(name) = name {
        reply.packages.retain(|p| p.name == name);
        match reply.packages.first() {
            None => return Err(Failure::failed(format!("there is no package `{name}`"))),
            Some(package) if !out.is_json() && !package.help.is_empty() => {
                out.write(&package.help);
                return Ok(());
            }
            Some(_) => {}
        }
    }
    let known = session.packages().await;
    let about = |p: &pb::Package| -> (Vec<String>, Vec<String>) {
        let parsed = sluice_cli::package::parse(&p.commands).unwrap_or_default();
        let refused = known.refused.iter().filter(|(name, _)| *name == p.name).map(|(_, why)| why.clone());
        let refused: Vec<String> = refused.collect();
        let taken = |name: &String| !refused.iter().any(|why| why.starts_with(&format!("`{name}` ")));
        (parsed.iter().map(|c| c.command.name()).filter(taken).collect(), refused)
    };
    if out.is_json() {
        let all: Vec<Value> = reply
            .packages
            .iter()
            .map(|p| {
                let (commands, refused) = about(p);
                package_json(p, &commands, &refused)
            })
            .collect();
        out.json(&json!({ "packages": all }));
        return Ok(());
    }
    let mut table =
        Table::new(&["package", "version", "state", "path", "signature", "commands", "description"]);
    for p in &reply.packages {
        let (commands, refused) = about(p);
        let description = match (p.refused.is_empty(), refused.is_empty()) {
            (false, _) => format!("refused: {}", p.refused),
            (_, false) => format!("commands not taken: {}", refused.join("; ")),
            _ => p.description.clone(),
        };
        table.row(vec![
            p.name.clone(),
            p.version.clone(),
            package_state(p).into(),
            (if p.builtin { "(the executable)" } else { p.path.as_str() }).into(),
            p.signed.clone(),
            commands.len().to_string(),
            description,
        ]);
    }
    out.table(&table, "no packages");
    Ok(())
}

/// Prints the revisions, the newest first.
pub async fn revisions(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let reply = session.configuration().await?.get_revisions(pb::GetRevisionsRequest {}).await?;
    if out.is_json() {
        let revision = |(back, r): (usize, &pb::Revision)| {
            json!({
                "back": back, "number": r.number, "time": render::time(r.time_unix_ms), "user": r.user,
                "comment": r.comment, "via": r.via, "unconfirmed": r.unconfirmed,
            })
        };
        let all: Vec<Value> = reply.revisions.iter().enumerate().map(revision).collect();
        let trouble = (!reply.trouble.is_empty()).then_some(reply.trouble);
        out.json(&json!({ "revisions": all, "trouble": trouble }));
        return Ok(());
    }
    if !reply.trouble.is_empty() {
        let text = out.paint(crate::output::Paint::Bad, &reply.trouble);
        out.line(&text);
    }
    let mut table = Table::new(&["back", "number", "time", "by", "via", "comment"]);
    for (back, r) in reply.revisions.iter().enumerate() {
        let comment =
            if r.unconfirmed { format!("(to be confirmed) {}", r.comment) } else { r.comment.clone() };
        table.row(vec![
            back.to_string(),
            r.number.to_string(),
            render::time(r.time_unix_ms),
            r.user.clone(),
            r.via.clone(),
            comment.trim_end().into(),
        ]);
    }
    out.table(&table, "no revisions");
    Ok(())
}
