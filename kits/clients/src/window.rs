//! A limit on requests in flight.

/// Counts sent and unanswered requests, up to a limit.
#[derive(Clone, Debug)]
pub struct Window {
    in_flight: u32,
    limit: u32,
}

impl Window {
    /// Returns an empty window for `limit` requests, at least one.
    pub const fn new(limit: u32) -> Self {
        Window { in_flight: 0, limit }
    }

    /// Returns true if a further request may be sent.
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.limit
    }

    /// Returns true if every request was answered.
    pub const fn is_empty(&self) -> bool {
        self.in_flight == 0
    }

    /// The number of requests in flight.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Counts a sent request.
    pub const fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// Counts an answer. A surplus answer, from an ended life of the target, is ignored.
    pub const fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Forgets the requests in flight: the target died.
    pub const fn clear(&mut self) {
        self.in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_full_at_its_limit_and_empty_after_a_death() {
        let mut window = Window::new(2);
        window.sent();
        assert!(window.has_room() && !window.is_empty());
        window.sent();
        assert!(!window.has_room());
        window.answered();
        assert!(window.has_room());
        window.clear();
        window.answered();
        assert!(window.is_empty() && window.in_flight() == 0);
    }
}
