//! Questions to the RIB about how next hops are reached.

use alloc::vec::Vec;
use sluice_base::{Address, AnyPrefix};

/// A change of the client's interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Asks how an address is reached.
    Register(Address),
    /// Returns the answer for a prefix: the answer is unused.
    Deregister(AnyPrefix),
}

/// The questions of a request. The RIB deregisters first: deregistered answers are of an earlier request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Answers to deregister.
    pub deregister: Vec<AnyPrefix>,
    /// Addresses to ask about.
    pub register: Vec<Address>,
}

/// The queue of questions, with one request in flight at a time.
///
/// The RIB invalidates an answer when the routes under it change. An invalidation that arrives while a request is in flight may
/// be newer or older than the answers to the request; the invalidation is applied again after the answers, so a late answer never survives.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    is_rib_alive: bool,
    queued: Vec<Question>,
    is_in_flight: bool,
    invalidated: Vec<AnyPrefix>,
}

impl Questions {
    /// Queues a question. Without a RIB the question is dropped: the client asks a new RIB everything again.
    pub fn ask(&mut self, question: Question) {
        if self.is_rib_alive {
            self.queued.push(question);
        }
    }

    /// Notes that a RIB is alive; later questions are queued.
    pub const fn rib_started(&mut self) {
        self.is_rib_alive = true;
    }

    /// Notes that the RIB died: queued questions and the request in flight are void.
    pub fn rib_died(&mut self) {
        *self = Questions::default();
    }

    /// Returns true if neither a question nor a request waits.
    pub const fn is_idle(&self) -> bool {
        self.queued.is_empty() && !self.is_in_flight
    }

    /// Returns the number of unsent questions.
    pub const fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Takes the queued questions as the next request; `None` without questions, or with a request in flight.
    pub fn next_request(&mut self) -> Option<Request> {
        if self.is_in_flight || self.queued.is_empty() {
            return None;
        }
        let mut request = Request::default();
        for question in self.queued.drain(..) {
            match question {
                Question::Register(address) => request.register.push(address),
                Question::Deregister(prefix) => request.deregister.push(prefix),
            }
        }
        // A request that only deregisters has no answers that an invalidation could overtake.
        self.is_in_flight = !request.register.is_empty();
        self.invalidated.clear();
        Some(request)
    }

    /// Notes that the RIB invalidated the answer for `prefix`.
    pub fn invalidated(&mut self, prefix: AnyPrefix) {
        if self.is_in_flight {
            self.invalidated.push(prefix);
        }
    }

    /// Notes that the request in flight was answered, or failed. Returns the invalidations to apply again after the answers.
    pub fn answered(&mut self) -> Vec<AnyPrefix> {
        self.is_in_flight = false;
        core::mem::take(&mut self.invalidated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use sluice_base::IpPrefix;

    fn address(text: &str) -> Address {
        Address::Ip(text.parse().unwrap())
    }

    fn prefix(text: &str) -> AnyPrefix {
        text.parse::<IpPrefix>().unwrap().into()
    }

    #[test]
    fn one_request_is_in_flight_and_deregistrations_go_first() {
        let mut questions = Questions::default();
        questions.rib_started();
        questions.ask(Question::Register(address("10.0.0.1")));
        questions.ask(Question::Deregister(prefix("10.1.0.0/16")));
        let request = questions.next_request().unwrap();
        assert_eq!(
            request,
            Request { deregister: vec![prefix("10.1.0.0/16")], register: vec![address("10.0.0.1")] }
        );
        questions.ask(Question::Register(address("10.0.0.2")));
        assert_eq!(questions.next_request(), None);
        questions.answered();
        assert!(questions.next_request().is_some());
    }

    #[test]
    fn an_invalidation_during_a_request_is_applied_again_after_the_answers() {
        let mut questions = Questions::default();
        questions.rib_started();
        questions.invalidated(prefix("10.0.0.0/8"));
        questions.ask(Question::Register(address("10.0.0.1")));
        questions.next_request().unwrap();
        questions.invalidated(prefix("10.0.0.0/24"));
        assert_eq!(questions.answered(), [prefix("10.0.0.0/24")]);
        assert_eq!(questions.answered(), []);
    }

    #[test]
    fn the_death_of_the_rib_voids_questions_and_the_request_in_flight() {
        let mut questions = Questions::default();
        questions.ask(Question::Register(address("10.0.0.1")));
        assert!(questions.is_idle(), "nobody is there to answer");
        questions.rib_started();
        questions.ask(Question::Register(address("10.0.0.1")));
        questions.next_request().unwrap();
        questions.ask(Question::Register(address("10.0.0.2")));
        questions.rib_died();
        assert!(questions.is_idle());
        questions.rib_started();
        questions.ask(Question::Register(address("10.0.0.1")));
        assert!(questions.next_request().is_some());
    }

    #[test]
    fn a_request_that_only_deregisters_is_not_waited_for() {
        let mut questions = Questions::default();
        questions.rib_started();
        questions.ask(Question::Deregister(prefix("10.1.0.0/16")));
        assert!(questions.next_request().is_some());
        questions.ask(Question::Register(address("10.0.0.2")));
        assert!(questions.next_request().is_some());
    }
}
