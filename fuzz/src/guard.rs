//! The guard: decoded arguments against the limits of `rights.toml`.

use sluice_guard::check;
use sluice_guard_process::argument;
use sluice_process::rights::Limit;

/// A limit as JSON, a line feed, and arguments as JSON: a refusal names a permitted value and stays short.
pub fn arguments(octets: &[u8]) {
    let Some(end) = octets.iter().position(|octet| *octet == b'\n') else { return };
    let (limit, arguments) = octets.split_at(end);
    let Ok(limit) = serde_json::from_slice::<Limit>(limit) else { return };
    let Ok(arguments) = serde_json::from_slice(arguments) else { return };
    if let Err(breach) = check(&argument(arguments), &limit) {
        let text = breach.to_string();
        assert!(text.contains("permitted: ") && text.len() < 2000 + 4 * octets.len(), "{text}");
    }
}

/// Limits of every kind, with arguments inside and outside.
pub fn seeds() -> Vec<Vec<u8>> {
    let limit = r#"{"call": "bgp/bgp.v1.Bgp/ResetNeighbor", "rate": "5/m", "address": ["192.0.2.0/24", "2001:db8::/32"],
        "limit": "1-10", "note": {"longest": 8}, "inner.flag": true}"#
        .replace('\n', " ");
    let inside =
        r#"{"address": "192.0.2.1", "limit": 7, "note": "short", "inner": [{"flag": true}, {"flag": true}]}"#;
    let outside =
        r#"{"address": "192.0.3.1", "limit": 11, "note": "much too long", "inner": {"flag": false}}"#;
    [inside, outside].map(|arguments| format!("{limit}\n{arguments}").into_bytes()).into()
}
