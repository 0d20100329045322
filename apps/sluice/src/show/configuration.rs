//! A configuration or a part: the running configuration, a revision, a candidate. Read in pages.

use crate::connection::refusal::refused;
use crate::connection::session::{self as sessions, Session, back};
use crate::output::{Failure, Output};
use serde_json::Value;
use sluice_cli::{Values, statement};
use sluice_xrl::idl::manager::v1 as pb;

/// `show configuration [PATH] [revision N]`.
pub async fn show(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let back = u32::try_from(values.number("revision").unwrap_or(0)).unwrap_or(u32::MAX);
    let schema = session.schema().await?;
    let path = statement::whole(&schema, values.all("path")).map_err(Failure::usage)?;
    print(session, sessions::back(back), path, out).await
}

/// `show configuration effective [PATH]`.
pub async fn effective(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let schema = session.schema().await?;
    let path = statement::whole(&schema, values.all("path")).map_err(Failure::usage)?;
    let form = if out.is_json() { pb::Form::EffectiveJson } else { pb::Form::Effective };
    print_as(session, back(0), path, form, out).await
}

/// Reads the running configuration, or a part of it, in a form.
pub async fn running(
    client: &pb::ConfigurationClient,
    path: &[String],
    form: pb::Form,
) -> Result<String, Failure> {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let request =
            pb::ShowRequest { which: Some(back(0)), path: path.to_vec(), form: form.into(), offset };
        let reply = client.show(request).await.map_err(refused)?;
        text.push_str(&reply.text);
        offset = reply.next_offset;
        if offset == 0 {
            return Ok(text);
        }
    }
}

/// Reads the running configuration, or a part of it, as JSON.
pub async fn running_json(
    client: &pb::ConfigurationClient,
    path: &[String],
    form: pb::Form,
) -> Result<Value, Failure> {
    let text = running(client, path, form).await?;
    let read = serde_json::from_str(&text);
    read.map_err(|error| Failure::failed(format!("the running configuration is no JSON: {error}")))
}

/// The candidate of an editor.
pub fn of_editor(editor: u64) -> pb::Which {
    pb::Which { which: Some(pb::which::Which::Editor(editor)) }
}

/// The candidate that all editors share.
pub fn shared() -> pb::Which {
    pb::Which { which: Some(pb::which::Which::Shared(true)) }
}

/// The configuration that the changes of an editor's candidate are relative to.
pub fn base_of(editor: u64) -> pb::Which {
    pb::Which { which: Some(pb::which::Which::Base(editor)) }
}

/// Prints, page by page.
pub async fn print(
    session: &Session,
    which: pb::Which,
    path: Vec<String>,
    out: &mut Output,
) -> Result<(), Failure> {
    let form = match (out.is_json(), out.as_statements()) {
        (true, _) => pb::Form::Json,
        (false, true) => pb::Form::Set,
        (false, false) => pb::Form::Text,
    };
    print_as(session, which, path, form, out).await
}

async fn print_as(
    session: &Session,
    which: pb::Which,
    path: Vec<String>,
    form: pb::Form,
    out: &mut Output,
) -> Result<(), Failure> {
    let client = session.configuration().await?;
    let mut offset = 0;
    let mut ends_line = true;
    loop {
        let request = pb::ShowRequest { which: Some(which), path: path.clone(), form: form.into(), offset };
        let reply = client.show(request).await.map_err(refused)?;
        let whole = out.is_json() && offset == 0 && reply.next_offset == 0;
        if let Some(value) = whole.then(|| serde_json::from_str(&reply.text).ok()).flatten() {
            // What is small enough to be read by people is printed for them.
            out.json(&value);
            return Ok(());
        }
        out.write(&reply.text);
        ends_line = reply.text.is_empty() && ends_line || reply.text.ends_with('\n');
        offset = reply.next_offset;
        if offset == 0 || !out.page_done() {
            break;
        }
    }
    if !ends_line {
        out.line("");
    }
    Ok(())
}
