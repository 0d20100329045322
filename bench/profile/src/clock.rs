//! Processor time of the calling thread: what others do on the machine is not in it.

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::fs::read_to_string;

/// Nanoseconds that this thread has run.
pub fn now() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// How long something runs on this thread, in nanoseconds.
pub fn time(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = now()?;
    work()?;
    Ok(now()? - before)
}

/// Cycles a nanosecond by the processor's own word, which is its nominal frequency; `None` where it does not say.
pub fn cycles_per_ns() -> Option<f64> {
    let info = read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("cpu MHz"))?;
    line.trim_start_matches([' ', '\t', ':']).parse::<f64>().ok().map(|mhz| mhz / 1000.0)
}
