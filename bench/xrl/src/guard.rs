//! Calls through a guard: a real guard's process between a caller with limited arguments and the receiver.

use crate::idl::bench::v1::BenchClient;
use anyhow::Context;
use sluice_process::RunOptions;
use sluice_process::socket_folder;
use sluice_xrl::idl::common::v1::{ApplyRequest, ComponentClient, PrepareRequest};
use sluice_xrl::{EndpointOptions, Principal, XrlEndpoint, guard_name};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The caller whose calls are checked.
const CALLER: &str = "limited";
/// The class of the target behind the guard.
pub const TARGET: &str = "checked";
const CALLERS_SECRET: [u8; 16] = *b"the limited one!";
const GUARDS_SECRET: [u8; 16] = *b"the guard itself";

/// Returns the principals of the caller and of its guard, with their secrets.
pub fn principals() -> [([u8; 16], Principal); 2] {
    let caller = Principal {
        guarded: vec![format!("{TARGET}/bench.v1.Bench/Count")],
        ..Principal::all_powerful(CALLER)
    };
    [(CALLERS_SECRET, caller), (GUARDS_SECRET, Principal::all_powerful(&format!("guard@{CALLER}")))]
}

/// The process of the guard.
pub fn run(run_dir: PathBuf) -> anyhow::Result<()> {
    let instance = Some(CALLER.to_owned());
    sluice_guard_process::run(RunOptions { run_dir, instance, table: sluice_base::TableId::MAIN })
}

/// Starts the guard with a limit on one argument, and returns a client whose calls pass the guard.
pub async fn start(router: &XrlEndpoint, folder: &Path) -> anyhow::Result<(crate::Receiver, BenchClient)> {
    let name = format!("guard@{CALLER}");
    std::fs::create_dir_all(socket_folder(folder, &name))?;
    let mut births = router.watch_instance(&name).await?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut process = command.arg("guard").arg(folder).stdin(Stdio::piped()).spawn()?;
    let secret: String = GUARDS_SECRET.iter().map(|octet| format!("{octet:02x}")).collect();
    process.stdin.take().context("standard input")?.write_all(secret.as_bytes())?;
    let process = crate::Receiver(process);
    births.next().await.context("the Finder ended")?;
    let stands = guard_name(CALLER, TARGET);
    let mut births = router.watch_instance(&stands).await?;
    let component = ComponentClient::new(router, &name);
    let limit = r#"[{"call": "checked/bench.v1.Bench/Count", "a1": ["0-100000"]}]"#;
    let change = format!(r#"{{"clear": true, "edits": [{{"name": "limits", "value": {limit}}}]}}"#);
    component.prepare(PrepareRequest { transaction: 1, change, more: false }).await?;
    component.apply(ApplyRequest { transaction: 1 }).await?;
    births.next().await.context("the Finder ended")?;
    let options = EndpointOptions::new(folder.join("finder.sock"), CALLERS_SECRET, folder);
    let caller = XrlEndpoint::connect(options).await?;
    Ok((process, BenchClient::new(&caller, TARGET)))
}
