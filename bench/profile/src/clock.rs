//! Processor time of the calling thread, without the load of other programs.

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use std::fs::read_to_string;

/// Nanoseconds of processor time of the current thread.
pub fn now() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64)
}

/// The processor time of a closure on the current thread, in nanoseconds.
pub fn time(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = now()?;
    work()?;
    Ok(now()? - before)
}

/// Cycles a nanosecond at the processor's reported nominal frequency; `None` if the processor does not report it.
pub fn cycles_per_ns() -> Option<f64> {
    let info = read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("cpu MHz"))?;
    line.trim_start_matches([' ', '\t', ':']).parse::<f64>().ok().map(|mhz| mhz / 1000.0)
}
