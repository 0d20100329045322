//! `sluice drain` and `sluice undrain`: traffic moves to different paths before maintenance, and returns afterward.
//!
//! Draining is part of the configuration, so that the router stays drained after a restart and a reboot too, until
//! undrained.

use crate::configuration::configure::{Editing, Words};
use crate::connection::refusal::refused;
use crate::connection::session::Session;
use crate::connection::session::back;
use crate::output::{Failure, Output, describe};
use sluice_base::{class_of, instance_of};
use sluice_cli::{Values, split};
use sluice_config::{Role, with_role_anywhere};
use sluice_xrl::idl::manager::v1 as pb;

/// The status of a drained router.
pub const DRAINED: &str = "drained: neighbors are asked to go another way; `sluice undrain` takes it back";

/// Drains the router, or undoes the draining.
pub async fn run(session: &Session, drain: bool, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for path in statements(session).await? {
        let protocol = &path[..path.len() - 1];
        if !text(session, protocol).await?.is_empty() {
            lines.push(match drain {
                true => format!("set {} true", path.join(" ")),
                false if is_set(session, &path).await? => format!("delete {}", path.join(" ")),
                false => continue,
            });
        }
    }
    if lines.is_empty() && drain {
        return Err(Failure::failed("no protocol runs that could ask others to go another way"));
    }
    let mut editing = Editing::open(session, pb::EditMode::Private).await?;
    let done = async {
        if editing.unconfirmed().await?.is_some() {
            return Err(Failure::failed(
                "a commit waits for its confirmation; `commit` or `rollback 1` first",
            ));
        }
        for line in &lines {
            editing.run(session, &split(line), out).await?;
        }
        let comment = values.text("comment").unwrap_or(if drain { "drain" } else { "undrain" });
        let words = Words { comment: comment.into(), minutes: 0, confirms: false };
        editing.commit_with(words, out).await
    };
    let done = done.await;
    editing.close().await;
    let value = done?;
    match (out.is_json(), drain) {
        (true, _) => {
            // The statements that were carried out have schemas of their own.
            describe(out, if drain { "drain" } else { "undrain" });
            out.json(&value);
        }
        (false, true) => out.line(DRAINED),
        (false, false) => out.line("not drained"),
    }
    Ok(())
}

/// Returns true if the router is drained.
pub async fn is_drained(session: &Session) -> Result<bool, Failure> {
    for path in statements(session).await? {
        if is_set(session, &path).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the statements that make neighbors prefer different paths, for each protocol and instance with a drain
/// statement.
async fn statements(session: &Session) -> Result<Vec<Vec<String>>, Failure> {
    let schema = session.schema().await?;
    let router = session.router().await?;
    let manager = pb::ManagerClient::new(&router, "manager").with_deadline(session.flags.timeout);
    let processes = manager.get_processes(pb::GetProcessesRequest {}).await?.processes;
    let mut found = Vec::new();
    for place in with_role_anywhere(&schema, Role::Drain) {
        let path: Vec<String> = place.path.iter().map(ToString::to_string).collect();
        match *place.lists {
            [] => found.push(path),
            // The key of the entry is the name of the instance.
            [list] => {
                let of_class = processes.iter().map(|process| process.component.as_str());
                let of_class = of_class.filter(|name| Some(class_of(name)) == place.component);
                found.extend(of_class.filter_map(instance_of).map(|instance| {
                    let mut path = path.clone();
                    path.insert(list + 1, instance.into());
                    path
                }));
            }
            // No component runs below two lists.
            _ => {}
        }
    }
    Ok(found)
}

async fn is_set(session: &Session, path: &[String]) -> Result<bool, Failure> {
    Ok(text(session, path).await?.contains("true"))
}

/// Returns the beginning of the running configuration below a path; empty if there is nothing.
async fn text(session: &Session, path: &[String]) -> Result<String, Failure> {
    let path = path.to_vec();
    let request = pb::ShowRequest { which: Some(back(0)), path, form: pb::Form::Set.into(), offset: 0 };
    let client = session.configuration().await?;
    Ok(client.show(request).await.map_err(refused)?.text)
}
