//! Keeping the work of a candidate beside commits of others: `update` and `save`.

use crate::configuration::configure::Editing;
use crate::connection::refusal::refused;
use crate::connection::session::Session;
use crate::output::{Failure, Output, Paint, counted};
use crate::show::configuration::{base_of, of_editor};
use serde_json::{Value, json};
use sluice_xrl::idl::manager::v1 as pb;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// The text that stands for a secret.
const HIDDEN: &str = "<hidden>";

impl Editing {
    /// Moves the candidate onto what runs, after a decision about statements that others changed too. Prints those without a decision.
    pub(super) async fn update(
        &self,
        session: &Session,
        decision: pb::Decision,
        path: &[String],
        out: &mut Output,
    ) -> Result<Value, Failure> {
        let path = if path.is_empty() { self.path() } else { self.whole(session, path).await? };
        let request = pb::UpdateRequest { editor: self.editor, decision: decision.into(), path };
        let contested = self.client.update(request).await.map_err(refused)?.contested;
        if !out.is_json() {
            print(&contested, out);
        }
        let rows = contested.iter().map(|c| json!({ "path": c.path, "mine": c.mine, "theirs": c.theirs }));
        Ok(json!({ "contested": rows.collect::<Vec<_>>() }))
    }

    /// Writes the changes of the candidate to a new file, as statements. The manager shows no secret: statements with one become remarks.
    pub(super) async fn save(&self, file: &str, out: &mut Output) -> Result<Value, Failure> {
        let (from, to) = (Some(base_of(self.editor)), Some(of_editor(self.editor)));
        let reply = self.client.compare(pb::CompareRequest { from, to }).await.map_err(refused)?;
        let (text, hidden) = saved(&reply.set_text);
        let failed = |error| Failure::io(file, &error);
        let mut into =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
        into.write_all(text.as_bytes()).map_err(failed)?;
        if !out.is_json() {
            let statements = counted(reply.set_text.lines().count() as u64, "statement", "statements");
            out.line(&format!("{file}: {statements}"));
            if hidden > 0 {
                let secrets = counted(hidden, "secret is", "secrets are");
                out.line(&format!("{secrets} not in the file: set them again after `load set {file}`"));
            }
        }
        Ok(
            json!({ "file": file, "statements": reply.set_text.lines().collect::<Vec<_>>(), "hidden": hidden }),
        )
    }
}

/// Returns the text of a file of statements, and the number of those with a secret.
fn saved(statements: &str) -> (String, u64) {
    let (mut text, mut hidden) = (String::new(), 0);
    for line in statements.lines() {
        if line.contains(HIDDEN) {
            hidden += 1;
            text.push_str("# ");
        }
        text.push_str(line);
        text.push('\n');
    }
    (text, hidden)
}

fn print(contested: &[pb::Contested], out: &mut Output) {
    if contested.is_empty() {
        return out.line("the candidate is based on what runs");
    }
    for one in contested {
        out.line(&format!("[{}]", one.path));
        for (side, statements) in [("mine", &one.mine), ("theirs", &one.theirs)] {
            for statement in statements {
                let line = out.paint(
                    if side == "mine" { Paint::Good } else { Paint::Bad },
                    &format!("  {side:<6}  {statement}"),
                );
                out.line(&line);
            }
        }
    }
    let statements = counted(contested.len() as u64, "statement was", "statements were");
    out.line(&format!(
        "{statements} committed by others too: `update mine [PATH]` keeps yours, `update theirs [PATH]` takes theirs"
    ));
}

#[cfg(test)]
mod tests {
    use super::saved;

    #[test]
    fn statements_with_a_secret_are_remarks() {
        let (text, hidden) = saved("set a 1\nset a password \"<hidden>\"");
        assert_eq!((text.as_str(), hidden), ("set a 1\n# set a password \"<hidden>\"\n", 1));
    }
}
