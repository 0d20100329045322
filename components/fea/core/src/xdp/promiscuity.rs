//! Interfaces that have to receive frames for all stations, because a program of the chain treats such frames.
//!
//! The FEA sets the interface's flag (`IFF_PROMISC`), which outlives the FEA as the program does, and notes in the interface's entry that
//! the flag is the FEA's. A flag that an operator has set stays.

/// The wish of the programs of the chain for an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promiscuity {
    /// A program needs frames for all stations.
    Wanted,
    /// Nobody knows yet: a program of an earlier FEA waits for its component.
    Kept,
    /// No program needs such frames.
    Unwanted,
}

/// The flag's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PromiscuityStep {
    /// The flag to set in the kernel, if it changes.
    pub set: Option<bool>,
    /// True if the flag is the FEA's afterwards.
    pub is_own: bool,
}

impl Promiscuity {
    /// Returns the change for an interface. `is_own` is true if an FEA set the flag; `is_on` asks the kernel for the flag, only if it matters.
    ///
    /// # Errors
    ///
    /// The error of `is_on`.
    pub fn step<E>(self, is_own: bool, is_on: impl Fn() -> Result<bool, E>) -> Result<PromiscuityStep, E> {
        let unchanged = PromiscuityStep { set: None, is_own };
        Ok(match self {
            Promiscuity::Wanted if is_on()? => unchanged,
            Promiscuity::Wanted => PromiscuityStep { set: Some(true), is_own: true },
            Promiscuity::Unwanted if is_own => {
                PromiscuityStep { set: is_on()?.then_some(false), is_own: false }
            }
            Promiscuity::Kept | Promiscuity::Unwanted => unchanged,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Promiscuity::*;
    use super::*;
    use core::convert::Infallible;

    #[test]
    fn the_flag_of_an_operator_stays() {
        let unused = || -> Result<bool, Infallible> { panic!("the kernel is not asked") };
        let after = |step: Result<PromiscuityStep, Infallible>| step.map(|step| (step.set, step.is_own));
        for (wish, is_own, is_on, expected) in [
            (Wanted, false, false, (Some(true), true)),
            (Wanted, false, true, (None, false)),
            (Wanted, true, true, (None, true)),
            // Somebody else took the flag away.
            (Wanted, true, false, (Some(true), true)),
            (Unwanted, true, true, (Some(false), false)),
            (Unwanted, true, false, (None, false)),
        ] {
            let step = wish.step(is_own, || Ok(is_on));
            assert_eq!(after(step), Ok(expected), "{wish:?} {is_own} {is_on}");
        }
        assert_eq!(after(Unwanted.step(false, unused)), Ok((None, false)));
        assert_eq!(after(Kept.step(false, unused)), Ok((None, false)));
        assert_eq!(after(Kept.step(true, unused)), Ok((None, true)));
    }
}
