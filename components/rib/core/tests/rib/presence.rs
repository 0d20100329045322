//! Watches of presence: whatever happens, watchers know what a plain look-up returns, and are notified of changes only.

use crate::bench::Bench;
use proptest::prelude::*;
use sluice_base::{AnyPrefix, Instant, IpPrefix, TableId};
use sluice_machine::{Outbox, Request};
use sluice_rib::presence::{MAX_WATCHES, TooManyWatches};
use sluice_rib::request::WatchPresence;
use sluice_rib::view::PageQuery;
use sluice_rib::{Input, Output, Presence, WatcherId};
use std::collections::BTreeMap;

const ORIGINS: [(&str, u8, bool); 3] = [("static", 1, false), ("bgp", 20, true), ("ospf", 110, false)];

fn watch(
    bench: &mut Bench,
    watcher: u32,
    prefixes: Vec<IpPrefix>,
    except: Option<&str>,
) -> Result<Vec<Option<bool>>, TooManyWatches> {
    let watcher = WatcherId(watcher);
    let request = WatchPresence { table: TableId::MAIN, watcher, prefixes, except: except.map(String::from) };
    request.make(&mut bench.rib, Instant::ZERO, &mut Outbox::new())
}

fn prefix(n: u8) -> IpPrefix {
    ["20.0.0.0/8", "20.0.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0"][usize::from(n % 5)].parse().unwrap()
}

/// Returns true if a plain look at the table shows a route.
fn is_present(bench: &Bench, prefix: AnyPrefix, except: Option<&str>) -> bool {
    let query = PageQuery { within: None, exact: Some(prefix), origin: None, after: None, limit: 100 };
    let (routes, _) = bench.rib.routes(TableId::MAIN, prefix.family(), &query);
    routes.iter().any(|route| match except {
        None => route.selected,
        Some(name) => route.origin != name && route.resolved.is_some(),
    })
}

#[derive(Clone, Debug)]
enum Op {
    Set(usize, u8, u8),
    Delete(usize, u8),
    Interface(u32, bool),
    Restart(usize),
    Refreshed(usize),
    Watch(u32, u8, bool),
    Unwatch(u32, u8, bool),
    Died(u32),
    OriginsKnown,
}

fn op() -> impl Strategy<Value = Op> {
    let origin = || 0..ORIGINS.len();
    let watcher = || 1u32..4;
    prop_oneof![
        8 => (origin(), any::<u8>(), any::<u8>()).prop_map(|(o, p, g)| Op::Set(o, p, g)),
        5 => (origin(), any::<u8>()).prop_map(|(o, p)| Op::Delete(o, p)),
        2 => (1u32..3, any::<bool>()).prop_map(|(i, up)| Op::Interface(i, up)),
        1 => origin().prop_map(Op::Restart),
        1 => origin().prop_map(Op::Refreshed),
        5 => (watcher(), any::<u8>(), any::<bool>()).prop_map(|(w, p, all)| Op::Watch(w, p, all)),
        1 => (watcher(), any::<u8>(), any::<bool>()).prop_map(|(w, p, all)| Op::Unwatch(w, p, all)),
        1 => watcher().prop_map(Op::Died),
        1 => Just(Op::OriginsKnown),
    ]
}

/// The watched states, as watchers know them.
type Known = BTreeMap<(u32, AnyPrefix, Option<String>), Option<bool>>;

fn receive(bench: &mut Bench, known: &mut Known) {
    for output in bench.outputs.drain(..) {
        let Output::Presence(watcher, TableId::MAIN, changes) = output else { continue };
        assert!(!changes.is_empty());
        for Presence { prefix, except, is_present } in changes {
            let state = known.get_mut(&(watcher.0, prefix, except)).expect("it is watched");
            assert_ne!(*state, Some(is_present), "it was reported before");
            *state = Some(is_present);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn watchers_know_what_a_look_shows(ops in prop::collection::vec(op(), 1..60)) {
        let mut bench = Bench::new();
        for (name, distance, external) in ORIGINS {
            bench.origin(name, distance, external);
        }
        let (mut known, mut are_origins_known) = (Known::new(), false);
        for op in ops {
            let name = |n: usize| ORIGINS[n].0;
            let except = |all: bool| (!all).then_some("bgp");
            match op {
                Op::Set(origin, n, gateway) => match prefix(n) {
                    IpPrefix::V4(p) => bench.set(name(origin), &p.to_string(), ["10.0.0.2", "10.0.1.2", "20.0.0.1"][usize::from(gateway % 3)]),
                    IpPrefix::V6(p) => bench.set6(name(origin), &p.to_string(), ["2001:db8::2", "2001:db8:0:1::2"][usize::from(gateway % 2)]),
                },
                Op::Delete(origin, n) => match prefix(n) {
                    IpPrefix::V4(p) => bench.delete(name(origin), &p.to_string()),
                    IpPrefix::V6(p) => bench.delete6(name(origin), &p.to_string()),
                },
                Op::Interface(index, up) => bench.interface(index, up),
                Op::Restart(n) => {
                    bench.input(Input::OriginDied(TableId::MAIN, name(n).into()));
                    bench.origin(name(n), ORIGINS[n].1, ORIGINS[n].2);
                }
                Op::Refreshed(n) => bench.input(Input::EndOfRefresh(TableId::MAIN, name(n).into())),
                Op::Watch(watcher, n, all) => {
                    let states = watch(&mut bench, watcher, vec![prefix(n)], except(all)).unwrap();
                    let key = (watcher, AnyPrefix::from(prefix(n)), except(all).map(String::from));
                    known.insert(key, states[0]);
                }
                Op::Unwatch(watcher, n, all) => {
                    let (prefix, except) = (AnyPrefix::from(prefix(n)), except(all).map(String::from));
                    known.remove(&(watcher, prefix, except.clone()));
                    bench.input(Input::UnwatchPresence(TableId::MAIN, WatcherId(watcher), prefix, except));
                }
                Op::Died(watcher) => {
                    known.retain(|(of, _, _), _| *of != watcher);
                    bench.input(Input::WatcherDied(WatcherId(watcher)));
                }
                Op::OriginsKnown => {
                    are_origins_known = true;
                    bench.input(Input::OriginsKnown);
                }
            }
            receive(&mut bench, &mut known);
            for ((_, prefix, except), state) in &known {
                let is_present = is_present(&bench, *prefix, except.as_deref());
                // An absence is not reported before all origins had their time.
                if is_present || are_origins_known {
                    prop_assert_eq!(*state, Some(is_present), "{} except {:?}", prefix, except);
                }
            }
        }
    }
}

#[test]
fn no_absence_is_reported_before_origins_had_their_time() {
    let mut bench = Bench::new();
    bench.origin("static", 1, false);
    let net: IpPrefix = "20.0.0.0/8".parse().unwrap();
    assert_eq!(watch(&mut bench, 1, vec![net], None), Ok(vec![None]));
    bench.set("static", "20.0.0.0/8", "10.0.0.2");
    bench.delete("static", "20.0.0.0/8");
    let reported = |bench: &mut Bench| -> Vec<bool> {
        let outputs = bench.outputs.drain(..);
        let presences = outputs.filter_map(|output| match output {
            Output::Presence(_, _, changes) => Some(changes[0].is_present),
            _ => None,
        });
        presences.collect()
    };
    assert_eq!(reported(&mut bench), [true]);
    bench.input(Input::OriginsKnown);
    assert_eq!(reported(&mut bench), [false]);
    assert_eq!(watch(&mut bench, 2, vec![net], Some("bgp")), Ok(vec![Some(false)]));
}

#[test]
fn a_watcher_has_no_more_watches_than_allowed() {
    let mut bench = Bench::new();
    let nets = |from: u32, to: u32| -> Vec<IpPrefix> {
        (from..to).map(|n| format!("20.{}.{}.0/24", n / 256, n % 256).parse().unwrap()).collect()
    };
    let most = MAX_WATCHES as u32;
    assert!(watch(&mut bench, 1, nets(0, most), None).is_ok());
    assert_eq!(watch(&mut bench, 1, nets(most, most + 1), None), Err(TooManyWatches));
    // A prefix that is watched already is no further watch, and other watchers have their own.
    assert!(watch(&mut bench, 1, nets(0, 1), None).is_ok());
    assert!(watch(&mut bench, 2, nets(most, most + 1), None).is_ok());
    bench.input(Input::WatcherDied(WatcherId(1)));
    assert!(watch(&mut bench, 1, nets(0, most), Some("bgp")).is_ok());
}
