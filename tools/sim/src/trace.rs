//! The input of chosen routers, as an MRT trace with virtual times (RFC 6396).

use crate::network;
use crate::world::Tap;
use sluice_base::Asn;
use sluice_mrt::{Addresses, Session, Writer};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Octets of a BGP header, and the offset of the message's length.
const HEADER: usize = 19;
const LENGTH_AT: usize = 16;

struct Recorder<W> {
    out: W,
    writer: Writer,
    messages: u64,
    /// The first error; no record is written after an error.
    error: Option<io::Error>,
}

/// A trace in progress.
pub struct Trace<W = BufWriter<File>>(Arc<Mutex<Recorder<W>>>);

impl Trace {
    /// A trace in a file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Trace::new(BufWriter::new(File::create(path)?)))
    }
}

impl<W: Write + Send + 'static> Trace<W> {
    /// A trace into `out`.
    pub fn new(out: W) -> Self {
        let recorder = Recorder { out, writer: Writer::with_microseconds(), messages: 0, error: None };
        Trace(Arc::new(Mutex::new(recorder)))
    }

    /// Returns a tap that records the input of the given routers.
    pub fn tap(&self, vantage: BTreeSet<u32>) -> Tap {
        let recorder = Arc::clone(&self.0);
        Box::new(move |now, node, local_as, neighbor, peer_as, octets| {
            if vantage.contains(&node)
                && let Ok(mut recorder) = recorder.lock()
            {
                recorder.messages(now / 1000, local_as, neighbor, peer_as, octets);
            }
        })
    }

    /// Flushes the trace; returns the number of messages.
    pub fn finish(self) -> io::Result<u64> {
        let mut recorder = self.0.lock().map_err(|_| io::Error::other("a run ended in the middle"))?;
        match recorder.error.take() {
            Some(error) => Err(error),
            None => {
                recorder.out.flush()?;
                Ok(recorder.messages)
            }
        }
    }
}

impl<W: Write> Recorder<W> {
    fn messages(&mut self, micros: u64, local_as: Asn, neighbor: IpAddr, peer_as: Asn, mut octets: &[u8]) {
        let own = network::place(neighbor).map(|(link, side)| network::ipv4(link, 1 - side).into());
        let Some(addresses) = own.and_then(|own| Addresses::new(neighbor, own)) else { return };
        let session = Session { peer_as, local_as, interface: 0, addresses };
        while self.error.is_none() && octets.len() >= HEADER {
            let len = usize::from(u16::from_be_bytes([octets[LENGTH_AT], octets[LENGTH_AT + 1]]));
            let Some((message, rest)) = octets.split_at_checked(len.max(HEADER)) else { return };
            octets = rest;
            self.messages += 1;
            let written = self.writer.message(micros, &session, message).map_err(io::Error::other);
            let taken = self.writer.take();
            self.error = written.and_then(|()| self.out.write_all(&taken)).err();
        }
    }
}
