//! The memory of a process, as the kernel counts its pages.

use std::fs::read_to_string;

/// The memory of a process, in octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// The pages in memory, those shared with other processes included.
    pub resident_bytes: u64,
    /// The pages in memory, each divided by the number of processes that map the page.
    pub proportional_bytes: u64,
    /// The pages in memory of the heap and of other mappings without a file.
    pub heap_bytes: u64,
}

/// Returns the memory of a process; `None` if the process has ended, or if the kernel refuses to show it.
pub fn memory_of(pid: u32) -> Option<Memory> {
    let rollup = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let mappings = read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    Some(Memory {
        resident_bytes: sum(&rollup, "Rss:", |_| true),
        proportional_bytes: sum(&rollup, "Pss:", |_| true),
        heap_bytes: sum(&mappings, "Rss:", |name| name.is_empty() || name == "[heap]"),
    })
}

/// Returns the sum of a field over the mappings whose name is `counted`, in octets.
fn sum(mappings: &str, field: &str, counted: impl Fn(&str) -> bool) -> u64 {
    let mut is_counted = false;
    let mut kibibytes = 0;
    for line in mappings.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        // A mapping begins with its addresses; fields of the mapping follow, each with a colon behind its name.
        if !first.ends_with(':') {
            is_counted = counted(words.nth(4).unwrap_or_default());
        } else if is_counted && first == field {
            kibibytes += words.next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    kibibytes * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_is_what_belongs_to_no_file() {
        let mappings = "\
55aa00000000-55aa00400000 r-xp 00001000 fe:00 1234    /usr/bin/sluice
Rss:                4096 kB
Pss:                1024 kB
55aa01000000-55aa01010000 rw-p 00000000 00:00 0       [heap]
Rss:                  60 kB
Pss:                  60 kB
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Rss:                 900 kB
Pss:                 900 kB
VmFlags: rd wr mr
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0       [stack]
Rss:                 128 kB
Pss:                 128 kB
";
        assert_eq!(sum(mappings, "Rss:", |name| name.is_empty() || name == "[heap]"), 960 << 10);
        assert_eq!(sum(mappings, "Pss:", |_| true), 2112 << 10);
        assert_eq!(sum("", "Rss:", |_| true), 0);
    }

    #[test]
    fn a_process_has_at_least_the_memory_that_it_wrote() {
        let written = vec![1u8; 8 << 20];
        let memory = memory_of(std::process::id()).unwrap();
        assert!(memory.heap_bytes >= written.len() as u64, "{memory:?}");
        assert!(memory.heap_bytes <= memory.resident_bytes, "{memory:?}");
        assert!(memory.proportional_bytes <= memory.resident_bytes, "{memory:?}");
        assert_eq!(memory_of(0), None);
    }
}
