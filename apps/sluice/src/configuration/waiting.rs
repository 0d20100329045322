//! The commit that waits for its confirmation, in words.

use crate::connection::session::Session;
use crate::output::{Failure, span};
use serde_json::{Value, json};
use sluice_cli::render;
use sluice_xrl::idl::manager::v1 as pb;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the commit that waits for its confirmation, if one waits.
pub async fn commit(session: &Session) -> Result<Option<pb::Unconfirmed>, Failure> {
    let client = session.configuration().await?;
    Ok(client.get_revisions(pb::GetRevisionsRequest {}).await?.unconfirmed)
}

/// Returns the sentence about a commit that waits.
pub fn text(open: &pb::Unconfirmed) -> String {
    format!(
        "revision {} of {} waits for its confirmation for {}{}: `commit` without changes or `commit confirm` keeps it, otherwise \
         revision {} runs again",
        open.revision,
        open.user,
        span(open.until_unix_ms.saturating_sub(now_unix_ms())),
        at(open.until_unix_ms),
        open.back_to
    )
}

/// Returns the line above the prompt while a commit waits.
pub fn prompt(until_unix_ms: u64) -> String {
    match until_unix_ms {
        0 => String::new(),
        until => format!("[to be confirmed by {}]\n", render::time(until)),
    }
}

/// Returns a deadline in parentheses; empty without one.
pub fn at(until_unix_ms: u64) -> String {
    match until_unix_ms {
        0 => String::new(),
        until => format!(" (at {})", render::time(until)),
    }
}

/// Returns the JSON of a deadline.
pub fn time_or_null(until_unix_ms: u64) -> Value {
    (until_unix_ms > 0).then(|| render::time(until_unix_ms)).into()
}

/// Returns the JSON of a commit that waits.
pub fn json(open: Option<&pb::Unconfirmed>) -> Value {
    open.map_or(Value::Null, |open| {
        json!({
            "revision": open.revision, "back_to": open.back_to, "user": open.user,
            "until": render::time(open.until_unix_ms),
        })
    })
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
