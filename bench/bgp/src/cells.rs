//! What was measured: cells, and what they say together.

use crate::cell::Sample;
use crate::contender::Contender;
use crate::scenario::Scenario;
use bench_lab::Device;
use bench_report::median;

/// One router, one scenario, one time.
pub struct Cell {
    /// Which scenario.
    pub scenario: Scenario,
    /// Which router.
    pub contender: Contender,
    /// What was measured.
    pub sample: Sample,
}

/// Cells in the order in which they were performed.
#[derive(Default)]
pub struct Cells(Vec<Cell>);

/// A value of a sample; `None` if the cell was not done.
pub type Value = fn(&Sample) -> Option<f64>;

impl Cells {
    /// A cell was performed.
    pub fn add(&mut self, cell: Cell) {
        self.0.push(cell);
    }

    /// The first that was not done.
    pub fn failed(&self) -> Option<&Cell> {
        self.0.iter().find(|c| c.sample.seconds.is_none())
    }

    /// Those of a router in a scenario.
    pub fn of(&self, scenario: Scenario, contender: Contender) -> Vec<&Sample> {
        let cells = self.0.iter().filter(|c| c.scenario == scenario && c.contender == contender);
        cells.map(|c| &c.sample).collect()
    }

    /// All who took part in a scenario, or in any, in the order in which they are shown.
    pub fn contenders(&self, scenario: Option<Scenario>) -> Vec<Contender> {
        let mut all: Vec<Contender> = Vec::new();
        for cell in self.0.iter().filter(|c| scenario.is_none_or(|s| s == c.scenario)) {
            if !all.contains(&cell.contender) {
                all.push(cell.contender);
            }
        }
        all.sort_by_key(|c| (order(c.device), c.threads, c.cores.is_none(), c.scheduling.is_some()));
        all
    }

    /// What was performed, in order.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut all: Vec<Scenario> = self.0.iter().map(|c| c.scenario).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The median; `None` if any run was not done.
    pub fn middle(&self, scenario: Scenario, contender: Contender, value: Value) -> Option<f64> {
        let all: Option<Vec<f64>> = self.of(scenario, contender).into_iter().map(value).collect();
        all.filter(|a| !a.is_empty()).map(|a| median(&a))
    }
}

const fn order(device: Device) -> usize {
    match device {
        Device::Sluice => 0,
        Device::Bird => 1,
        Device::Bird3 => 2,
        Device::Frr => 3,
        Device::Openbgpd => 4,
        Device::Gobgp => 5,
    }
}
