//! The flags of a command line, as far as they say whom to ask, and how to print.

use crate::connection::connect::DEADLINE;
use crate::output::Wanted;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of a command line.
#[derive(Clone, Debug)]
pub struct Flags {
    /// The form of the output.
    pub wanted: Wanted,
    /// The longest wait for an answer.
    pub timeout: Duration,
    /// The router's run-time folder.
    pub run_dir: PathBuf,
    /// The routing instance to ask; if absent, components without an instance are asked.
    pub instance: Option<String>,
    /// The element of the cluster to ask; if absent, this machine's router is asked.
    pub element: Option<u16>,
    /// Print anew every so often.
    pub watch: Option<Duration>,
    /// Only help is wanted.
    pub help: bool,
    /// Only the version is wanted.
    pub version: bool,
}

impl Default for Flags {
    fn default() -> Self {
        let run_dir = std::env::var_os("SLUICE_RUN_DIR").map_or_else(|| "/run/sluice".into(), PathBuf::from);
        Flags {
            wanted: Wanted::default(),
            timeout: DEADLINE,
            run_dir,
            instance: None,
            element: None,
            watch: None,
            help: false,
            version: false,
        }
    }
}
