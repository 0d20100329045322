//! Words for topologies: `NAME[:ARGUMENT][,OPTION=VALUE]...` for generated topologies, `FILE[,OPTION=VALUE]...` for
//! files.
//!
//! | word | topology |
//! |---|---|
//! | `line:N`, `ring:N`, `star:N`, `mesh:N`, `grid:WxH` | as they are called |
//! | `waxman:N[,m=2,alpha=0.15,beta=0.2]` | [`crate::waxman`] |
//! | `ba:N[,m=2]` | [`crate::barabasi_albert`] |
//! | `glp:N[,m=1,p=0.45,glp-beta=0.64]` | [`crate::glp`] |
//! | `thesis[:N]` | [`crate::thesis`] |
//! | `FILE` | GraphML (the Topology Zoo's), BRITE's, or CAIDA's AS relationships (serial-1, serial-2); packed with bzip2, gzip, xz or zstd by its name |
//!
//! Options of `waxman`, `ba` and `glp`: `bw=const|uniform|exp|pareto`, `bw-min=` and `bw-max=` in Mbit/s
//! ([`crate::Bandwidth`]; uniform from 10 to 1,024 by default, as in BRITE).
//!
//! Options of every topology, applied in order: `top=N` keeps the N nodes with the most links ([`Topology::top`]),
//! `part=largest` the largest connected part, `relationships=hierarchy` assigns customers and providers
//! ([`crate::hierarchy`]), `relationships=none` removes the relationships.

use crate::plane::Bandwidth;
use crate::{Topology, TopologyError, file, hierarchy, preferential, regular, thesis, waxman};
use sluice_base::Rng;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

/// The most nodes for Waxman's model, which compares every node with every earlier node.
const MOST_WAXMAN_NODES: usize = 20_000;
/// More links a newcomer are no growth.
const MOST_DEGREE: usize = 1000;

type Options<'a> = BTreeMap<&'a str, &'a str>;

/// Makes or reads the topology that `spec` describes.
pub(crate) fn parse(spec: &str, seed: u64) -> Result<Topology, TopologyError> {
    let mut words = spec.split(',');
    let head = words.next().unwrap_or_default();
    let mut options = Options::new();
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| wrong(format!("`{word}`: expected OPTION=VALUE")))?;
        if options.insert(name, value).is_some() {
            return Err(wrong(format!("`{name}` is said twice")));
        }
    }
    let mut rng = Rng::from_seed(seed);
    let mut topology = make(head, &mut options, &mut rng)?;
    if let Some(count) = take(&mut options, "top")? {
        topology = topology.top(count);
    }
    match options.remove("part") {
        None => {}
        Some("largest") => topology = topology.induced(&topology.largest_part()),
        Some(other) => return Err(wrong(format!("part={other}: expected `largest`"))),
    }
    match options.remove("relationships") {
        None => {}
        Some("hierarchy") => hierarchy::assign(&mut topology),
        Some("none") => hierarchy::forget(&mut topology),
        Some(other) => return Err(wrong(format!("relationships={other}: expected `hierarchy` or `none`"))),
    }
    match options.first_key_value() {
        Some((name, _)) => Err(wrong(format!("`{name}` is no option of `{head}`"))),
        None => Ok(topology),
    }
}

fn make(head: &str, options: &mut Options<'_>, rng: &mut Rng) -> Result<Topology, TopologyError> {
    let (name, argument) = match head.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (head, None),
    };
    let nodes = |most: usize| -> Result<usize, TopologyError> {
        let text = argument.ok_or_else(|| wrong(format!("`{name}`: expected `{name}:N`")))?;
        in_range(name, text, 1, most)
    };
    Ok(match name {
        "line" => regular::line(nodes(Topology::MOST_NODES)?),
        "ring" => regular::ring(nodes(Topology::MOST_NODES)?),
        "star" => regular::star(nodes(Topology::MOST_NODES)?),
        // So many that their links are not more than a topology may have.
        "mesh" => regular::mesh(nodes((2 * Topology::MOST_LINKS).isqrt())?),
        "grid" => {
            let (width, height) = argument
                .and_then(|a| a.split_once('x'))
                .ok_or_else(|| wrong(format!("`{head}`: expected `grid:WxH`")))?;
            let width = in_range(name, width, 1, Topology::MOST_NODES)?;
            let height = in_range(name, height, 1, Topology::MOST_NODES / width)?;
            regular::grid(width, height)
        }
        "waxman" => {
            let count = nodes(MOST_WAXMAN_NODES)?;
            let degree = degree(options, 2, count)?;
            let alpha = between(options, "alpha", 0.15, 0.0, 1.0)?;
            let beta = between(options, "beta", 0.2, 0.0, 1.0)?;
            waxman::waxman(count, degree, alpha, beta, bandwidth(options)?, rng)
        }
        "ba" => {
            let count = nodes(Topology::MOST_NODES)?;
            let degree = degree(options, 2, count)?;
            preferential::barabasi_albert(count, degree, bandwidth(options)?, rng)
        }
        "glp" => {
            let count = nodes(Topology::MOST_NODES)?;
            let p = between(options, "p", 0.45, -1.0, 0.9)?;
            // Steps that add links come in p / (1 - p) of those that add nodes, at most nine.
            let degree = degree(options, 1, count * 10)?;
            let beta = between(options, "glp-beta", 0.64, -100.0, 0.95)?;
            preferential::glp(count, degree, p, beta, bandwidth(options)?, rng)
        }
        "thesis" => {
            let count = match argument {
                Some(text) => in_range(name, text, thesis::LEAST_THESIS_NODES, Topology::MOST_LINKS / 16)?,
                None => thesis::THESIS_NODES,
            };
            thesis::thesis(count, rng)
        }
        _ => file::read(Path::new(head))?,
    })
}

fn wrong(text: String) -> TopologyError {
    TopologyError::Spec(text)
}

fn in_range(name: &str, text: &str, least: usize, most: usize) -> Result<usize, TopologyError> {
    let number = text.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| wrong(format!("`{name}:{text}`: expected a number from {least} to {most}")))
}

fn take<T: FromStr>(options: &mut Options<'_>, name: &str) -> Result<Option<T>, TopologyError> {
    let Some(text) = options.remove(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| wrong(format!("{name}={text}: expected a number")))
}

fn limited<T: FromStr + PartialOrd + Display + Copy>(
    options: &mut Options<'_>,
    name: &str,
    default: T,
    is_good: impl Fn(T) -> bool,
    range: impl FnOnce() -> String,
) -> Result<T, TopologyError> {
    let value = take(options, name)?.unwrap_or(default);
    if is_good(value) { Ok(value) } else { Err(wrong(format!("{name}={value}: expected {}", range()))) }
}

fn between(
    options: &mut Options<'_>,
    name: &str,
    default: f64,
    above: f64,
    most: f64,
) -> Result<f64, TopologyError> {
    let is_good = |value| value > above && value <= most;
    limited(options, name, default, is_good, || format!("a number above {above} and not above {most}"))
}

/// Links of each newcomer; `count` nodes with so many must not be more than a topology may have.
fn degree(options: &mut Options<'_>, default: usize, count: usize) -> Result<usize, TopologyError> {
    let most = MOST_DEGREE.min(Topology::MOST_LINKS / count.max(1));
    limited(
        options,
        "m",
        default.min(most),
        |m| (1..=most).contains(&m),
        || format!("a number from 1 to {most}"),
    )
}

fn bandwidth(options: &mut Options<'_>) -> Result<Bandwidth, TopologyError> {
    const MEGABIT: u64 = 1_000_000;
    let mut megabits = |name, default| -> Result<u64, TopologyError> {
        let is_good = |value| (1..=1_000_000_000).contains(&value);
        limited(options, name, default, is_good, || "Mbit/s, at least 1".into())
            .map(|value: u64| value * MEGABIT)
    };
    let (low, high) = (megabits("bw-min", 10)?, megabits("bw-max", 1024)?);
    Ok(match options.remove("bw") {
        None | Some("uniform") => Bandwidth::Uniform(low, high),
        Some("const") => Bandwidth::Constant(low),
        Some("exp") => Bandwidth::Exponential(low, high),
        Some("pareto") => Bandwidth::HeavyTailed(low, high),
        Some(other) => {
            return Err(wrong(format!("bw={other}: expected `const`, `uniform`, `exp` or `pareto`")));
        }
    })
}
