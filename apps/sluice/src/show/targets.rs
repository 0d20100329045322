//! `sluice show targets`.

use crate::connection::session::Session;
use crate::output::{Failure, Output, Table};
use serde_json::json;

/// Shows the targets of calls.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let targets = session.router().await?.targets().await?;
    if out.is_json() {
        let all: Vec<_> = targets
            .iter()
            .map(|t| {
                let interfaces: Vec<_> =
                    t.interfaces.iter().map(|i| json!({ "name": i.name, "methods": i.methods })).collect();
                json!({
                    "class": t.class, "instance": t.instance, "pid": t.pid, "uid": t.uid,
                    "user": user_name(t.uid),
                    "principal": t.principal, "interfaces": interfaces,
                })
            })
            .collect();
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
