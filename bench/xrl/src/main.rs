//! Figure 9 of the XORP paper again: XRLs a second by family and number of arguments, a window of 100, and the same
//! calls over gRPC in the same run.
//!
//! The receiver is a separate process (the program again, with `serve`), except for calls in process. Calls with limited
//! arguments go through a guard's process (the program again, with `guard`).

mod arguments;
mod guard;
mod yardstick;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bench_report::{Bar, Plot, Report, Series, mean_sd, median, number, table};
use serde_json::json;
use sluice_xrl::finder::Finder;
use sluice_xrl::{Acl, CallContext, EndpointOptions, Family, Principal, Target, XrlEndpoint, XrlError};

sluice_xrl::include_idl!();
use idl::bench::v1::{Bench, BenchClient, CountReply, CountRequest, bench_service};

const SECRET: [u8; 16] = *b"a benchmark only";
/// As in the paper.
const WINDOW: u64 = 100;
/// Alternating runs of each point.
const RUNS: usize = 7;
/// Numbers of arguments: all of figure 9's axis, and fewer for the long transactions.
const SHORT: (u64, &[usize]) = (10_000, &[0, 1, 2, 3, 4, 5, 10, 15, 20, arguments::MOST]);
const LONG: (u64, &[usize]) = (1_000_000, &[0, 2, 4, 10, arguments::MOST]);
/// Slow families make fewer calls in a long transaction; the rate does not depend on the number.
const LONG_SLOW: u64 = 50_000;

/// Arguments of the calls through a guard, which limits one of them.
const GUARDED_ARGUMENTS: usize = 4;

/// The paper's rate in process with few arguments, on an Athlon of 1100 MHz; its text has no number of the other families.
const PAPER_IN_PROCESS: f64 = 12_000.0;

struct Counter;

impl Bench for Counter {
    async fn count(&self, _: &CallContext, request: CountRequest) -> Result<CountReply, XrlError> {
        Ok(CountReply { arguments: arguments::count_xrl(&request) })
    }
}

fn local<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

async fn router(folder: &Path) -> Result<XrlEndpoint, XrlError> {
    XrlEndpoint::connect(EndpointOptions::new(folder.join("finder.sock"), SECRET, folder)).await
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("serve"), Some(folder)) => serve(PathBuf::from(folder)),
        (Some("guard"), Some(folder)) => guard::run(PathBuf::from(folder)),
        (quick, _) => local(measure(quick == Some("quick"))),
    }
}

/// The receiving process: a target with every family, and gRPC on a second thread that sleeps meanwhile.
fn serve(folder: PathBuf) -> anyhow::Result<()> {
    let grpc = folder.join("grpc");
    std::thread::spawn(move || yardstick::serve(grpc));
    local(async {
        let router = router(&folder).await?;
        let target = Target::new("bench", vec![bench_service(Rc::new(Counter))]).named("apart");
        let target = target.families(&[Family::Unix, Family::Tcp, Family::Udp]);
        let _registered = router.register(target).await?;
        let guarded = Target::new(guard::TARGET, vec![bench_service(Rc::new(Counter))]);
        let _registered_too = router.register(guarded).await?;
        // Until it is killed.
        std::future::pending().await
    })
}

/// Makes `calls` calls, `window` at a time.
async fn run(client: &BenchClient, calls: u64, window: u64, count: usize) -> anyhow::Result<Duration> {
    let left = Rc::new(Cell::new(calls));
    let start = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..window {
        let (left, client) = (Rc::clone(&left), client.clone());
        let request = arguments::xrl(count);
        workers.spawn_local(async move {
            let mut made = 0;
            while left.get() > 0 {
                left.set(left.get() - 1);
                let reply = client.count(request).await?;
                anyhow::ensure!(reply.arguments == count as u32, "wrong reply");
                made += 1;
                // Calls in process never wait; the others want their turn all the same.
                if made % 1000 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(start.elapsed())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Xrl(Family),
    Grpc,
}

const WAYS: [Way; 5] = [
    Way::Xrl(Family::InProcess),
    Way::Xrl(Family::Unix),
    Way::Xrl(Family::Tcp),
    Way::Xrl(Family::Udp),
    Way::Grpc,
];

impl Way {
    fn name(self) -> String {
        match self {
            Way::Xrl(family) => family.to_string(),
            Way::Grpc => "grpc".to_owned(),
        }
    }

    fn is_slow(self) -> bool {
        matches!(self, Way::Grpc | Way::Xrl(Family::Udp))
    }
}

/// Rates in calls a second, by transaction size, way and arguments; run by run.
type Rates = BTreeMap<(u64, Way, usize), Vec<f64>>;

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

async fn measure(quick: bool) -> anyhow::Result<()> {
    let mut report = Report::begin("xrl");
    let folder = tempfile::tempdir()?;
    let mut acl = Acl::from(guard::principals());
    acl.insert(SECRET, Principal::all_powerful("bench"));
    let _finder = Finder::bind(folder.path().join("finder.sock"), acl).await?;
    let router = router(folder.path()).await?;
    let mine = Target::new("bench", vec![bench_service(Rc::new(Counter))]).named("here");
    let _registered = router.register(mine).await?;
    let mut births = router.watch_instance("apart").await?;
    let mut receiver = Command::new(std::env::current_exe()?);
    let receiver = Receiver(receiver.arg("serve").arg(folder.path()).stdin(Stdio::null()).spawn()?);
    let _born = births.next().await;
    let grpc = yardstick::connect(&folder.path().join("grpc")).await?;
    let mut rates = Rates::new();
    let (runs, sizes) = if quick { (5, vec![(200_000, &[0, 4][..])]) } else { (RUNS, vec![SHORT, LONG]) };
    for (size, counts) in sizes {
        // A first run that does not count: resolution, buffers, the processor's caches.
        for turn in 0..=runs {
            for count in counts {
                for way in WAYS {
                    let calls = if way.is_slow() { size.min(LONG_SLOW) } else { size };
                    let calls = if quick && way.is_slow() { calls / 5 } else { calls };
                    let took = match way {
                        Way::Xrl(family) => {
                            let name = if family == Family::InProcess { "here" } else { "apart" };
                            let client = BenchClient::new(&router, name).via(family);
                            run(&client, calls, WINDOW, *count).await?
                        }
                        Way::Grpc => yardstick::run(&grpc, calls, WINDOW, *count).await?,
                    };
                    if turn > 0 {
                        let rate = calls as f64 / took.as_secs_f64();
                        rates.entry((size, way, *count)).or_default().push(rate);
                    }
                }
            }
        }
    }
    let through_guard = through_guard(&router, folder.path(), runs, quick).await?;
    drop(receiver);
    show(&rates, &mut report);
    show_guard(&through_guard, &mut report);
    bars(&rates, &mut report);
    let plots: Vec<(String, Plot)> =
        sizes_of(&rates).into_iter().map(|s| (format!("-{s}"), plot(&rates, s))).collect();
    let plots: Vec<(&str, &Plot)> = plots.iter().map(|(suffix, plot)| (suffix.as_str(), plot)).collect();
    report.finish(&plots)?;
    Ok(())
}

/// Rates of calls with limited arguments, which a guard's process decodes, checks and passes on; run by run.
async fn through_guard(
    router: &XrlEndpoint,
    folder: &Path,
    runs: usize,
    quick: bool,
) -> anyhow::Result<Vec<f64>> {
    let (guard, client) = guard::start(router, folder).await?;
    let calls = if quick { LONG_SLOW / 5 } else { LONG_SLOW };
    let mut rates = Vec::new();
    for turn in 0..=runs {
        let took = run(&client, calls, WINDOW, GUARDED_ARGUMENTS).await?;
        if turn > 0 {
            rates.push(calls as f64 / took.as_secs_f64());
        }
    }
    drop(guard);
    Ok(rates)
}

fn show_guard(rates: &[f64], report: &mut Report) {
    let (mean, sd) = mean_sd(rates);
    println!(
        "calls with {GUARDED_ARGUMENTS} arguments through a guard: {} ± {} a second\n",
        number(mean),
        number(sd)
    );
    report.row(json!({
        "family": "unix through a guard", "arguments": GUARDED_ARGUMENTS, "window": WINDOW,
        "calls_per_s_mean": mean.round(), "calls_per_s_sd": sd.round(),
        "calls_per_s_median": median(rates).round(), "runs": rates.len(),
    }));
    report.bar(Bar::higher("xrl.guard_calls_per_s", median(rates), "calls/s", 50_000.0));
}

fn sizes_of(rates: &Rates) -> Vec<u64> {
    let mut sizes: Vec<u64> = rates.keys().map(|(size, ..)| *size).collect();
    sizes.dedup();
    sizes
}

fn show(rates: &Rates, report: &mut Report) {
    for size in sizes_of(rates) {
        let mut counts: Vec<usize> = rates.keys().filter(|k| k.0 == size).map(|k| k.2).collect();
        counts.sort_unstable();
        counts.dedup();
        let mut lines = Vec::new();
        for count in counts {
            let mut line = vec![count.to_string()];
            for way in WAYS {
                let values = rates.get(&(size, way, count)).map_or(&[][..], |v| v);
                let (mean, sd) = mean_sd(values);
                line.push(format!("{} ± {}", number(mean), number(sd)));
                report.row(json!({
                    "transaction": size, "family": way.name(), "arguments": count, "window": WINDOW,
                    "calls_per_s_mean": mean.round(), "calls_per_s_sd": sd.round(),
                    "calls_per_s_median": median(values).round(), "runs": values.len(),
                    "paper_calls_per_s": (way == Way::Xrl(Family::InProcess) && count == 0).then_some(PAPER_IN_PROCESS),
                }));
            }
            lines.push(line);
        }
        let names: Vec<String> = WAYS.iter().map(|w| w.name()).collect();
        let head: Vec<&str> = std::iter::once("arguments").chain(names.iter().map(String::as_str)).collect();
        println!(
            "XRLs a second, transactions of {size}, window {WINDOW}: mean ± SD\n{}",
            table(&head, &lines)
        );
        println!(
            "the paper (2005): almost {} a second in process with few arguments\n",
            number(PAPER_IN_PROCESS)
        );
    }
}

/// The worst of 0 to 4 arguments counts.
fn bars(rates: &Rates, report: &mut Report) {
    let size = sizes_of(rates).into_iter().max().unwrap_or(0);
    let few: Vec<usize> = (0..=4).filter(|n| rates.contains_key(&(size, Way::Grpc, *n))).collect();
    let of = |way, count| rates.get(&(size, way, count)).map_or(&[][..], |v| v);
    let ratio = |way| {
        let by_count = few.iter().map(|n| {
            // Run by run: what disturbs one disturbs its neighbor too.
            let runs: Vec<f64> = of(way, *n).iter().zip(of(Way::Grpc, *n)).map(|(a, b)| a / b).collect();
            median(&runs)
        });
        by_count.fold(f64::MAX, f64::min)
    };
    let unix = Way::Xrl(Family::Unix);
    let rate = few.iter().map(|n| median(of(unix, *n))).fold(f64::MAX, f64::min);
    report.bar(Bar::higher("xrl.inproc_vs_grpc", ratio(Way::Xrl(Family::InProcess)), "x", 50.0));
    report.bar(Bar::higher("xrl.unix_vs_grpc", ratio(unix), "x", 12.0));
    report.bar(Bar::higher("xrl.unix_calls_per_s", rate, "calls/s", 1_000_000.0));
}

fn plot(rates: &Rates, size: u64) -> Plot {
    let series = WAYS.iter().map(|way| {
        let points = rates.iter().filter(|((s, w, _), _)| *s == size && w == way);
        let points = points.map(|((.., count), values)| {
            let (mean, sd) = mean_sd(values);
            (*count as f64, mean, sd)
        });
        Series { name: way.name(), points: points.collect() }
    });
    Plot {
        title: format!("XRL performance, transactions of {size}, window {WINDOW} (XORP, figure 9)"),
        x: "arguments".to_owned(),
        y: "XRLs a second".to_owned(),
        logarithmic: true,
        boxes: Vec::new(),
        names: Vec::new(),
        series: series.collect(),
    }
}
