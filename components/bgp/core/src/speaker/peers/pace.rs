//! MinRouteAdvertisementInterval (RFC 4271, section 9.2.1.1): control's timers of the peers that tables hold back.

use super::registry::Peers;
use crate::session::jittered;
use crate::shard::PeerIndex;
use crate::speaker::messages::Output;
use crate::table::{Order, SessionEpoch};
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

impl Peers {
    /// A table holds back what comes for a peer: begins the interval. Jitter keeps many routers from advertising at the same times
    /// (section 10).
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        table: usize,
        (peer, life): (PeerIndex, SessionEpoch),
        out: &mut Outbox<Output>,
    ) {
        let known = self.peer_mut(peer).filter(|known| known.life == Some(life));
        match known.map_or(0, |known| known.config.advertisement_interval) {
            0 => out.push(Output::Order(Some(table), Order::Release(peer, life))),
            seconds => {
                let interval = jittered(Duration::from_secs(seconds.into()), &mut self.rng);
                self.releases.insert((now + interval, table, peer, life));
            }
        }
    }

    /// Ends intervals.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while let Some((at, table, peer, life)) = self.releases.first().copied()
            && at <= now
        {
            self.releases.pop_first();
            out.push(Output::Order(Some(table), Order::Release(peer, life)));
        }
    }
}
