//! The parameters of flap damping (RFC 2439) in a shard: the router's, and the choices of policies for routes (RFC 2439, section
//! 4.2).
//!
//! A history has the number of its parameters. Equal parameters have one number, which is free after the last history.

use super::decay::{FRACTION, decayed};
use super::rules::{DampingRules, HIGHEST};
use alloc::vec::Vec;
use sluice_policy::source::Damping;

/// The number of parameters.
pub(crate) type ProfileId = u16;

/// The number of the router's parameters.
pub(crate) const ROUTERS: ProfileId = 0;

/// The parameters for the history of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice<'a> {
    /// The history's parameters; the router's for a new history.
    Known,
    /// The router's.
    Routers,
    /// The parameters chosen by policy.
    By(&'a Damping),
}

/// Parameters in the units of the arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Figures {
    /// In tenths of a second.
    pub half_life: u32,
    pub reuse: u32,
    pub suppress: u32,
    pub ceiling: u32,
}

impl Figures {
    pub fn of(rules: &DampingRules) -> Self {
        Figures {
            half_life: u32::from(rules.half_life.max(1)) * 600,
            reuse: rules.reuse.min(HIGHEST) << FRACTION,
            suppress: rules.suppress.min(HIGHEST) << FRACTION,
            ceiling: rules.ceiling() << FRACTION,
        }
    }

    /// Returns a penalty after a time in tenths of a second.
    pub fn decayed(&self, penalty: u32, time: u32) -> u32 {
        decayed(penalty, time, self.half_life)
    }
}

/// Parameters that a policy chose.
#[derive(Debug)]
struct Profile {
    damping: Damping,
    figures: Figures,
    /// The number of histories with these parameters; 0 for a free place.
    histories: u32,
}

/// The parameters of a shard.
#[derive(Debug)]
pub(crate) struct Profiles {
    routers: Figures,
    /// By number, from 1 on.
    chosen: Vec<Profile>,
}

impl Profiles {
    pub fn new(rules: &DampingRules) -> Self {
        Profiles { routers: Figures::of(rules), chosen: Vec::new() }
    }

    /// Sets the router's parameters.
    pub fn set_routers(&mut self, rules: &DampingRules) {
        self.routers = Figures::of(rules);
    }

    fn chosen(&self, id: ProfileId) -> Option<&Profile> {
        self.chosen.get(usize::from(id).checked_sub(1)?)
    }

    /// Returns the parameters of a number.
    pub fn figures(&self, id: ProfileId) -> Figures {
        self.chosen(id).map_or(self.routers, |profile| profile.figures)
    }

    /// Returns the parameters of a number as configured; `None` for the router's.
    pub fn damping(&self, id: ProfileId) -> Option<&Damping> {
        self.chosen(id).map(|profile| &profile.damping)
    }

    /// Returns the number of the parameters for a further history. Without a free number, returns the number of the router's
    /// parameters.
    pub fn enter(&mut self, damping: Option<&Damping>) -> ProfileId {
        let Some(damping) = damping else { return ROUTERS };
        let known = self.chosen.iter().position(|known| known.histories > 0 && known.damping == *damping);
        let free = || self.chosen.iter().position(|known| known.histories == 0);
        let place = known.or_else(free).unwrap_or(self.chosen.len());
        let Some(id) = ProfileId::try_from(place + 1).ok() else { return ROUTERS };
        match (self.chosen.get_mut(place), known) {
            (Some(profile), Some(_)) => profile.histories += 1,
            (found, _) => {
                let figures = Figures::of(&DampingRules::by(damping));
                let profile = Profile { damping: damping.clone(), figures, histories: 1 };
                match found {
                    Some(free) => *free = profile,
                    None => self.chosen.push(profile),
                }
            }
        }
        id
    }

    /// Notes that a history no longer has the parameters of a number.
    pub fn leave(&mut self, id: ProfileId) {
        if let Some(profile) = usize::from(id).checked_sub(1).and_then(|place| self.chosen.get_mut(place)) {
            profile.histories -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn equal_parameters_have_one_number_as_long_as_a_history_has_it() {
        let mut profiles = Profiles::new(&DampingRules::DEFAULT);
        let named =
            |name: &str, half_life| Damping { name: name.to_string(), half_life, ..Damping::default() };
        let (quick, slow) = (named("quick", 2), named("slow", 40));
        assert_eq!(profiles.enter(None), ROUTERS);
        let [a, b] = [&quick, &slow].map(|damping| profiles.enter(Some(damping)));
        assert_eq!((profiles.enter(Some(&quick)), a == b), (a, false));
        assert_eq!((profiles.damping(a), profiles.damping(ROUTERS)), (Some(&quick), None));
        assert_eq!(profiles.figures(b).half_life, 40 * 600);
        profiles.leave(a);
        assert_eq!(profiles.enter(Some(&named("quick", 3))), 3, "the number of `quick` is in use");
        profiles.leave(a);
        profiles.leave(ROUTERS);
        assert_eq!(profiles.enter(Some(&named("other", 4))), a);
        assert_eq!(profiles.figures(ROUTERS), Figures::of(&DampingRules::DEFAULT));
    }
}
