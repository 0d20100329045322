//! The queue of malformed UPDATEs from readers to stations (Route Mirroring, RFC 7854, section 4.7). Readers are on many threads
//! and wait for no station: a station that falls behind is notified of lost messages.

use sluice_bgp::bmp::MirroredMessages;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::broadcast::{self, Receiver, Sender};

/// The most reads with malformed UPDATEs that wait for a station.
const MOST_WAITING: usize = 256;

/// The channel from readers to stations.
pub struct Mirror {
    messages: Sender<Arc<MirroredMessages>>,
    /// The number of stations with mirroring.
    stations: Arc<AtomicUsize>,
}

impl Default for Mirror {
    fn default() -> Self {
        Mirror { messages: broadcast::channel(MOST_WAITING).0, stations: Arc::default() }
    }
}

impl Mirror {
    /// Returns true if a station is sent malformed UPDATEs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.stations.load(Ordering::Relaxed) > 0
    }

    /// Sends messages to the stations.
    pub fn push(&self, messages: MirroredMessages) {
        // Without a station nobody wants the messages.
        let _ = self.messages.send(Arc::new(messages));
    }

    /// Begins to keep messages for a station.
    pub fn subscribe(&self) -> Mirrored {
        self.stations.fetch_add(1, Ordering::Relaxed);
        Mirrored { messages: self.messages.subscribe(), stations: Arc::clone(&self.stations) }
    }
}

/// The messages for a station.
pub struct Mirrored {
    /// The messages, in order.
    pub messages: Receiver<Arc<MirroredMessages>>,
    stations: Arc<AtomicUsize>,
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        self.stations.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_bgp::shard::PeerIndex;
    use tokio::sync::broadcast::error::TryRecvError;

    #[test]
    fn messages_are_kept_while_a_station_wants_them() {
        let mirror = Mirror::default();
        let messages = |since_1970| MirroredMessages {
            peer: PeerIndex(1),
            epoch: 1,
            since_1970,
            four_octet_as: true,
            messages: Vec::new(),
        };
        mirror.push(messages(0));
        assert!(!mirror.is_on());
        let mut mirrored = mirror.subscribe();
        assert!(mirror.is_on());
        assert!(mirrored.messages.try_recv().is_err());
        for number in 0..MOST_WAITING as u64 + 3 {
            mirror.push(messages(number));
        }
        assert_eq!(mirrored.messages.try_recv(), Err(TryRecvError::Lagged(3)));
        assert_eq!(mirrored.messages.try_recv().map(|m| m.since_1970), Ok(3));
        drop(mirrored);
        assert!(!mirror.is_on());
    }
}
