//! Output by the schemas of this executable, and failures of a start.

pub use sluice_console::{
    Align, Call, Failure, Layout, Output, Paint, Table, Wanted, addr, bytes, complain, counted, fail, net,
    say, say_lines, span,
};

use crate::schemas;
use serde_json::Value;
use sluice_base::printable_json;
use sluice_console::widen;
use sluice_manager_process::StartError;
use sluice_pktgen::PktgenError;
use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

/// Selects a command's schema for JSON output. A command without a schema prints its values unchanged.
pub fn describe(output: &mut Output, command: &str) {
    if output.is_json() {
        output.describe_by(schemas::read(&command.replace(' ', "-")).unwrap_or_default());
    }
}

/// Prints a JSON document by the named schema.
pub fn print_json(schema: &str, value: &Value) {
    let mut value = value.clone();
    widen(&schemas::read(schema).unwrap_or_default(), &mut value);
    // A value always prints; a closed pipe ends the program at the next line anyway.
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    sluice_print::outln!("{}", printable_json(&text));
}

/// Takes a member out of an object; null if the object lacks the member.
pub fn take(object: &mut Value, name: &str) -> Value {
    object.as_object_mut().and_then(|members| members.remove(name)).unwrap_or_default()
}

/// Removes members from an object.
pub fn leave_out(object: &mut Value, names: &[&str]) {
    for name in names {
        take(object, name);
    }
}

/// The configuration is not valid.
pub fn config_failure(error: StartError) -> Failure {
    Failure::new(Failure::CONFIG, "config-invalid", error.to_string())
}

/// The router does not start.
pub fn start_failure(error: anyhow::Error) -> Failure {
    match error.downcast::<StartError>() {
        Ok(error) => failure_of_start(error),
        Err(error) => error.into(),
    }
}

/// The router does not start, for this reason.
pub fn failure_of_start(error: StartError) -> Failure {
    let message = error.to_string();
    match error {
        StartError::NoNetworkRights => Failure::new(Failure::PERMISSION, "not-allowed", message),
        StartError::Folder { source, .. } => match source.kind() {
            PermissionDenied | ReadOnlyFilesystem => {
                Failure::new(Failure::PERMISSION, "not-allowed", message)
            }
            _ => Failure::failed(message),
        },
        StartError::OtherVersion { .. } => Failure::failed(message),
        error => config_failure(error),
    }
}

/// Packets are not sent or counted.
pub fn packet_failure(error: PktgenError) -> Failure {
    let message = error.to_string();
    match error {
        PktgenError::Usage(_) => Failure::usage(message),
        PktgenError::NotPermitted { .. } => Failure::new(Failure::PERMISSION, "not-allowed", message),
        PktgenError::File { source, .. } if source.kind() == PermissionDenied => {
            Failure::new(Failure::PERMISSION, "not-allowed", message)
        }
        _ => Failure::failed(message),
    }
}
