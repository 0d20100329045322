//! The kernel's tables of a namespace, read from cheap counters, seen through a process in the namespace.

use anyhow::{Context, Result, ensure};
use sluice_load::counts::Count;
use std::fs::read_to_string;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Reading the IPv4 table walks over it (a tenth of a second for a million routes). Therefore the table is read rarely
/// at first, and often near the end.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(300));

/// The time for which an empty table must stay unchanged.
const SETTLED: Duration = Duration::from_millis(300);

/// The routes of the namespace of the process `pid`: the IPv4 main table (together with the local table, in a
/// namespace without own rules), and every IPv6 table.
pub fn routes(pid: u32) -> Result<Count> {
    let trie = read_to_string(format!("/proc/{pid}/net/fib_triestat"))
        .context("the kernel does not count its IPv4 routes: CONFIG_IP_FIB_TRIE_STATS is off")?;
    let v4 = trie.lines().find_map(|line| line.trim().strip_prefix("Prefixes:")?.trim().parse().ok());
    Ok(Count { v4: v4.unwrap_or(0), v6: ipv6_routes(pid)? })
}

/// The IPv6 routes alone, which are free to read.
fn ipv6_routes(pid: u32) -> Result<u64> {
    let stats = read_to_string(format!("/proc/{pid}/net/rt6_stats")).context("the kernel has no IPv6")?;
    // The fourth number is that of the entries.
    let entries = stats.split_whitespace().nth(3).and_then(|n| u64::from_str_radix(n, 16).ok());
    entries.context("rt6_stats has no entries")
}

/// The octets received by an interface of the namespace.
pub fn octets_received(pid: u32, interface: &str) -> Result<u64> {
    let devices = read_to_string(format!("/proc/{pid}/net/dev"))?;
    let line = devices.lines().find_map(|l| l.trim().strip_prefix(interface)?.strip_prefix(':'));
    let octets = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    octets.with_context(|| format!("no interface {interface}"))
}

/// Watches the routes added to an existing table.
pub struct TableWatch {
    pid: u32,
    before: Count,
}

impl TableWatch {
    /// Starts from the current contents, in the namespace of the process `pid`. The kernel adds routes of its own
    /// shortly after links and addresses come up. Therefore the function reads until two readings agree.
    pub fn start(pid: u32) -> Result<Self> {
        let begin = Instant::now();
        let mut before = routes(pid)?;
        loop {
            sleep(SETTLED);
            let now = routes(pid)?;
            if now == before {
                return Ok(TableWatch { pid, before });
            }
            ensure!(begin.elapsed() < Duration::from_secs(30), "the kernel's tables do not come to rest");
            before = now;
        }
    }

    /// Routes added since the start.
    pub fn added(&self) -> Result<Count> {
        let now = routes(self.pid)?;
        Ok(Count { v4: now.v4.saturating_sub(self.before.v4), v6: now.v6.saturating_sub(self.before.v6) })
    }

    /// IPv6 routes added since the start, which are free to read.
    pub fn ipv6_added(&self) -> Result<u64> {
        Ok(ipv6_routes(self.pid)?.saturating_sub(self.before.v6))
    }

    /// Waits until `wanted` routes were added; returns the start of the reading with the last route.
    pub fn wait(&self, wanted: Count, patience: Duration) -> Result<Instant> {
        let begin = Instant::now();
        loop {
            let look = Instant::now();
            let count = self.added()?;
            if count == wanted {
                return Ok(look);
            }
            ensure!(begin.elapsed() < patience, "the kernel has {count} routes of {wanted}");
            // At the rate so far, half of what is left may be slept over; before anything has come, nothing can be said.
            let share = wanted.sum().saturating_sub(count.sum()) as f64 / count.sum().max(1) as f64;
            let left = if count.sum() == 0 { 0.0 } else { share * begin.elapsed().as_secs_f64() };
            sleep(Duration::from_secs_f64((left / 2.0).min(60.0)).clamp(PAUSES.0, PAUSES.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_tables_are_readable() {
        let me = std::process::id();
        if routes(me).is_err() {
            sluice_testkit::skipped("this kernel does not count its routes");
            return;
        }
        assert!(octets_received(me, "lo").is_ok());
        assert!(octets_received(me, "none").is_err());
        let watch = TableWatch::start(me).expect("the kernel has tables");
        assert!(watch.wait(Count::default(), Duration::from_secs(5)).is_ok());
    }
}
