//! The functions of the thesis's table 4.2, each as the difference between two passes over the whole feed. A clock
//! around every function of every message would cost more than the functions.

use crate::clock::time;
use crate::feed::Feed;
use crate::speaker;
use crate::table::{Session, Way};
use anyhow::{Result, anyhow, ensure};
use bench_report::median;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Barrier;

/// Octets that the router reads at a time.
pub const PIECE: usize = 65_536;

/// A function, with the paper's cycles in an UPDATE: sequential, by PBTS with 12 threads, and how many times as fast that is.
pub struct Function {
    /// The pass's name.
    pub name: &'static str,
    /// The thesis's table 4.2.
    pub paper: (f64, f64, f64),
}

/// In the order of [`Profile::ns`].
pub const FUNCTIONS: [Function; 6] = [
    Function { name: "header read", paper: (4176.6, 397.7, 10.5) },
    Function { name: "header parse", paper: (58.9, 5.1, 11.6) },
    Function { name: "payload read", paper: (1087.2, 135.3, 8.0) },
    Function { name: "payload parse", paper: (1123.1, 139.7, 8.0) },
    Function { name: "table update", paper: (272.8, 26.2, 10.4) },
    Function { name: "housekeeping", paper: (1857.0, 198.5, 9.4) },
];

/// Nanoseconds in an UPDATE, function by function.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Times in the order of [`FUNCTIONS`]; `None`: not a separate step.
    pub ns: [Option<f64>; 6],
}

/// Profiles one thread with its own session and table.
///
/// Header and payload are read by a single call into a single buffer, so that a separate header read does not exist.
pub fn sequential(feed: &Feed, runs: usize) -> Result<Profile> {
    let mut all: [Vec<f64>; 5] = Default::default();
    for _ in 0..runs {
        for (pass, ns) in all.iter_mut().zip(once(feed)?) {
            pass.push(ns);
        }
    }
    Ok(profile(&all, feed.updates))
}

/// Profiles the given number of parallel threads, each with its own session, feed and table; returns the mean.
pub fn parallel(feed: &Feed, runs: usize, threads: usize) -> Result<Profile> {
    let barrier = Barrier::new(threads);
    let mut all: [Vec<f64>; 5] = Default::default();
    for _ in 0..runs {
        let each: Result<Vec<[f64; 5]>> = std::thread::scope(|scope| {
            let work = || {
                barrier.wait();
                once(feed)
            };
            let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            started.into_iter().map(|t| t.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
        });
        let each = each?;
        for (pass, times) in all.iter_mut().enumerate() {
            times.push(each.iter().map(|passes| passes[pass]).sum::<f64>() / threads as f64);
        }
    }
    Ok(profile(&all, feed.updates))
}

fn profile(all: &[Vec<f64>; 5], updates: usize) -> Profile {
    let [read, frame, parse, update, speaker] = all.each_ref().map(|times| median(times) / updates as f64);
    Profile {
        ns: [
            None,
            Some(frame),
            Some(read),
            Some(parse - frame),
            Some(update - parse),
            // A difference of two measurements: where it is less than those differ from run to run, it may be negative.
            Some(speaker - update),
        ],
    }
}

/// The five passes: reading from TCP; framing; framing and parsing; both and the tables; the whole speaker, with its
/// session.
fn once(feed: &Feed) -> Result<[f64; 5]> {
    let read = over_tcp(feed, PIECE, |_| Ok(()))?;
    let mut session = Session::new(Way::default(), 0);
    let frame = time(|| {
        let mut count = 0;
        for piece in feed.octets.chunks(PIECE) {
            count += session.frame(piece)?;
        }
        ensure!(count == feed.updates, "{count} of {} UPDATEs", feed.updates);
        Ok(())
    })?;
    let parse = time(|| feed.octets.chunks(PIECE).try_for_each(|piece| session.read(piece, false)))?;
    let mut session = Session::new(Way::default(), 0);
    let update = time(|| {
        feed.octets.chunks(PIECE).try_for_each(|piece| session.read(piece, true))?;
        session.finish();
        Ok(())
    })?;
    ensure!(session.prefixes() > 0, "no route arrived in the table");
    drop(session);
    Ok([read, frame, parse, update, speaker::receive(feed, PIECE)?])
}

/// Reads a feed from a TCP connection on the loopback, `piece` octets at a time, and has each piece worked on; the processor time of
/// the reading thread.
pub fn over_tcp(feed: &Feed, piece: usize, mut work: impl FnMut(&[u8]) -> Result<()>) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || writer.write_all(&feed.octets));
        let mut buffer = vec![0; piece];
        let ns = time(|| {
            loop {
                match reader.read(&mut buffer)? {
                    0 => return Ok(()),
                    read => work(&buffer[..read])?,
                }
            }
        });
        writing.join().map_err(|_| anyhow!("the writing thread panicked"))??;
        ns
    })
}
