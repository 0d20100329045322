//! Replay: the frames of a capture, sent in their own timing by a packet socket.

use crate::capture::Frame;
use crate::{PktgenError, ffi, permit};
use nix::time::{ClockId, clock_gettime};
use sluice_bpf::attach::interface_index;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most frames of one system call.
const BATCH: usize = 64;

/// The time between two looks at the caller's wish to end, while frames are due.
const LOOK: Duration = Duration::from_millis(50);

/// The pace of a replay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// The capture's times, divided by a factor above 0: 1 is the original timing.
    Factor(f64),
    /// Without pauses.
    Full,
}

/// A replay of frames.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The interface to send from.
    pub interface: String,
    /// The frames, in the order in which they are sent.
    pub frames: Vec<Frame>,
    /// The pace.
    pub pace: Pace,
    /// The times that the frames are sent; without end if absent. The next time begins with the end of the one before.
    pub loops: Option<u32>,
    /// The interface's name again, which permits sending outside of labs ([`crate::permit`]).
    pub named_again: Option<String>,
}

/// The counts of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Replayed {
    /// Frames that the interface took.
    pub frames: u64,
    /// Octets of these frames.
    pub octets: u64,
    /// Frames that the kernel or the interface refused: longer than the MTU, or a full queue.
    pub refused: u64,
    /// Times that all frames were sent.
    pub loops: u32,
    /// The time from the first to the last frame.
    pub duration: Duration,
    /// The processor time of this thread.
    pub cpu: Duration,
    /// The longest delay of a frame behind its time.
    pub latest: Duration,
}

impl Replay {
    /// Sends the frames from this thread's network namespace. `pause` is called between frames with the counts so far: it
    /// waits for the given time at most, and returns true if the replay is to end.
    ///
    /// # Errors
    ///
    /// If sending from the interface is not permitted, there is no such interface, or `pause` or the socket fails.
    pub fn run(
        &self,
        mut pause: impl FnMut(Duration, &Replayed) -> Result<bool, PktgenError>,
    ) -> Result<Replayed, PktgenError> {
        let interface = interface_index(&self.interface)?;
        permit::check(&self.interface, self.named_again.as_deref())?;
        let socket = ffi::packet_socket(interface).map_err(PktgenError::call("opening a packet socket"))?;
        let cpu = || {
            clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
                .map(Duration::from)
                .map_err(|error| PktgenError::call("reading the processor time")(error.into()))
        };
        let (mut counts, cpu_before, start) = (Replayed::default(), cpu()?, Instant::now());
        let mut begin = start;
        let mut looked = start;
        let is_ended = |loops| self.frames.is_empty() || self.loops.is_some_and(|most| loops >= most);
        'all: while !is_ended(counts.loops) {
            let mut rest = &self.frames[..];
            while let Some(first) = rest.first() {
                let now = Instant::now();
                let due = self.due(begin, first);
                if due > now {
                    looked = now;
                    if pause(due - now, &counts)? {
                        break 'all;
                    }
                    continue;
                }
                if now - looked > LOOK {
                    looked = now;
                    if pause(Duration::ZERO, &counts)? {
                        break 'all;
                    }
                }
                let is_due = |frame: &&Frame| self.due(begin, frame) <= now;
                let batch = rest.iter().take(BATCH).take_while(is_due).count().max(1);
                if self.pace != Pace::Full {
                    counts.latest = counts.latest.max(now - due);
                }
                rest = &rest[send(&socket, &rest[..batch], &mut counts)?..];
                counts.duration = start.elapsed();
            }
            counts.loops += 1;
            begin = Instant::now();
        }
        counts.cpu = cpu()?.saturating_sub(cpu_before);
        Ok(counts)
    }

    /// Returns the time of a frame in a loop that began at `begin`.
    fn due(&self, begin: Instant, frame: &Frame) -> Instant {
        let Pace::Factor(factor) = self.pace else { return begin };
        let offset = Duration::try_from_secs_f64(frame.time.as_secs_f64() / factor);
        offset.ok().and_then(|offset| begin.checked_add(offset)).unwrap_or(begin)
    }
}

/// Sends frames, and counts those that are refused. Returns the number of frames dealt with, at least one.
fn send(socket: &OwnedFd, frames: &[Frame], counts: &mut Replayed) -> Result<usize, PktgenError> {
    let octets: Vec<&[u8]> = frames.iter().map(|frame| &frame.octets[..]).collect();
    match ffi::send_frames(socket.as_fd(), &octets) {
        Ok(sent) => {
            counts.frames += sent as u64;
            counts.octets += octets[..sent].iter().map(|frame| frame.len() as u64).sum::<u64>();
            Ok(sent)
        }
        Err(error) if is_of_the_frame(&error) => {
            counts.refused += 1;
            Ok(1)
        }
        Err(error) => Err(PktgenError::call("sending a frame")(error)),
    }
}

/// Returns true if an error concerns one frame: too long, too short, or no room in a queue.
fn is_of_the_frame(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EINVAL | libc::ENOBUFS | libc::EAGAIN))
}
