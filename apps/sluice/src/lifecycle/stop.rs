//! `sluice stop` and `sluice flush`: the end of a router, and of its leftovers in the kernel.

use crate::connection::session::Session;
use crate::connection::unmanaged::Unmanaged;
use crate::output::{Failure, Output, counted};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sluice_fea_process::linux::leftovers::remove_addresses;
use sluice_manager_process::{claim_network, left_behind, manager_pid};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest wait for a router's end.
const END: Duration = Duration::from_secs(60);
/// The interval between looks at an ending process.
const PAUSE: Duration = Duration::from_millis(20);
/// The protocol number of Sluice's routes in the kernel.
const PROTOCOL: &str = "83";
/// The number of runs of `ip` to remove objects of a kind.
const TRIES: usize = 5;
/// Kinds of the kernel's objects, as `ip` names them.
const IPV4: [&str; 2] = ["-4", "route"];
const IPV6: [&str; 2] = ["-6", "route"];
const NEXT_HOPS: [&str; 1] = ["nexthop"];

/// Ends the router of the run-time folder and waits for its end.
pub async fn stop(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let run_dir = &session.flags.run_dir;
    let Some(manager) = manager_pid(run_dir) else {
        let text = Unmanaged::find(run_dir).map(|u| u.text()).unwrap_or_default();
        return Err(Failure::not_connected(text));
    };
    let began = Instant::now();
    let running: Vec<String> =
        left_behind(run_dir).into_iter().filter(|c| c.is_alive).map(|c| c.component).collect();
    let process = Pid::from_raw(i32::try_from(manager).unwrap_or(i32::MAX));
    kill(process, Signal::SIGTERM).map_err(|error| {
        let text = format!("the router manager (process {manager}) cannot be asked to end: {error}");
        if error == Errno::EPERM {
            Failure::new(Failure::PERMISSION, "not-allowed", text)
        } else {
            Failure::failed(text)
        }
    })?;
    while manager_pid(run_dir) == Some(manager) {
        if began.elapsed() > END {
            return Err(kill_router(run_dir, process));
        }
        tokio::time::sleep(PAUSE).await;
    }
    session.forget();
    // After an end in order nothing is written down any more.
    if !left_behind(run_dir).is_empty() {
        let text = Unmanaged::find(run_dir).map(|u| u.text()).unwrap_or_default();
        return Err(Failure::failed(format!("the router manager ended before its components: {text}")));
    }
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    if out.is_json() {
        out.json(&json!({ "stopped": true, "components": running, "took_ms": took_ms }));
    } else {
        out.line(&format!("stopped in {took_ms} ms: {}", [running.join(", "), "manager".into()].join(", ")));
    }
    Ok(())
}

/// Ends a router that does not end by itself: the manager at once, the components in their own order.
fn kill_router(run_dir: &Path, manager: Pid) -> Failure {
    let components: Vec<_> =
        left_behind(run_dir).into_iter().filter(|component| component.is_alive).collect();
    // The manager first: it would start the components again. What has ended meanwhile needs no signal.
    let _ = kill(manager, Signal::SIGKILL);
    for component in &components {
        let _ = kill(Pid::from_raw(i32::try_from(component.pid).unwrap_or(i32::MAX)), Signal::SIGTERM);
    }
    let text = format!(
        "the router manager (process {manager}) did not end in {} s and was killed; its components ({}) were asked to end",
        END.as_secs(),
        components.iter().map(|component| component.component.as_str()).collect::<Vec<_>>().join(", ")
    );
    Failure::new(Failure::TIMEOUT, "DeadlineExceeded", text)
}

/// Removes Sluice's leftovers from the kernel of the current network namespace, if no router runs there.
pub fn flush(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let run_dir = &session.flags.run_dir;
    if let Some(manager) = manager_pid(run_dir) {
        return Err(Failure::failed(format!(
            "a router runs in {} (process {manager}); `sluice stop` first",
            run_dir.display()
        )));
    }
    if left_behind(run_dir).iter().any(|c| c.is_alive) {
        let text = Unmanaged::find(run_dir).map(|u| u.text()).unwrap_or_default();
        return Err(Failure::failed(text));
    }
    let _held = claim_network()?;
    let which = ["table", "all", "proto", PROTOCOL];
    let routes = count(&IPV4, &which)? + count(&IPV6, &which)?;
    let next_hops = count(&NEXT_HOPS, &which[2..])?;
    // Next-hop objects take their routes with them.
    remove(&NEXT_HOPS, &which[2..])?;
    remove(&IPV4, &which)?;
    remove(&IPV6, &which)?;
    // By netlink: few versions of `ip` select addresses by their protocol number.
    let addresses = remove_addresses().map_err(|e| Failure::io("addresses", &e))? as u64;
    if out.is_json() {
        out.json(&json!({ "routes": routes, "next_hops": next_hops, "addresses": addresses }));
    } else {
        out.line(&format!(
            "removed {}, {} and {}",
            counted(routes, "route", "routes"),
            counted(next_hops, "next-hop object", "next-hop objects"),
            counted(addresses, "address", "addresses")
        ));
    }
    Ok(())
}

/// Counts the kernel's objects of a kind, selected by `which`.
fn count(kind: &[&str], which: &[&str]) -> Result<u64, Failure> {
    let shown = ip(&[&["-json"], kind, &["show"], which].concat())?;
    let all: Value = serde_json::from_slice(&shown).unwrap_or_default();
    Ok(all.as_array().map_or(0, Vec::len) as u64)
}

/// Removes the kernel's objects of a kind, selected by `which`.
fn remove(kind: &[&str], which: &[&str]) -> Result<(), Failure> {
    let mut tries = 0;
    while count(kind, which)? > 0 {
        tries += 1;
        // `ip` stops at an object that went away while it listed them.
        match ip(&[kind, &["flush"], which].concat()) {
            Err(failure) if tries == TRIES || failure.status == Failure::PERMISSION => return Err(failure),
            Ok(_) if tries == TRIES => {
                return Err(Failure::failed(format!("the kernel keeps some of: ip {} show", kind.join(" "))));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs `ip` of iproute2 and returns its output.
fn ip(words: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = Command::new("ip").args(words).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::failed("`ip` is not installed; it is in the package iproute2 (`apt install iproute2`)")
        }
        _ => Failure::io("ip", &error),
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let text = format!("ip {}: {said}", words.join(" "));
    Err(if said.contains("not permitted") {
        Failure::new(Failure::PERMISSION, "not-allowed", text)
    } else {
        Failure::failed(text)
    })
}
