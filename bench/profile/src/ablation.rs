//! The gain of each optimization: the same work with and without it, as far as the core's interface has a choice.

use crate::clock::time;
use crate::feed::Feed;
use crate::passes::over_tcp;
use crate::table::{Session, Way};
use anyhow::Result;
use bench_report::median;

/// Receivers where several are sent routes.
const RECEIVERS: usize = 30;

/// The same with and without something.
pub struct Ablation {
    /// The optimization.
    pub what: &'static str,
    /// The optimized case.
    pub with: &'static str,
    /// The compared case.
    pub without: &'static str,
    /// Nanoseconds in an UPDATE, with and without; medians.
    pub ns: (f64, f64),
    /// Changes besides the time.
    pub note: String,
}

impl Ablation {
    /// The factor of time without the optimization.
    pub fn gain(&self) -> f64 {
        self.ns.1 / self.ns.0.max(f64::MIN_POSITIVE)
    }
}

/// Measures every optimization, each with the given number of alternating runs.
pub fn all(feed: &Feed, runs: usize) -> Result<Vec<Ablation>> {
    let compare = Compare { updates: feed.updates as f64, runs };
    let split = feed.split();
    let (same, unique) = (split.marked(false), split.marked(true));
    let default = Way::default();
    let sets = |feed: &Feed, way| into_table(feed, way).map(|(_, session)| session.sets());
    let mut all = Vec::new();
    all.push(Ablation {
        what: "attributes that are the same are kept once",
        with: "as the feed has it, a prefix in each UPDATE",
        without: "each UPDATE has others",
        ns: Compare { updates: same.updates as f64, runs }
            .times(|| table_time(&same, default), || table_time(&unique, default))?,
        note: format!("{} sets, {} without", sets(&same, default)?, sets(&unique, default)?),
    });
    for (piece, without) in [(4096, "4 KiB at a time"), (1 << 20, "1 MiB at a time")] {
        all.push(Ablation {
            what: "long reads",
            with: "64 KiB at a time",
            without,
            ns: compare.times(|| read_time(feed, 1 << 16), || read_time(feed, piece))?,
            note: "TCP on the loopback, through to the table".to_owned(),
        });
    }
    let single = Way { batch: 1, ..default };
    all.push(Ablation {
        what: "changes go to the table in batches",
        with: "4096 at a time",
        without: "each UPDATE by itself",
        ns: compare.times(|| table_time(feed, default), || table_time(feed, single))?,
        note: String::new(),
    });
    let updates = |together| advertise(feed, together).map(|(_, session)| session.advertised.1);
    all.push(Ablation {
        what: "update groups (30 receivers)",
        with: "one group",
        without: "a group for each",
        ns: compare.times(|| Ok(advertise(feed, true)?.0), || Ok(advertise(feed, false)?.0))?,
        note: format!("{} UPDATEs sent, {} without", updates(true)?, updates(false)?),
    });
    let (packed, unpacked) = (advertise_at_once(feed, true)?.1, advertise_at_once(feed, false)?.1);
    all.push(Ablation {
        what: "packing by attributes (one receiver)",
        with: "sent when all is there",
        without: "sent after every UPDATE",
        ns: compare
            .times(|| Ok(advertise_at_once(feed, true)?.0), || Ok(advertise_at_once(feed, false)?.0))?,
        note: format!("{} UPDATEs sent, {} without", packed.advertised.1, unpacked.advertised.1),
    });
    for (tables, without) in [(2, "two tables on one thread"), (8, "eight tables on one thread")] {
        let way = Way { tables, ..default };
        all.push(Ablation {
            what: "one table, nothing is spread",
            with: "one table",
            without,
            ns: compare.times(|| table_time(feed, default), || table_time(feed, way))?,
            note: format!("{} sets, {} without", sets(feed, default)?, sets(feed, way)?),
        });
    }
    Ok(all)
}

struct Compare {
    updates: f64,
    runs: usize,
}

impl Compare {
    /// Medians of alternating runs, in an UPDATE.
    fn times(&self, with: impl Fn() -> Result<f64>, without: impl Fn() -> Result<f64>) -> Result<(f64, f64)> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            a.push(with()? / self.updates);
            b.push(without()? / self.updates);
        }
        Ok((median(&a), median(&b)))
    }
}

fn into_table(feed: &Feed, way: Way) -> Result<(f64, Session)> {
    let mut session = Session::new(way, 0);
    let ns = time(|| {
        session.read(&feed.octets, true)?;
        session.finish();
        Ok(())
    })?;
    Ok((ns, session))
}

fn table_time(feed: &Feed, way: Way) -> Result<f64> {
    Ok(into_table(feed, way)?.0)
}

fn read_time(feed: &Feed, piece: usize) -> Result<f64> {
    let mut session = Session::new(Way::default(), 0);
    over_tcp(feed, piece, |octets| session.read(octets, true))
}

/// Announces an existing table to many receivers.
fn advertise(feed: &Feed, together: bool) -> Result<(f64, Session)> {
    let mut session = Session::new(Way::default(), RECEIVERS);
    session.join(together);
    session.read(&feed.octets, true)?;
    session.finish();
    let ns = time(|| {
        session.advertise();
        Ok(())
    })?;
    Ok((ns, session))
}

/// Takes a table and announces it to a single receiver: in a single pass, or after each UPDATE.
fn advertise_at_once(feed: &Feed, packed: bool) -> Result<(f64, Session)> {
    let way = if packed { Way::default() } else { Way { batch: 1, ..Way::default() } };
    let mut session = Session::new(way, 1);
    session.join(true);
    let ns = time(|| {
        if packed {
            session.read(&feed.octets, true)?;
        } else {
            let mut rest = &feed.octets[..];
            while let Ok(Some(frame)) = sluice_bgp::wire::header::frame(rest) {
                let (message, after) = rest.split_at(frame.len());
                session.read(message, true)?;
                session.advertise();
                rest = after;
            }
        }
        session.finish();
        session.advertise();
        Ok(())
    })?;
    Ok((ns, session))
}
