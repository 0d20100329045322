//! The end of a process that is not a child.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;

/// Waits until the process `pid` has ended. Returns at once if there is no such process.
///
/// # Errors
///
/// If the kernel gives no descriptor for the process, as where this process has too many open.
pub async fn process_end(pid: u32) -> io::Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let descriptor = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(descriptor) => descriptor,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // A descriptor of a process becomes readable when the process ends (pidfd_open(2)).
    crate::ffi::watch(descriptor)?.readable().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
            let end = tokio::spawn(process_end(child.id()));
            tokio::task::yield_now().await;
            assert!(!end.is_finished());
            child.kill().expect("it is killed");
            end.await.expect("the task lives").expect("its end is seen");
            child.wait().expect("it is reaped");
            process_end(child.id()).await.expect("a process that is gone has ended");
        });
    }
}
