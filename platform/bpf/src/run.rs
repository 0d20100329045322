//! Runs of a program on frames made by hand: on copies to learn its verdict, or on live frames that the kernel sends.

use crate::{BpfError, ffi};
use std::io;
use std::os::fd::BorrowedFd;

/// The verdict of a program (`enum xdp_action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The program failed; the kernel drops the frame.
    Aborted,
    /// The frame is dropped.
    Drop,
    /// The kernel gets the frame.
    Pass,
    /// The frame leaves by the interface on which it came.
    Transmit,
    /// The frame goes to another interface, CPU or socket.
    Redirect,
    /// A number without a meaning; the kernel drops the frame.
    Unknown(u32),
}

impl From<u32> for Verdict {
    fn from(number: u32) -> Self {
        match number {
            0 => Verdict::Aborted,
            1 => Verdict::Drop,
            2 => Verdict::Pass,
            3 => Verdict::Transmit,
            4 => Verdict::Redirect,
            other => Verdict::Unknown(other),
        }
    }
}

/// The result of runs on a copy of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The verdict of the last run.
    pub verdict: Verdict,
    /// The mean time of a run in nanoseconds.
    pub nanoseconds: u32,
    /// The frame as the last run left it.
    pub frame: Vec<u8>,
}

/// Runs a program `repeat` times on one copy of `frame`. The verdict is not carried out, except for tail calls.
///
/// # Errors
///
/// If the kernel refuses; a frame of less than 14 octets has no Ethernet header and is refused with EINVAL.
pub fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> Result<Run, BpfError> {
    let ran =
        ffi::test_run(program, frame, repeat).map_err(BpfError::call("running a program on a frame"))?;
    Ok(Run { verdict: ran.verdict.into(), nanoseconds: ran.nanoseconds, frame: ran.frame })
}

/// Waits until every run of a program has ended that was under way at the call. Takes some milliseconds.
///
/// # Errors
///
/// If the kernel has no such wait.
pub fn wait_for_runs() -> Result<(), BpfError> {
    ffi::synchronize_rcu().map_err(BpfError::call("waiting for programs"))
}

/// The end of a run on live frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// All rounds were run.
    Completed,
    /// A signal ended the run.
    Interrupted,
}

/// Rounds between two flushes of frames to the interface; the fastest of those tried.
const BATCH: u32 = 256;

/// Runs a program on `repeat` live frames of the content `frame`, as if received by the interface with the index
/// `interface`, which must be in this thread's network namespace. Verdicts are carried out. The kernel reuses frames
/// without resetting their content, so that the program has to write all that it needs.
///
/// The end of each run takes about 20 ms: pass a large `repeat` and end the run by a signal that has a handler.
///
/// # Errors
///
/// If the kernel refuses.
pub fn run_live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    interface: u32,
    repeat: u32,
) -> Result<Ended, BpfError> {
    match ffi::run_live(program, frame, interface, repeat, BATCH) {
        Ok(()) => Ok(Ended::Completed),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Ended::Interrupted),
        Err(error) => Err(BpfError::call("running a program on live frames")(error)),
    }
}
