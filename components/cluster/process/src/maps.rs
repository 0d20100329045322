//! The maps of the program `balance` in this process's memory: no system call a store, and no privilege.

use sluice_bpf::BpfError;
use sluice_bpf::array::MappedArray;
use sluice_bpf::layout::balance;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Mirror, Place, Store, Words};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The name of the map with the counters.
const COUNTS: &str = "balance_counts";
/// The name of the map with the counters of classes.
const LED: &str = "balance_led";

/// The names of the maps, in the order in which the FEA hands them out (`components/fea/core/src/xdp/programs.rs`).
pub const NAMES: [&str; 10] = [
    "balance_interfaces",
    "balance_ports",
    "balance_heard",
    "balance_classes",
    "balance_blocks",
    "balance_neighbors",
    "balance_addresses",
    "balance_settings",
    COUNTS,
    LED,
];

/// The maps of the program.
#[derive(Debug)]
pub struct ProgramMaps {
    maps: BTreeMap<Map, MappedArray>,
    counts: MappedArray,
    led: MappedArray,
}

impl ProgramMaps {
    /// Maps the maps of the program; `map` returns the descriptor of a name of [`NAMES`].
    ///
    /// # Errors
    ///
    /// If a map is smaller than its layout, or cannot be mapped.
    pub fn new<'fd>(map: impl Fn(&str) -> Result<BorrowedFd<'fd>, BpfError>) -> Result<Self, BpfError> {
        // A component may not ask for the shapes of maps; the FEA that made them has the same layouts as this process.
        let array = |of: Map| {
            let octets = usize::from(of.words()) * 8;
            MappedArray::with_shape(map(of.name())?, of.entries() as usize, octets).map(|array| (of, array))
        };
        let maps = Map::WRITTEN.into_iter().chain([Map::Hellos]).map(array).collect::<Result<_, _>>()?;
        let counts = (balance::CPUS * balance::REASONS) as usize;
        let led = balance::CPUS as usize * balance::CLASSES;
        Ok(ProgramMaps {
            maps,
            counts: MappedArray::with_shape(map(COUNTS)?, counts, 8)?,
            led: MappedArray::with_shape(map(LED)?, led, size_of::<balance::Led>())?,
        })
    }

    /// Returns a mirror of the words that an earlier process left.
    pub fn found(&self) -> Mirror {
        let place = |map: Map, number: usize| {
            let words = usize::from(map.words());
            Place::new(map, (number / words) as u32, (number % words) as u16)
        };
        let words = Map::WRITTEN.into_iter().filter_map(|map| Some((map, self.maps.get(&map)?)));
        Mirror::found(words.flat_map(|(map, array)| {
            let values =
                (0..array.words()).map(|number| (number, array.load_word(number).unwrap_or_default()));
            let set = values.filter(|(_, value)| *value != 0);
            set.map(move |(number, value)| Store { place: place(map, number), value })
        }))
    }

    /// Carries out a store. Returns false, and stores nothing, beyond the map's end.
    pub fn store(&self, Store { place, value }: Store) -> bool {
        let map = self.maps.get(&place.map);
        map.is_some_and(|map| map.store64(place.entry as usize, place.word.into(), value))
    }

    /// Returns the time since boot at which the last authentic hello frame of an element came; `None` if none came.
    pub fn last_hello(&self, element: ElementId) -> Option<Duration> {
        let time = self.load(Place::new(Map::Hellos, element.number().into(), 0));
        (time != 0).then(|| Duration::from_nanos(time))
    }

    /// Returns the frames of a reason, summed over the CPUs.
    pub fn count(&self, reason: Reason) -> u64 {
        let entries = (0..balance::CPUS).map(|cpu| cpu * balance::REASONS + reason as u32);
        let counts = entries.map(|entry| self.counts.load64(entry as usize, 0).unwrap_or_default());
        counts.fold(0, u64::wrapping_add)
    }

    /// Returns the frames of a class that were led to elements, summed over the CPUs.
    pub fn led(&self, class: usize) -> balance::Led {
        let entries = (0..balance::CPUS as usize).map(|cpu| cpu * balance::CLASSES + class);
        entries.fold(balance::Led::default(), |sum, entry| {
            let [packets, octets] = [0, 1].map(|word| self.led.load64(entry, word).unwrap_or_default());
            balance::Led {
                packets: sum.packets.wrapping_add(packets),
                octets: sum.octets.wrapping_add(octets),
            }
        })
    }
}

impl Words for ProgramMaps {
    fn load(&self, place: Place) -> u64 {
        let map = self.maps.get(&place.map);
        map.and_then(|map| map.load64(place.entry as usize, place.word.into())).unwrap_or_default()
    }
}
