//! The command line of a component's process, written by the router manager.

use sluice_base::{TableId, class_of, instance_of};
use std::path::{Path, PathBuf};

/// Returns the folder in the run-time folder where the component `name` makes its sockets. Only the component's user can
/// write there.
pub fn socket_folder(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join("xrl").join(name)
}

/// Returns the folder in the run-time folder that the FEA's user may write, with the mount point of the bpffs for the pins of XDP
/// programs in it. Landlock (landlock(7)) finds a right to a mounted file in the folders above the mount point only.
pub fn pins_folder(run_dir: &Path) -> PathBuf {
    run_dir.join("forwarding")
}

/// Returns the mount point of the bpffs for the pins of XDP programs.
pub fn pins_mount(run_dir: &Path) -> PathBuf {
    pins_folder(run_dir).join("bpf")
}

/// Options of a component's process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// The router's run-time folder, with the Finder's socket in it.
    pub run_dir: PathBuf,
    /// The component's instance; `None` for a component without instances.
    pub instance: Option<String>,
    /// The routing table of the instance.
    pub table: TableId,
}

impl RunOptions {
    /// Reads the arguments of a program that is the component `class` and nothing else: `run NAME --run-dir FOLDER`,
    /// for an instance with `--table NUMBER`. `None` for any further arguments.
    pub fn of_program(class: &str, arguments: &[String]) -> Option<Self> {
        let [run, name, option, run_dir, more @ ..] = arguments else { return None };
        if run != "run" || class_of(name) != class || option != "--run-dir" {
            return None;
        }
        let table = match more {
            [] => TableId::MAIN,
            [option, number] if option == "--table" => TableId(number.parse().ok()?),
            _ => return None,
        };
        Some(RunOptions { run_dir: run_dir.into(), instance: instance_of(name).map(Into::into), table })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_manager() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(Into::into).collect();
            RunOptions::of_program("rip", &words).map(|o| (o.instance, o.table.0))
        };
        assert_eq!(read("run rip --run-dir /x"), Some((None, 254)));
        assert_eq!(read("run rip@red --run-dir /x --table 7"), Some((Some("red".into()), 7)));
        for wrong in ["run bgp --run-dir /x", "run rip", "rip --run-dir /x", "run rip --run-dir /x --table y"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
