//! Programs of components in the chain: the program of each slot, and the owner.
//!
//! A component that ends leaves the program for a grace time, so the next process finds the program unchanged. Then the
//! slot is emptied. A program left in a slot by an earlier FEA waits for the component in the same way.

use super::Promiscuity;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use sluice_base::Instant;

/// A program of components for the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramRow {
    /// The program's name: the file is `bpf/NAME.bpf.c`.
    pub name: &'static str,
    /// The name of the slot in which the program stands.
    pub slot: &'static str,
    /// The maps for the component.
    pub maps: &'static [&'static str],
    /// The program for copies to several interfaces.
    pub copies: Option<Copies>,
    /// The map by which the program hands frames to AF_XDP sockets.
    pub receivers: Option<&'static str>,
    /// True if the program treats frames for all stations, which the interfaces then have to receive.
    pub hears_all: bool,
}

/// A program for the copies of a frame that a program of the chain gives to several interfaces at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copies {
    /// The name of the program for copies: the file is `bpf/NAME.bpf.c`.
    pub program: &'static str,
    /// The maps shared with the program of the chain.
    pub maps: &'static [&'static str],
    /// The map of devices of the program of the chain: the interfaces whose frames the program sees.
    pub devices: &'static str,
}

/// The programs. A new program is a row more.
pub const PROGRAMS: &[ProgramRow] = &[
    ProgramRow {
        name: "protocols",
        slot: "police",
        maps: &["protocols"],
        copies: None,
        receivers: None,
        hears_all: false,
    },
    ProgramRow {
        name: "xip",
        slot: "xip",
        maps: &[
            "xip_lines",
            "xip_members",
            "xip_tunnels",
            "xip_sets",
            "xip_settings",
            "xip_sources",
            "xip_counts",
        ],
        copies: Some(Copies {
            program: "copy",
            maps: &["xip_members", "xip_sets", "xip_counts"],
            devices: "xip_devices",
        }),
        receivers: Some("xip_receivers"),
        hears_all: false,
    },
    ProgramRow {
        name: "balance",
        slot: "balance",
        maps: &[
            "balance_interfaces",
            "balance_ports",
            "balance_heard",
            "balance_classes",
            "balance_blocks",
            "balance_neighbors",
            "balance_addresses",
            "balance_settings",
            "balance_counts",
            "balance_led",
        ],
        copies: None,
        receivers: None,
        hears_all: true,
    },
];

/// The grace time of a program left by an earlier FEA, and the longest grace time for a component.
pub(crate) const LONGEST_GRACE: Duration = Duration::from_secs(120);

/// Returns the row of a program.
pub fn row(name: &str) -> Option<&'static ProgramRow> {
    PROGRAMS.iter().find(|row| row.name == name)
}

/// A component's process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The component's name.
    pub component: String,
    /// The process.
    pub pid: u32,
}

/// A request to put a program into its slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Put {
    /// The program.
    pub row: &'static ProgramRow,
    /// The requesting process.
    pub holder: Holder,
    /// The names of the interfaces of the program's frames; empty for all.
    pub interfaces: BTreeSet<String>,
    /// The time for which the program stays after the end of the process.
    pub grace: Duration,
}

/// The reason why a program is not put into the slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The component whose program stands there.
    pub component: String,
    /// The program.
    pub program: &'static str,
}

#[derive(Clone, Debug)]
struct Placement {
    row: &'static ProgramRow,
    /// `None` for a program left by an earlier FEA.
    component: Option<String>,
    pid: Option<u32>,
    interfaces: BTreeSet<String>,
    grace: Duration,
    /// The end of the grace time, while no process holds the program.
    until: Option<Instant>,
}

/// The programs in the slots.
#[derive(Clone, Debug, Default)]
pub struct Placements(BTreeMap<&'static str, Placement>);

impl Placements {
    /// Adopts a program left in a slot by an earlier FEA.
    pub fn found(&mut self, now: Instant, row: &'static ProgramRow) {
        let placement = Placement {
            row,
            component: None,
            pid: None,
            interfaces: BTreeSet::new(),
            grace: LONGEST_GRACE,
            until: Some(now + LONGEST_GRACE),
        };
        self.0.insert(row.slot, placement);
    }

    /// Puts a program into the slot. A new process of the same component takes the program over.
    ///
    /// # Errors
    ///
    /// If the slot holds a different program, or a program of a different component.
    pub fn put(&mut self, put: Put) -> Result<(), Taken> {
        if let Some(placement) = self.0.get(put.row.slot) {
            let is_same = placement.row == put.row
                && placement.component.as_ref().is_none_or(|component| *component == put.holder.component);
            if !is_same {
                let component = placement.component.clone().unwrap_or_else(|| "an earlier process".into());
                return Err(Taken { component, program: placement.row.name });
            }
        }
        let placement = Placement {
            row: put.row,
            component: Some(put.holder.component),
            pid: Some(put.holder.pid),
            interfaces: put.interfaces,
            grace: put.grace.min(LONGEST_GRACE),
            until: None,
        };
        self.0.insert(put.row.slot, placement);
        Ok(())
    }

    /// Takes a program out of the slot. Returns false if the component has no such program there.
    pub fn take_out(&mut self, row: &'static ProgramRow, component: &str) -> bool {
        let is_its =
            |placement: &Placement| placement.row == row && placement.component.as_deref() == Some(component);
        let holds = self.0.get(row.slot).is_some_and(is_its);
        if holds {
            self.0.remove(row.slot);
        }
        holds
    }

    /// Records the end of a process. The programs stay for their grace times.
    pub fn ended(&mut self, now: Instant, pid: u32) {
        for placement in self.0.values_mut().filter(|placement| placement.pid == Some(pid)) {
            placement.pid = None;
            placement.until = Some(now + placement.grace);
        }
    }

    /// Removes and returns the programs whose grace time is over.
    pub fn expire(&mut self, now: Instant) -> Vec<&'static ProgramRow> {
        let is_over = |placement: &Placement| placement.until.is_some_and(|until| until <= now);
        let over: Vec<_> = self.0.values().filter(|placement| is_over(placement)).map(|p| p.row).collect();
        self.0.retain(|_, placement| !is_over(placement));
        over
    }

    /// Returns the next moment at which [`Placements::expire`] is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|placement| placement.until).min()
    }

    /// Returns the names of the slots whose programs do not see an interface's frames.
    pub fn skipped<'a>(&'a self, interface: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        let skips = move |placement: &&Placement| {
            !placement.interfaces.is_empty() && !placement.interfaces.contains(interface)
        };
        self.0.values().filter(skips).map(|placement| placement.row.slot)
    }

    /// Returns true if the program of a row sees an interface's frames.
    pub fn sees(&self, row: &ProgramRow, interface: &str) -> bool {
        let placement = self.0.get(row.slot).filter(|placement| placement.row == row);
        placement.is_some_and(|placement| {
            placement.interfaces.is_empty() || placement.interfaces.contains(interface)
        })
    }

    /// Returns whether programs need an interface's frames for all stations.
    pub fn promiscuity(&self, interface: &str) -> Promiscuity {
        let mut wish = Promiscuity::Unwanted;
        for placement in self.0.values().filter(|placement| placement.row.hears_all) {
            match placement.component {
                None => wish = Promiscuity::Kept,
                Some(_) if self.sees(placement.row, interface) => return Promiscuity::Wanted,
                Some(_) => {}
            }
        }
        wish
    }

    /// Iterates over the programs with their slots and components.
    pub fn iter(&self) -> impl Iterator<Item = (&'static ProgramRow, Option<&str>)> {
        self.0.values().map(|placement| (placement.row, placement.component.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ROW: &ProgramRow = &PROGRAMS[0];

    fn put(component: &str, pid: u32) -> Put {
        let holder = Holder { component: component.into(), pid };
        Put { row: ROW, holder, interfaces: ["eth0".into()].into(), grace: Duration::from_secs(5) }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_program_outlives_its_process_for_the_grace_time() {
        let mut placements = Placements::default();
        placements.put(put("meter", 7)).unwrap();
        assert_eq!(
            placements.put(put("other", 8)),
            Err(Taken { component: "meter".into(), program: "protocols" })
        );
        placements.ended(at(10), 7);
        assert_eq!((placements.next_deadline(), placements.expire(at(14))), (Some(at(15)), vec![]));
        // The next process of the component takes the program over.
        placements.put(put("meter", 9)).unwrap();
        placements.ended(at(14), 7);
        assert_eq!((placements.next_deadline(), placements.expire(at(99))), (None, vec![]));
        placements.ended(at(20), 9);
        assert_eq!(placements.expire(at(25)), vec![ROW]);
        assert_eq!(placements.iter().count(), 0);
        placements.put(put("other", 8)).unwrap();
        assert!(!placements.take_out(ROW, "meter") && placements.take_out(ROW, "other"));
    }

    #[test]
    fn a_program_of_an_earlier_fea_waits_for_its_component() {
        let mut placements = Placements::default();
        placements.found(at(1), ROW);
        assert_eq!(placements.skipped("eth1").count(), 0);
        placements.put(put("meter", 7)).unwrap();
        assert_eq!(placements.next_deadline(), None);
        assert_eq!(placements.skipped("eth1").collect::<Vec<_>>(), ["police"]);
        assert_eq!(placements.skipped("eth0").count(), 0);
        assert!(placements.sees(ROW, "eth0") && !placements.sees(ROW, "eth1"));
        assert!(!placements.sees(&PROGRAMS[1], "eth0"));
        placements.found(at(1), ROW);
        assert_eq!(placements.expire(at(1) + LONGEST_GRACE), vec![ROW]);
    }

    #[test]
    fn interfaces_of_a_balancer_receive_frames_for_all_stations() {
        let mut placements = Placements::default();
        placements.put(put("meter", 7)).unwrap();
        assert_eq!(placements.promiscuity("eth0"), Promiscuity::Unwanted);
        let balance = row("balance").unwrap();
        placements.found(at(1), balance);
        assert_eq!(placements.promiscuity("eth0"), Promiscuity::Kept);
        placements.put(Put { row: balance, ..put("cluster", 8) }).unwrap();
        assert_eq!(placements.promiscuity("eth0"), Promiscuity::Wanted);
        assert_eq!(placements.promiscuity("eth1"), Promiscuity::Unwanted);
        // The process may be replaced; the program goes on.
        placements.ended(at(2), 8);
        assert_eq!(placements.promiscuity("eth0"), Promiscuity::Wanted);
        placements.expire(at(99));
        assert_eq!(placements.promiscuity("eth0"), Promiscuity::Unwanted);
    }

    #[test]
    fn each_slot_has_programs_of_distinct_names() {
        let names: BTreeSet<_> = PROGRAMS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
    }
}
