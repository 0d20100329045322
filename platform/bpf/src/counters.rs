//! Counters of frames by reason, kept by the programs for each CPU.

use crate::BpfError;
use crate::layout::{Count, Reason};
use aya::maps::{Map, MapData, PerCpuArray};
use std::fmt;
use std::os::fd::BorrowedFd;

/// The map `counts`.
pub struct Counters {
    map: PerCpuArray<MapData, [u64; 2]>,
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    /// Takes the map `counts` of a loaded program.
    ///
    /// # Errors
    ///
    /// If the map has another shape.
    pub fn new(map: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let fd = map.try_clone_to_owned().map_err(BpfError::call("copying a map's descriptor"))?;
        let shape = |found: String| BpfError::Shape {
            map: "counts".into(),
            found,
            expected: "a per-CPU array of 16 octets".into(),
        };
        let map =
            MapData::from_fd(fd).and_then(Map::from_map_data).map_err(|error| shape(error.to_string()))?;
        Ok(Counters { map: PerCpuArray::try_from(map).map_err(|error| shape(error.to_string()))? })
    }

    /// Returns one reason's counts, CPU by CPU.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn per_cpu(&self, reason: Reason) -> Result<Vec<Count>, BpfError> {
        let values = self
            .map
            .get(&reason.index(), 0)
            .map_err(|error| BpfError::call("reading counters")(std::io::Error::other(error)))?;
        Ok(values.iter().map(|[packets, octets]| Count { packets: *packets, octets: *octets }).collect())
    }

    /// Returns the sum of one reason's counts over all CPUs. Counts wrap around at 2^64.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn total(&self, reason: Reason) -> Result<Count, BpfError> {
        let per_cpu = self.per_cpu(reason)?;
        Ok(per_cpu.iter().fold(Count::default(), |sum, count| Count {
            packets: sum.packets.wrapping_add(count.packets),
            octets: sum.octets.wrapping_add(count.octets),
        }))
    }
}
