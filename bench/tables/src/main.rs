//! Prefix tables on the Internet's routes: `PrefixTable` beside the best crates, in alternating runs. Then the tables of
//! the XDP program.
//!
//! `cargo run --release -p bench-tables [quick | xids | TABLE-FILE]`; `quick` takes a tenth of the routes and fewer runs,
//! `xids` compares tables of XIDs only.

macro_rules! tables {
    ($prefix:ty: $($table:ty),* $(,)?) => {
        [$((<$table as Candidate<$prefix>>::NAME, run::<$prefix, $table> as fn(&Workload<$prefix>) -> Run)),*]
    };
}

mod candidates;
mod compiled;
mod workload;
mod xids;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;
use bench_report::{Bar, Plot, Report, Series, mean_sd, median, number, table};
use serde_json::json;
use sluice_base::{Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_stage::PrefixTable;
use sluice_testkit::heap;

use candidates::{Bare, Bitmap, Candidate, Patricia, Sorted};
use workload::Workload;

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

/// Alternating runs.
const RUNS: usize = 7;

/// The measured operations, in the order of the columns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Measure {
    Insert,
    Exact,
    MatchHost,
    MatchAnywhere,
    Walk,
    SafeWalk,
    Covering,
    Covered,
    Remove,
    Held,
    Peak,
}

impl Measure {
    const ALL: [Measure; 11] = [
        Measure::Insert,
        Measure::Exact,
        Measure::MatchHost,
        Measure::MatchAnywhere,
        Measure::Walk,
        Measure::SafeWalk,
        Measure::Covering,
        Measure::Covered,
        Measure::Remove,
        Measure::Held,
        Measure::Peak,
    ];

    /// Name in the results, and at the head of a column.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Measure::Insert => ("insert_ns", "insert"),
            Measure::Exact => ("exact_ns", "exact"),
            Measure::MatchHost => ("longest_match_ns", "match"),
            Measure::MatchAnywhere => ("longest_match_anywhere_ns", "match any"),
            Measure::Walk => ("walk_ns_per_prefix", "walk"),
            Measure::SafeWalk => ("safe_walk_ns_per_prefix", "safe walk"),
            Measure::Covering => ("covering_ns", "covering"),
            Measure::Covered => ("covered_ns_per_prefix", "covered"),
            Measure::Remove => ("remove_ns", "remove"),
            Measure::Held => ("bytes_per_prefix", "B held"),
            Measure::Peak => ("peak_bytes_per_prefix", "B peak"),
        }
    }
}

/// Values by family, table and measure; run by run.
type Values = BTreeMap<(&'static str, &'static str, Measure), Vec<f64>>;

/// A run over a table; the sums show that the tables agree.
struct Run {
    values: Vec<(Measure, f64)>,
    sums: BTreeMap<Measure, u64>,
}

impl Run {
    /// Times `work`, which does `count` things.
    fn time(&mut self, measure: Measure, count: usize, work: impl FnOnce() -> Option<u64>) {
        let start = Instant::now();
        let sum = work();
        let took = start.elapsed();
        if let Some(sum) = black_box(sum) {
            self.values.push((measure, took.as_secs_f64() * 1e9 / count.max(1) as f64));
            self.sums.insert(measure, sum);
        }
    }
}

fn total<P: Copy>(all: &[P], ask: impl Fn(P) -> Option<u32>) -> Option<u64> {
    Some(all.iter().map(|p| ask(*p).map_or(0, |v| u64::from(v) + 1)).sum())
}

fn run<P: Prefix, T: Candidate<P>>(work: &Workload<P>) -> Run {
    let count = work.arrival.len();
    let mut run = Run { values: Vec::new(), sums: BTreeMap::new() };
    let base = heap::start();
    let mut table = T::empty();
    run.time(Measure::Insert, count, || {
        for (prefix, value) in work.arrival.iter().zip(0..) {
            table.insert(*prefix, value);
        }
        Some(0)
    });
    let usage = heap::since(base);
    run.values.push((Measure::Held, usage.held as f64 / count.max(1) as f64));
    run.values.push((Measure::Peak, usage.peak as f64 / count.max(1) as f64));
    run.time(Measure::Exact, count, || total(&work.asked, |p| table.get(p)));
    run.time(Measure::MatchHost, count, || total(&work.hosts, |p| table.longest(p)));
    run.time(Measure::MatchAnywhere, count, || total(&work.anywhere, |p| table.longest(p)));
    run.time(Measure::Walk, count, || Some(table.walk()));
    run.time(Measure::SafeWalk, count, || table.walk_safely());
    run.time(Measure::Covering, count, || work.asked.iter().map(|p| table.covering(*p)).sum());
    run.time(Measure::Covered, count, || work.blocks.iter().map(|p| table.covered(*p)).sum());
    run.time(Measure::Remove, count, || {
        let mut sum = 0;
        for prefix in &work.asked {
            sum += table.remove(*prefix).map_or(0, u64::from);
        }
        Some(sum)
    });
    run
}

/// A table's name, and its run.
type Entry<P> = (&'static str, fn(&Workload<P>) -> Run);

/// Runs every table in turn; fails if two tables disagree.
fn measure<P: Prefix>(
    family: &'static str,
    work: &Workload<P>,
    tables: &[Entry<P>],
    runs: usize,
    values: &mut Values,
) -> anyhow::Result<()> {
    let mut known: BTreeMap<Measure, u64> = BTreeMap::new();
    // A first run that does not count: the processor's caches, the allocator's pages.
    for turn in 0..=runs {
        // Another table begins each turn: what one leaves to the allocator, the next has to live with.
        for (name, run) in tables.iter().cycle().skip(turn).take(tables.len()) {
            let result = run(work);
            for (measure, sum) in result.sums {
                let expected = *known.entry(measure).or_insert(sum);
                ensure!(expected == sum, "{name} {measure:?}: {sum}, another table said {expected}");
            }
            for (measure, value) in result.values {
                if turn > 0 {
                    values.entry((family, *name, measure)).or_default().push(value);
                }
            }
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("xids") {
        let mut report = Report::begin("tables-xids");
        xids::compare(&mut report)?;
        report.finish(&[])?;
        return Ok(());
    }
    let quick = argument.as_deref() == Some("quick");
    let file = argument.filter(|_| !quick).map(PathBuf::from);
    let (mut routes, source) = sluice_load::source::find(file.as_deref())?;
    if quick {
        routes = routes.thinned(routes.v4.len() / 10, routes.v6.len() / 10);
    }
    let v4: Vec<Ipv4Prefix> = routes.v4.iter().filter_map(|a| a.prefix.try_into().ok()).collect();
    let v6: Vec<Ipv6Prefix> = routes.v6.iter().filter_map(|a| a.prefix.try_into().ok()).collect();
    drop(routes);
    println!("{} IPv4 and {} IPv6 prefixes: {source}", number(v4.len() as f64), number(v6.len() as f64));
    let mut report = Report::begin("tables");
    let (runs, mut values) = (if quick { 5 } else { RUNS }, Values::new());
    let work = Workload::new(&v4, Ipv4Prefix::default_route(), 16);
    let tables = tables!(Ipv4Prefix: PrefixTable<_, u32>, Bare<_>, Bitmap<Ipv4Addr>, Patricia<iptrie::Ipv4Prefix>, Sorted<_>);
    measure("ipv4", &work, &tables, runs, &mut values)?;
    compiled::measure("ipv4", &work, runs, &mut report)?;
    // Hosts anywhere in the space that is given out: elsewhere no route of the Internet lies.
    let global = "2000::/3".parse::<Ipv6Prefix>()?;
    let work = Workload::new(&v6, global, 32);
    let tables = tables!(Ipv6Prefix: PrefixTable<_, u32>, Bare<_>, Bitmap<Ipv6Addr>, Patricia<iptrie::Ipv6Prefix>, Sorted<_>);
    measure("ipv6", &work, &tables, runs, &mut values)?;
    compiled::measure("ipv6", &work, runs, &mut report)?;
    show(&values, &mut report, &[("ipv4", v4.len()), ("ipv6", v6.len())]);
    bars(&values, &mut report);
    let plots = [("-ipv4", plot(&values, "ipv4")), ("-ipv6", plot(&values, "ipv6"))];
    report.finish(&plots.each_ref().map(|(suffix, plot)| (*suffix, plot)))?;
    Ok(())
}

/// The tables of a family, `PrefixTable` first, in the order of measurement.
const NAMES: [&str; 5] = ["PrefixTable", "prefix-trie", "treebitmap", "iptrie", "BTreeMap"];

fn show(values: &Values, report: &mut Report, families: &[(&'static str, usize)]) {
    for (family, count) in families {
        let mut lines = Vec::new();
        for name in NAMES {
            let mut line = vec![name.to_owned()];
            for measure in Measure::ALL {
                let Some(all) = values.get(&(*family, name, measure)) else {
                    line.push("-".to_owned());
                    continue;
                };
                line.push(number(median(all)));
                let (mean, sd) = mean_sd(all);
                report.row(json!({
                    "family": family, "table": name, "prefixes": count, "value": "u32",
                    "measure": measure.names().0, "median": median(all), "mean": mean, "sd": sd, "runs": all.len(),
                }));
            }
            lines.push(line);
        }
        let head: Vec<&str> =
            std::iter::once("table").chain(Measure::ALL.iter().map(|m| m.names().1)).collect();
        println!(
            "{family}, {} prefixes in random order, values of 4 octets; ns (walk, safe walk, covered: a prefix), octets a prefix; median of {}\n{}",
            number(*count as f64),
            values.get(&(*family, NAMES[0], Measure::Insert)).map_or(0, Vec::len),
            table(&head, &lines)
        );
    }
}

/// The ratio of `PrefixTable` to the best of `others`, run by run: a disturbance affects neighboring runs too.
fn ratio(
    values: &Values,
    family: &'static str,
    measures: (Measure, Measure),
    others: &[&'static str],
) -> f64 {
    let of = |name, measure| values.get(&(family, name, measure)).map_or(&[][..], |v| v);
    let ours = of(NAMES[0], measures.0);
    let ratios =
        others.iter().map(|name| of(name, measures.1)).filter(|other| !other.is_empty()).map(|other| {
            let runs: Vec<f64> = ours.iter().zip(other).map(|(a, b)| a / b).collect();
            median(&runs)
        });
    ratios.fold(0.0, f64::max)
}

/// Crates with prefix tables, and those of them that walk in order, which a pausing iterator needs. (`iptrie` walks
/// along a vector, in the order of arrival. The sorted map has no operations for prefixes; it is the floor.)
const PREFIX_TABLES: &[&str] = &["prefix-trie", "treebitmap", "iptrie"];
const ORDERED: &[&str] = &["prefix-trie", "treebitmap"];

fn bars(values: &Values, report: &mut Report) {
    let same = |measure| (measure, measure);
    let bars = [
        ("insert", same(Measure::Insert), PREFIX_TABLES),
        ("exact", same(Measure::Exact), PREFIX_TABLES),
        ("longest_match", same(Measure::MatchHost), PREFIX_TABLES),
        ("longest_match_anywhere", same(Measure::MatchAnywhere), PREFIX_TABLES),
        ("remove", same(Measure::Remove), PREFIX_TABLES),
        ("walk", same(Measure::Walk), ORDERED),
        ("safe_walk", (Measure::SafeWalk, Measure::Walk), ORDERED),
        ("covering", same(Measure::Covering), PREFIX_TABLES),
        ("covered", same(Measure::Covered), PREFIX_TABLES),
        ("bytes", same(Measure::Held), PREFIX_TABLES),
    ];
    for family in ["ipv4", "ipv6"] {
        for (name, measures, others) in bars {
            let value = ratio(values, family, measures, others);
            report.bar(Bar::lower(&format!("tables.{family}.{name}_vs_best"), value, "x", 1.1));
        }
    }
}

fn plot(values: &Values, family: &'static str) -> Plot {
    let shown = &Measure::ALL[..10];
    let series = NAMES.iter().map(|name| {
        let points = shown.iter().enumerate().filter_map(|(x, measure)| {
            let (mean, sd) = mean_sd(values.get(&(family, *name, *measure))?);
            Some((x as f64, mean, sd))
        });
        Series { name: (*name).to_owned(), points: points.collect() }
    });
    Plot {
        title: format!("Prefix tables, {family}, the Internet's routes"),
        x: "operation; octets a prefix".to_owned(),
        y: "ns, octets".to_owned(),
        logarithmic: true,
        boxes: Vec::new(),
        names: shown.iter().map(|m| m.names().1.to_owned()).collect(),
        series: series.collect(),
    }
}
