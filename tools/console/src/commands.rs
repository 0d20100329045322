//! Commands that a component carries out with code of its own.

use crate::{Failure, Output};
use serde_json::Value;
use sluice_cli::spelling::Row;
use sluice_cli::{Command, Values};
use sluice_xrl::XrlEndpoint;
use std::pin::Pin;
use std::time::Duration;

/// The commands of a component.
#[derive(Clone, Copy)]
pub struct ComponentCommands {
    /// The grammar.
    pub commands: fn() -> Vec<Command>,
    /// Carries the command of an id out and prints its output.
    pub run: for<'a> fn(&'a str, Call<'a>, &'a mut Output) -> Done<'a>,
    /// Spellings of other routers' command lines, and the words here ([`sluice_cli::spelling`]).
    pub spellings: &'static [Row],
    /// Examples for manual pages: the command's id, and lines to type with what they do.
    pub examples: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// Commands whose output a support bundle takes.
    pub bundled: &'static [&'static str],
    /// Returns what `sluice doctor` reports of a running component.
    pub notices: for<'a> fn(Call<'a>) -> Notices<'a>,
    /// Counts the present routes that meet the terms of a policy, for a component that has policies.
    pub policy_hits: Option<PolicyHits>,
    /// The descriptors of the component's own XRL interfaces: an encoded `FileDescriptorSet`.
    pub descriptors: &'static [u8],
}

/// Counts of routes by the terms of policies.
#[derive(Clone, Copy)]
pub struct PolicyHits {
    /// Returns the counts of a policy, by its name and the names of its terms; null if the component does not answer.
    pub count: for<'a> fn(Call<'a>, &'a str, &'a [String]) -> Hits<'a>,
    /// Returns the lines about a use of the policy.
    pub lines: fn(&Value) -> Vec<String>,
}

/// Counts that are requested.
pub type Hits<'a> = Pin<Box<dyn Future<Output = Value> + 'a>>;

/// A command that is carried out.
pub type Done<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// A state that the configuration asks for and few operators want.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The state in words.
    pub found: String,
    /// The remedy.
    pub advice: String,
}

/// Notices that are requested.
pub type Notices<'a> = Pin<Box<dyn Future<Output = Result<Vec<Notice>, Failure>> + 'a>>;

/// The surroundings of a command.
pub struct Call<'a> {
    /// The way to the components.
    pub router: XrlEndpoint,
    /// The component's target, such as `bgp` or `bgp@red`.
    pub target: String,
    /// The longest wait for an answer.
    pub timeout: Duration,
    /// The values of the command line.
    pub values: &'a Values,
}
