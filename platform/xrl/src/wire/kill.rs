//! The family `kill`: a single method, which sends a signal to the target's process (XORP, section 6.3).

use crate::XrlError;
use crate::idl::finder::v1::{SignalReply, SignalRequest};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use prost::Message;

/// The interface of every target in the family.
pub(crate) const INTERFACE: &str = "finder.v1.Process";
/// The interface's method.
pub(crate) const METHOD: &str = "Signal";

/// Carries out `finder.v1.Process/Signal` on the process `pid`.
pub(crate) fn signal(pid: u32, arguments: &[u8]) -> Result<Vec<u8>, XrlError> {
    let request = SignalRequest::decode(arguments).map_err(|e| XrlError::BadArguments(e.to_string()))?;
    let signal = Signal::try_from(request.number)
        .map_err(|_| XrlError::BadArguments(format!("number: {} is no signal", request.number)))?;
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = pid.ok_or_else(|| XrlError::Disconnected("no such process".to_owned()))?;
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(SignalReply {}.encode_to_vec()),
        Err(nix::errno::Errno::EPERM) => Err(XrlError::AccessDenied(format!("signal to process {pid}"))),
        Err(e) => Err(XrlError::Disconnected(format!("process {pid}: {e}"))),
    }
}
