//! `sluice show targets`.

use crate::connection::session::Session;
use crate::output::{Failure, Output, Table, leave_out};
use serde_json::json;
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::text::Printer;

/// Shows the targets of calls.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let targets = session.router().await?.targets().await?;
    if out.is_json() {
        let printer = Printer::new(DESCRIPTORS)?;
        let mut all = Vec::new();
        for target in &targets {
            let mut shown = printer.plain(target)?;
            leave_out(&mut shown, &["singleton", "endpoints"]);
            shown["user"] = user_name(target.uid).into();
            all.push(shown);
        }
        out.json(&json!({ "targets": all }));
        return Ok(());
    }
    let mut table = Table::new(&["class", "instance", "pid", "user", "interfaces"]);
    for t in &targets {
        let interfaces: Vec<&str> = t.interfaces.iter().map(|i| i.name.as_str()).collect();
        table.row(vec![
            t.class.clone(),
            t.instance.clone(),
            t.pid.to_string(),
            user_name(t.uid),
            interfaces.join(" "),
        ]);
    }
    out.table(&table, "no targets");
    Ok(())
}

/// Returns the name of a user, or the number of a user without a name.
fn user_name(uid: u32) -> String {
    let known = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}
