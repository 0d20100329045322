//! Refusals of the configuration service: a document with the reason, the place, the path.

use crate::output::Failure;
use serde_json::Value;
use sluice_xrl::XrlError;

/// The service's numbers for reasons.
const INVALID: u32 = 4;
const CONFLICT: u32 = 5;
const NEEDS_CONFIRMATION: u32 = 7;

/// A refusal as a failure of the command.
pub fn refused(error: XrlError) -> Failure {
    let XrlError::Application { code, message } = error else { return error.into() };
    let (status, name) = match code {
        INVALID => (Failure::CONFIG, "config-invalid"),
        CONFLICT => (Failure::CONFLICT, "conflict"),
        NEEDS_CONFIRMATION => (Failure::FAILED, "needs-confirmation"),
        _ => (Failure::FAILED, "failed"),
    };
    let document: Value = serde_json::from_str(&message).unwrap_or_default();
    let Some(text) = document["message"].as_str() else { return Failure::new(status, name, message) };
    let path = match &document["path"] {
        Value::String(path) => Some(path.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    };
    // The text names the place already where there is one.
    let place = document.get("place").filter(|p| p.is_object()).cloned();
    Failure { path, place, ..Failure::new(status, name, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_status() {
        let text = r#"{"message": "no", "place": {"file": "x", "line": 1, "column": 2}, "path": ["a", "b"]}"#;
        for (code, status) in [(4, 4), (5, 5), (1, 1), (7, 1)] {
            let failure = refused(XrlError::application(code, text));
            assert_eq!((failure.status, failure.path.as_deref()), (status, Some("a b")));
        }
        let plain = refused(XrlError::application(5, "somebody else"));
        assert_eq!((plain.status, plain.message.as_str()), (5, "somebody else"));
        assert_eq!(refused(XrlError::DeadlineExceeded).status, 6);
    }
}
