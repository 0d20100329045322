//! `sluice restart` and `sluice upgrade`: a new process in a component's place, without a visible effect outside.

use crate::Where;
use crate::connection::connect::with_router;
use crate::output::{Failure, counted, leave_out, print_json, say};
use sluice_xrl::XrlError;
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::text::Printer;
use std::path::PathBuf;
use std::time::Duration;

/// The longest wait for a restart; the router manager's own limits are shorter.
const DEADLINE: Duration = Duration::from_secs(60);

/// The number of the refusal for a failed restart that leaves no running process.
const NOT_STARTED: u32 = 2;

/// The component and its replacement.
#[derive(clap::Args)]
pub struct RestartArgs {
    /// The component, as `sluice show processes` names it.
    pub component: String,
}

/// The same with another executable.
#[derive(clap::Args)]
pub struct UpgradeArgs {
    /// The component, as `sluice show processes` names it.
    pub component: String,
    /// The executable that runs the component from now on.
    #[arg(long)]
    pub binary: PathBuf,
    /// Refuse the upgrade if the new process knows an older state, which has less
    #[arg(long)]
    pub no_loss: bool,
}

/// Replaces a component's process by a new process of the same executable.
pub fn restart(args: RestartArgs, place: &Where) -> Result<(), Failure> {
    replace(args.component, None, false, place)
}

/// Replaces a component's process by a process of a new executable.
pub fn upgrade(args: UpgradeArgs, place: &Where) -> Result<(), Failure> {
    let shown = args.binary.display().to_string();
    let binary = args.binary.canonicalize().map_err(|e| Failure::failed(format!("{shown}: {e}")))?;
    let binary = binary.into_os_string().into_string();
    let binary = binary.map_err(|_| Failure::failed(format!("{shown}: the path is not UTF-8")))?;
    replace(args.component, Some(binary), args.no_loss, place)
}

fn replace(component: String, binary: Option<String>, no_loss: bool, place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        let client = pb::ManagerClient::new(&router, "manager").with_deadline(DEADLINE);
        let known = client.get_processes(pb::GetProcessesRequest {}).await?.processes;
        let known: Vec<String> = known.into_iter().map(|process| process.component).collect();
        if !known.contains(&component) {
            return Err(unknown(&component, &known));
        }
        if !as_json {
            say(&format!("{component}: a new process is started"));
        }
        let reply = match binary {
            None => client.restart(pb::RestartRequest { component: component.clone() }).await,
            Some(binary) => {
                client.upgrade(pb::UpgradeRequest { component: component.clone(), binary, no_loss }).await
            }
        };
        let reply = reply.map_err(|error| match error {
            XrlError::Application { code: NOT_STARTED, message } => Failure::failed(message),
            XrlError::Application { message, .. } => {
                Failure::failed(format!("{component} was not replaced, the old process goes on: {message}"))
            }
            other => other.into(),
        })?;
        match as_json {
            true => {
                let mut shown = Printer::new(DESCRIPTORS)?.plain(&reply)?;
                leave_out(&mut shown, &["plainly"]);
                shown["component"] = component.as_str().into();
                shown["handed_over"] = (!reply.plainly).into();
                print_json("restart", &shown);
            }
            false if component == "manager" => {
                say(&format!(
                    "manager {} goes on in process {}; its components run on",
                    reply.version, reply.new_pid
                ));
            }
            false if reply.plainly => {
                say(&format!(
                    "{:>7} ms  {component} {} runs in process {}: it hands nothing over, so process {} ended first",
                    reply.taken_over_ms, reply.version, reply.new_pid, reply.old_pid
                ));
            }
            false if reply.old_pid == 0 => {
                say(&format!(
                    "{component} {} did not run, and does again in process {}",
                    reply.version, reply.new_pid
                ));
            }
            false => {
                say(&format!(
                    "{:>7} ms  process {} waits for what process {} has",
                    reply.started_ms, reply.new_pid, reply.old_pid
                ));
                say(&format!(
                    "{:>7} ms  handed over and checked: {} of state and {}",
                    reply.handed_over_ms,
                    counted(reply.octets, "octet", "octets"),
                    counted(reply.descriptors, "socket", "sockets")
                ));
                for loss in &reply.losses {
                    say(&format!("            lost, because the new process knows an older state: {loss}"));
                }
                say(&format!("{:>7} ms  {component} {} has taken over", reply.taken_over_ms, reply.version));
            }
        }
        Ok(())
    })
}

/// Returns the failure for a component that the router does not have.
fn unknown(component: &str, known: &[String]) -> Failure {
    let meant = sluice_cli::meant(component, known);
    Failure::failed(format!("there is no component `{component}`{meant}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn an_unknown_component_is_one_line() {
        let known = ["bgp", "rib"].map(String::from);
        assert_eq!(
            unknown("bpg", &known).message,
            "there is no component `bpg`; did you mean `bgp`?; there are bgp, rib"
        );
        assert_eq!(
            unknown("firewall", &known).message,
            "there is no component `firewall`; there are bgp, rib"
        );
    }
}
