//! The measured cells, and their summaries.

use crate::cell::Sample;
use crate::contender::Contender;
use crate::scenario::Scenario;
use bench_lab::Device;
use bench_report::median;

/// A router, a scenario, a run.
pub struct Cell {
    /// Which scenario.
    pub scenario: Scenario,
    /// Which router.
    pub contender: Contender,
    /// The measurements.
    pub sample: Sample,
}

/// Cells in their order of execution.
#[derive(Default)]
pub struct Cells(Vec<Cell>);

/// A value of a sample; `None` if the cell was not done.
pub type Value = fn(&Sample) -> Option<f64>;

impl Cells {
    /// A cell was performed.
    pub fn add(&mut self, cell: Cell) {
        self.0.push(cell);
    }

    /// The first failed cell.
    pub fn failed(&self) -> Option<&Cell> {
        self.0.iter().find(|c| c.sample.seconds.is_none())
    }

    /// The cells of a router in a scenario.
    pub fn of(&self, scenario: Scenario, contender: Contender) -> Vec<&Sample> {
        let cells = self.0.iter().filter(|c| c.scenario == scenario && c.contender == contender);
        cells.map(|c| &c.sample).collect()
    }

    /// The participants of a scenario, or of any scenario, in the order of display.
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

    /// The executed scenarios, in order.
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
