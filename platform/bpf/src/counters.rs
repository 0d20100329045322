//! Counters of frames by port and reason, kept by the programs for each CPU.

use crate::layout::{Count, PORTS, REASONS, Reason};
use crate::{BpfError, ffi};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The map `counts`.
#[derive(Debug)]
pub struct Counters {
    map: OwnedFd,
    cpus: usize,
}

impl Counters {
    /// Takes the map `counts` of a loaded program.
    ///
    /// # Errors
    ///
    /// If the map has another shape, or the number of CPUs cannot be read.
    pub fn new(map: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let info = ffi::map_info(map).map_err(BpfError::call("describing a map"))?;
        let found = (info.map_type, info.value_size as usize, info.max_entries);
        if found != (ffi::MAP_TYPE_PERCPU_ARRAY, size_of::<Count>(), PORTS * REASONS) {
            return Err(BpfError::Shape {
                map: "counts".into(),
                found: format!("type {}, values of {} octets, {} entries", found.0, found.1, found.2),
                expected: format!("a per-CPU array of {} values of 16 octets", PORTS * REASONS),
            });
        }
        let map = map.try_clone_to_owned().map_err(BpfError::call("copying a map's descriptor"))?;
        let cpus = aya::util::nr_cpus().map_err(|(_, error)| BpfError::call("counting CPUs")(error))?;
        Ok(Counters { map, cpus })
    }

    /// Reads the counters of all ports by one system call.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn read(&self) -> Result<Counts, BpfError> {
        self.read_ports(0..PORTS as u16)
    }

    /// Reads the counters of some ports by one system call. Ports from [`PORTS`] on do not exist and are left out.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn read_ports(&self, ports: Range<u16>) -> Result<Counts, BpfError> {
        let last = u32::from(ports.end).min(PORTS);
        let first = u32::from(ports.start).min(last);
        let words = ffi::map_load_batch(
            self.map.as_fd(),
            first * REASONS,
            (last - first) * REASONS,
            self.cpus * size_of::<Count>() / 8,
        )
        .map_err(BpfError::call("reading counters"))?;
        let counts = words.as_chunks::<2>().0.iter();
        let counts = counts.map(|[packets, octets]| Count { packets: *packets, octets: *octets }).collect();
        Ok(Counts { first: first as u16, cpus: self.cpus, counts })
    }

    /// Reads the sum of one reason's counts over all ports and CPUs.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn total(&self, reason: Reason) -> Result<Count, BpfError> {
        Ok(self.read()?.total(reason))
    }
}

/// The counters of a range of ports as they were read. Each counter was read at a moment of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    first: u16,
    cpus: usize,
    /// By port, reason and CPU.
    counts: Vec<Count>,
}

impl Counts {
    /// Returns the ports that were read.
    pub fn ports(&self) -> Range<u16> {
        self.first..self.first + (self.counts.len() / self.cpus / REASONS as usize) as u16
    }

    /// Returns the counts of a port and reason, CPU by CPU; nothing for a port that was not read.
    pub fn per_cpu(&self, port: u16, reason: Reason) -> &[Count] {
        self.of(port, reason.index(), 1)
    }

    /// Returns the count of a port and reason over all CPUs; 0 for a port that was not read.
    pub fn count(&self, port: u16, reason: Reason) -> Count {
        sum(self.per_cpu(port, reason))
    }

    /// Returns the count of all frames that a port received: the sum over the reasons.
    pub fn received(&self, port: u16) -> Count {
        sum(self.of(port, 0, REASONS as usize))
    }

    /// Returns the count of a reason over all ports that were read.
    pub fn total(&self, reason: Reason) -> Count {
        self.ports().map(|port| self.count(port, reason)).fold(Count::default(), Count::plus)
    }

    fn of(&self, port: u16, reason: u32, reasons: usize) -> &[Count] {
        let Some(port) = port.checked_sub(self.first) else { return &[] };
        let start = (usize::from(port) * REASONS as usize + reason as usize) * self.cpus;
        self.counts.get(start..start + reasons * self.cpus).unwrap_or_default()
    }
}

fn sum(counts: &[Count]) -> Count {
    counts.iter().fold(Count::default(), |sum, count| sum.plus(*count))
}
