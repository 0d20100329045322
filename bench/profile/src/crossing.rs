//! The cost of passing data between threads, and in and out of the kernel.

use crate::clock::now;
use crate::passes::PIECE as READ;
use anyhow::{Result, anyhow};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Octets that are written at a time.
const PIECE: usize = 32_768;
/// Octets before the content repeats.
const AHEAD: usize = 64 << 20;
/// Number of exchanged messages.
const MESSAGES: usize = 40_000;
/// Messages sent without waiting for answers.
const BURST: usize = 64;

/// Processor time of a message from thread to thread, in seconds, of both threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageCost {
    /// The receiver is awake, with further waiting work.
    pub awake: f64,
    /// The receiver sleeps, and the sender sleeps until the answer.
    pub asleep: f64,
}

/// Cost of an octet of a TCP connection, in seconds, for the reader and for the writer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpCost {
    /// Reading 64 KiB at a time.
    pub read: f64,
    /// The cost of writing 32 KiB at a time; within a machine, the writer does much of the kernel's work for
    /// receiving.
    pub write: f64,
}

/// Messages between two threads with a runtime each, as in the process.
///
/// # Errors
/// If a runtime cannot be made.
pub fn messages() -> Result<MessageCost> {
    Ok(MessageCost { awake: exchange(BURST)?, asleep: exchange(1)? })
}

type Ends<T> = (UnboundedSender<T>, UnboundedReceiver<T>);

fn exchange(burst: usize) -> Result<f64> {
    let (to, mut there): Ends<[usize; 8]> = unbounded_channel();
    let (back, mut here): Ends<[usize; 8]> = unbounded_channel();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || -> Result<f64> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let begin = now()?;
            runtime.block_on(async {
                while let Some(message) = there.recv().await {
                    if message[0].is_multiple_of(burst) {
                        let _ = back.send(message);
                    }
                }
            });
            Ok(now()? - begin)
        });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let begin = now()?;
        runtime.block_on(async {
            for number in 1..=MESSAGES {
                let _ = to.send([number; 8]);
                if number.is_multiple_of(burst) {
                    here.recv().await;
                }
            }
        });
        let own = now()? - begin;
        drop(to);
        let others = other.join().map_err(|_| anyhow!("the other thread panicked"))??;
        let messages = MESSAGES + MESSAGES / burst;
        Ok((own + others) / 1e9 / messages as f64)
    })
}

/// A connection on the loopback with the given number of octets.
///
/// # Errors
/// If there is no loopback.
pub fn tcp(octets: usize) -> Result<TcpCost> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || -> Result<f64> {
            // More than fits a cache: pieces come from another thread.
            let source = vec![0x5a; AHEAD];
            let begin = now()?;
            for piece in source.chunks(PIECE).cycle().take(octets / PIECE) {
                writer.write_all(piece)?;
            }
            Ok(now()? - begin)
        });
        let mut buffer = vec![0; READ];
        let begin = now()?;
        let mut read = 0;
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                more => read += more,
            }
        }
        let own = now()? - begin;
        let others = writing.join().map_err(|_| anyhow!("the writing thread panicked"))??;
        let each = |ns: f64| ns / 1e9 / read.max(1) as f64;
        Ok(TcpCost { read: each(own), write: each(others) })
    })
}
