//! Configured policies: source and programs.

use super::vocabulary::VOCABULARY;
use alloc::string::String;
use alloc::sync::Arc;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_policy::program::Fact;
use sluice_policy::{NameError, PolicyError, PolicySet, Program, source};

/// The decision on routes on which no policy decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultPolicy {
    /// Accept and announce.
    Accept,
    /// Neither accept nor announce.
    Reject,
}

/// The reason why a neighbor cannot be given a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BindError {
    /// The policy is not valid for BGP.
    Policy(PolicyError),
    /// No policy of the name can be used.
    Name(NameError),
}

/// The configured policies. A clone shares source and programs.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    source: Arc<source::Policies>,
    programs: Arc<PolicySet>,
}

impl Policies {
    /// Compiles the subtree `policy` of the configuration with BGP's variables. Policies of further protocols are left out.
    ///
    /// # Errors
    ///
    /// The first invalid statement.
    pub fn compile(source: source::Policies) -> Result<Self, PolicyError> {
        let programs = Arc::new(PolicySet::compile_used(&source, VOCABULARY, |_| false)?);
        Ok(Policies { source: Arc::new(source), programs })
    }

    /// Returns the program of a policy without parameters.
    pub fn program(&self, name: &str) -> Option<&Arc<Program>> {
        self.programs.get(name)
    }

    /// Iterates over the facts used by policies.
    pub fn facts<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a Fact> {
        names.iter().filter_map(|name| self.program(name)).flat_map(|program| program.facts())
    }

    /// Checks that a policy suits a neighbor.
    ///
    /// # Errors
    ///
    /// The policy is missing, has parameters, or has conditions or actions of a different protocol.
    pub fn check(&self, name: &str) -> Result<(), BindError> {
        let reason = match self.programs.find(name) {
            Ok(_) => return Ok(()),
            Err(reason) => reason,
        };
        match PolicySet::compile_used(&self.source, VOCABULARY, |used| used == name) {
            Err(error) => Err(BindError::Policy(error)),
            Ok(_) => Err(BindError::Name(reason)),
        }
    }

    /// Returns the policies as configured.
    pub fn source(&self) -> &source::Policies {
        &self.source
    }
}

/// Policies with equal configurations are equal.
impl PartialEq for Policies {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source) || self.source == other.source
    }
}

impl Eq for Policies {}

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = source::Policies::deserialize(deserializer)?;
        Policies::compile(source).map_err(serde::de::Error::custom)
    }
}
