//! A lower bound for the time of a scenario with a number of threads, from the work that is serial with any number of
//! threads.

use bench_profile::crossing::{MessageCost, TcpCost};
use bench_profile::stages::{Stages, TableCost};

/// Octets of one read, as the router does.
const READ: f64 = 65_536.0;

/// The load besides BGP's routes, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others {
    /// The thread of BGP's process with control and the RIB's replies.
    pub main: f64,
    /// The router's other processes.
    pub processes: f64,
    /// The client.
    pub client: f64,
}

/// Processor time of work that stays on a single thread, in seconds.
#[derive(Clone, Debug)]
pub struct Model {
    /// An intake for each sender.
    pub intakes: Vec<f64>,
    /// A table's deciding, and packing for every peer.
    pub tables: Vec<f64>,
    /// A writer for each peer, senders first.
    pub writers: Vec<f64>,
    /// The load besides BGP's routes.
    pub others: Others,
    /// Total number of messages between threads.
    pub messages: usize,
}

/// A predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// At least.
    pub seconds: f64,
    /// The limit that causes the prediction.
    pub bound: &'static str,
}

/// The machine of the prediction.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Threads of BGP beside its main thread; 1: only the main thread.
    pub threads: usize,
    /// Processors, minus the foreign load.
    pub cores: f64,
    /// True if the client runs on the same machine.
    pub client: bool,
    /// True if tasks keep their threads, as with `scheduling peer`.
    pub pinned: bool,
}

impl Model {
    /// Builds a model from the separate costs of stages. `senders` are the octets that each sender sends.
    pub fn new(
        stages: &Stages,
        senders: &[usize],
        message: MessageCost,
        tcp: TcpCost,
        others: Others,
    ) -> Self {
        // Half of a message is the sender's cost, half the receiver's; with one thread it is cheaper than this.
        let half = message.awake / 2.0;
        let batches: usize = stages.batches.iter().sum();
        let pieces: usize = stages.pieces.iter().sum();
        let read: usize = senders.iter().sum();
        // A batch, and the room that it leaves; a piece, and the wish for the next.
        let table = |(cost, (batches, pieces)): (&TableCost, (&usize, &usize))| {
            cost.decide + cost.fill + half * 2.0 * (batches + pieces) as f64
        };
        let intake = |(cost, octets): (&f64, &usize)| {
            let share = *octets as f64 / read.max(1) as f64;
            cost + *octets as f64 * tcp.read + half * (2.0 * batches as f64 * share + (*octets as f64 / READ))
        };
        let peers = stages.advertised.len().max(1) as f64;
        let writer = |octets: &usize| *octets as f64 * tcp.write + half * 2.0 * pieces as f64 / peers;
        Model {
            intakes: stages.intakes.iter().zip(senders).map(intake).collect(),
            tables: stages.tables.iter().zip(stages.batches.iter().zip(&stages.pieces)).map(table).collect(),
            writers: stages.advertised.iter().map(writer).collect(),
            others,
            messages: 2 * (batches + pieces),
        }
    }

    /// The work for BGP's routes, without the main thread's own work.
    pub fn work(&self) -> f64 {
        [&self.intakes, &self.tables, &self.writers].into_iter().flatten().sum()
    }

    /// The busiest of each.
    pub fn chains(&self) -> [(&'static str, f64); 4] {
        let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
        [
            ("an intake", most(&self.intakes)),
            ("a table", most(&self.tables)),
            ("a writer", most(&self.writers)),
            ("main", self.others.main),
        ]
    }

    /// The load of the busiest thread, by the placement of connections and tables.
    fn busiest(&self, threads: usize) -> f64 {
        let mut busy = vec![0.0; threads];
        // Connections come one after the other to who has the fewest; each has an intake and a writer.
        for (at, writer) in self.writers.iter().enumerate() {
            busy[at % threads] += writer + self.intakes.get(at).copied().unwrap_or(0.0);
        }
        self.tables.iter().enumerate().for_each(|(at, table)| busy[at % threads] += table);
        busy.into_iter().fold(0.0, f64::max)
    }

    /// Predicts the least time of a scenario.
    pub fn predict(&self, machine: Machine) -> Prediction {
        let client = if machine.client { self.others.client } else { 0.0 };
        let all = self.work() + self.others.main + self.others.processes + client;
        let mut bounds = self.chains().to_vec();
        bounds.push(("processors", all / machine.cores));
        if machine.threads == 1 {
            bounds.push(("the thread", self.work() + self.others.main));
        } else {
            bounds.push(("all threads", self.work() / machine.threads as f64));
            if machine.pinned {
                bounds.push(("a thread", self.busiest(machine.threads)));
            }
        }
        let longest = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        longest
            .map_or(Prediction { seconds: 0.0, bound: "" }, |(bound, seconds)| Prediction { seconds, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: Others = Others { main: 1.0, processes: 0.0, client: 6.0 };

    fn model(intakes: &[f64], tables: &[f64], writers: &[f64]) -> Model {
        let (intakes, tables, writers) = (intakes.to_vec(), tables.to_vec(), writers.to_vec());
        Model { intakes, tables, writers, others: OTHERS, messages: 0 }
    }

    #[test]
    fn bounds() {
        let even = model(&[2.0; 4], &[2.0; 4], &[1.0; 4]);
        let one = model(&[8.0], &[2.0; 4], &[0.0, 4.0]);
        let cases = [
            // threads, cores, client; seconds, why
            (&even, (1, 2.0, false), (21.0, "the thread")),
            (&even, (2, 2.0, false), (10.5, "processors")),
            (&even, (2, 2.0, true), (13.5, "processors")),
            (&even, (2, 1.5, true), (18.0, "processors")),
            (&even, (4, 8.0, false), (5.0, "a thread")),
            (&one, (4, 8.0, false), (10.0, "a thread")),
            (&one, (8, 8.0, true), (10.0, "a thread")),
        ];
        for (model, (threads, cores, client), expected) in cases {
            let found = model.predict(Machine { threads, cores, client, pinned: true });
            assert_eq!((found.seconds, found.bound), expected, "{threads} {cores} {client}");
        }
        let stolen = one.predict(Machine { threads: 8, cores: 8.0, client: false, pinned: false });
        assert_eq!((stolen.seconds, stolen.bound), (8.0, "an intake"));
    }
}
