//! Components that run without a part of their configuration or of their effect.

use crate::output::Output;
use serde_json::{Value, json};
use sluice_xrl::idl::manager::v1 as pb;

/// Prints the reasons for which the router is degraded.
pub fn print_degraded(degraded: &[(&str, &str)], out: &mut Output) {
    degraded.iter().for_each(|(component, reason)| out.line(&format!("{component}: {reason}")));
}

/// Returns the reasons for which the router is degraded, as JSON.
pub fn degraded_json(degraded: &[(&str, &str)]) -> Value {
    degraded.iter().map(|(component, reason)| json!({ "component": component, "reason": reason })).collect()
}

/// Returns the components that run without a part of their configuration or of their effect, with their reasons. `status`, `show
/// summary` and `doctor` share the notion.
pub fn degraded(processes: &[pb::Process]) -> Vec<(&str, &str)> {
    let those = processes.iter().filter(|p| !p.degraded.is_empty());
    those.map(|p| (p.component.as_str(), p.degraded.as_str())).collect()
}
