//! A link in operation: delay, bandwidth, loss, reordering, duplication; cut and healed.

use super::queue::Event;
use crate::network;
use sluice_base::Rng;

/// The least delay beyond a round trip after which TCP retransmits a lost segment (RFC 6298, section 2.4, as in
/// Linux).
const RETRANSMISSION: u64 = 200_000_000;
const BILLION: u128 = 1_000_000_000;

/// The faults of a link, in millionths of the octets sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quality {
    /// Share of lost octets; on a TCP connection, lost octets arrive late.
    pub loss: u32,
    /// Share of reordered octets; on a TCP connection, later octets wait for the overtaken octets.
    pub reorder: u32,
    /// Delivered twice: TCP drops the copy.
    pub duplicate: u32,
}

/// A link.
pub struct Link {
    /// The travel time of an octet, in nanoseconds.
    pub delay: u64,
    /// Octets a second; 0 for no limit.
    bandwidth: u64,
    /// The cost of static routes over the link.
    pub cost: u32,
    /// The link's faults.
    pub quality: Quality,
    /// True if the link is cut in the middle, where neither router notices the cut.
    pub cut: bool,
    /// True if the routers see a carrier.
    pub carrier: bool,
    /// The time when each direction has sent its waiting octets.
    free_at: [u64; 2],
    /// Arrivals held up by a cut, which TCP retransmits.
    pub stalled: Vec<Event>,
}

impl Link {
    /// Returns a link from its description.
    pub fn new(link: &network::Link) -> Self {
        Link {
            delay: link.delay,
            bandwidth: link.bandwidth,
            cost: link.cost,
            quality: Quality::default(),
            cut: false,
            carrier: true,
            free_at: [0; 2],
            stalled: Vec::new(),
        }
    }

    /// Returns true if octets get from one end to the other.
    pub const fn is_up(&self) -> bool {
        !self.cut && self.carrier
    }

    /// Returns the arrival time of `octets` that are sent at `now` from `side` on a TCP connection.
    pub fn arrival(&mut self, now: u64, side: usize, octets: usize, rng: &mut Rng) -> u64 {
        let mut at = now;
        if self.bandwidth > 0 {
            let time = (octets as u128 * BILLION / u128::from(self.bandwidth)) as u64;
            self.free_at[side] = self.free_at[side].max(now) + time;
            at = self.free_at[side];
        }
        at += self.delay;
        let Quality { loss, reorder, .. } = self.quality;
        if loss > 0 && rng.below(1_000_000) < u64::from(loss) {
            at += RETRANSMISSION + 2 * self.delay;
        }
        if reorder > 0 && rng.below(1_000_000) < u64::from(reorder) {
            at += rng.below(self.delay + 1);
        }
        at
    }

    /// Returns the arrival time of each copy of a datagram of `octets` sent at `now` from `side`; empty if the
    /// datagram is lost.
    pub fn datagram(&mut self, now: u64, side: usize, octets: usize, rng: &mut Rng) -> [Option<u64>; 2] {
        let quality = std::mem::take(&mut self.quality);
        let at = self.arrival(now, side, octets, rng);
        self.quality = quality;
        let mut chance = |millionths: u32| millionths > 0 && rng.below(1_000_000) < u64::from(millionths);
        if !self.is_up() || chance(quality.loss) {
            return [None, None];
        }
        let twice = chance(quality.duplicate);
        let late = if chance(quality.reorder) { rng.below(2 * self.delay + 1) } else { 0 };
        [Some(at + late), twice.then_some(at)]
    }

    /// Returns the time when the held-up octets are retransmitted, after the link's repair.
    pub const fn again(&self, now: u64) -> u64 {
        now + RETRANSMISSION + self.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(bandwidth: u64) -> Link {
        Link::new(&network::Link { bandwidth, ..network::Link::new(0, 1, 1000) })
    }

    #[test]
    fn octets_wait_for_those_before_them() {
        let (mut link, mut rng) = (link(1_000_000_000), Rng::from_seed(1));
        assert_eq!(link.arrival(0, 0, 500, &mut rng), 1500);
        assert_eq!(link.arrival(0, 0, 500, &mut rng), 2000);
        // The other direction is free.
        assert_eq!(link.arrival(0, 1, 500, &mut rng), 1500);
    }

    #[test]
    fn datagrams_are_lost_late_and_twice() {
        let (mut link, mut rng) = (link(0), Rng::from_seed(1));
        assert_eq!(link.datagram(0, 0, 100, &mut rng), [Some(1000), None]);
        link.quality = Quality { loss: 300_000, reorder: 300_000, duplicate: 300_000 };
        let all: Vec<_> = (0..1000).map(|_| link.datagram(0, 0, 100, &mut rng)).collect();
        let share = |wanted: fn(&[Option<u64>; 2]) -> bool| all.iter().filter(|d| wanted(d)).count();
        assert!((200..400).contains(&share(|d| d[0].is_none())));
        assert!((100..350).contains(&share(|d| d[1].is_some())));
        assert!((100..350).contains(&share(|d| d[0].is_some_and(|at| at > 1000))));
        link.cut = true;
        assert_eq!(link.datagram(0, 0, 100, &mut rng), [None, None]);
    }
}
