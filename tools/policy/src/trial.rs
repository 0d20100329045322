//! The configuration that policies are tried out in, and the question.

use crate::explain::Explanation;
use crate::report::{RouteReport, TraceReport};
use crate::route::{self, RouteError};
use crate::subject::Subject;
use crate::trace::{Comparison, Tally};
use serde_json::{Value, json};
use sluice_base::Asn;
use sluice_bgp::policy::{BindError, DefaultPolicy, Policies};
use sluice_bgp::speaker::{NeighborConfig, Settings};
use sluice_policy::{Program, unknown};
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;

/// The reason why a policy cannot be tried out.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TrialError {
    /// The words are no question.
    #[error("{0}")]
    Words(String),
    /// The configuration is not one of BGP.
    #[error("{0}")]
    Configuration(String),
    /// There is no such policy, or it is not one for BGP.
    #[error("{0}")]
    Policy(String),
    /// There is no such neighbor.
    #[error("there is no neighbor {0}; there are: {1}")]
    Neighbor(IpAddr, String),
    /// The words are no route.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// The answer in both forms.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// A question, as `sluice policy test` is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The policy.
    pub policy: String,
    /// A route in words, or the name of a trace's file.
    pub subject: Vec<String>,
    /// The neighbor that the route comes from or goes to.
    pub neighbor: Option<IpAddr>,
    /// A policy to compare with.
    pub compare: Option<String>,
}

impl Question {
    /// Reads `POLICY ROUTE|FILE [as neighbor ADDRESS] [compare POLICY]`.
    ///
    /// # Errors
    /// A word is missing, or the address is none.
    pub fn parse(words: &[String]) -> Result<Self, TrialError> {
        let form =
            "expected POLICY, then ROUTE or FILE, then `as neighbor ADDRESS` and `compare POLICY` if wanted";
        let wrong = |text: &str| TrialError::Words(format!("{text}; {form}"));
        let (policy, rest) = words.split_first().ok_or_else(|| wrong("there is no policy"))?;
        let mut question =
            Question { policy: policy.clone(), subject: Vec::new(), neighbor: None, compare: None };
        let mut rest = rest;
        while let Some((word, after)) = rest.split_first() {
            let is_again = match word.as_str() {
                "as" => question.neighbor.is_some(),
                "compare" => question.compare.is_some(),
                _ => false,
            };
            if is_again {
                return Err(wrong(&format!("`{word}` stands twice")));
            }
            rest = match (word.as_str(), after) {
                ("as", [neighbor, address, behind @ ..]) if neighbor == "neighbor" => {
                    let parsed = address.parse();
                    question.neighbor =
                        Some(parsed.map_err(|_| wrong(&format!("`{address}` is no address")))?);
                    behind
                }
                ("compare", [other, behind @ ..]) => {
                    question.compare = Some(other.clone());
                    behind
                }
                ("as" | "compare", _) => return Err(wrong(&format!("`{word}` needs more"))),
                _ => {
                    question.subject.push(word.clone());
                    after
                }
            };
        }
        match question.subject.is_empty() {
            true => Err(wrong("there is no route and no file")),
            false => Ok(question),
        }
    }
}

/// Policies of a configuration, with BGP's neighbors.
pub struct Trial {
    /// The policies.
    pub policies: Policies,
    /// The router's AS; 0 if BGP is not configured.
    pub local_as: Asn,
    neighbors: Vec<NeighborConfig>,
}

impl Trial {
    /// Reads a whole configuration in JSON, as `show configuration` prints it.
    ///
    /// # Errors
    /// The policies are not valid.
    pub fn read(configuration: &Value) -> Result<Self, TrialError> {
        let without = || json!({ "local-as": 0, "router-id": "0.0.0.1" });
        let mut bgp = configuration["protocols"]["bgp"].clone();
        if !bgp.is_object() {
            bgp = without();
        }
        if configuration["policy"].is_object() {
            bgp["policy"] = configuration["policy"].clone();
        }
        let settings: Settings =
            serde_json::from_value(bgp).map_err(|error| TrialError::Configuration(error.to_string()))?;
        let config = settings.config();
        Ok(Trial { policies: config.policies, local_as: settings.local_as, neighbors: config.neighbors })
    }

    /// Returns the program of a policy.
    ///
    /// # Errors
    /// There is no such policy, or the policy has parameters or words of another protocol.
    pub fn program(&self, name: &str) -> Result<&Arc<Program>, TrialError> {
        self.policies.check(name).map_err(|error| match error {
            BindError::Policy(error) => TrialError::Policy(error.to_string()),
            BindError::Name(error) => TrialError::Policy(error.to_string()),
        })?;
        let known = self.policies.source().policy_statement.iter().map(|statement| &*statement.name);
        let missing = || TrialError::Policy(unknown("policy-statement", name, known));
        self.policies.program(name).ok_or_else(missing)
    }

    /// Returns a neighbor.
    ///
    /// # Errors
    /// There is no such neighbor.
    pub fn neighbor(&self, address: IpAddr) -> Result<&NeighborConfig, TrialError> {
        let found = self.neighbors.iter().find(|neighbor| neighbor.address == address);
        found.ok_or_else(|| {
            let known: Vec<String> = self.neighbors.iter().map(|n| n.address.to_string()).take(10).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            TrialError::Neighbor(address, known)
        })
    }

    /// Returns the decision on routes of a neighbor on which no policy decides.
    pub fn default_of(&self, neighbor: &NeighborConfig) -> DefaultPolicy {
        neighbor.default_policy(self.local_as)
    }

    /// Runs policies in order on a route that a neighbor sent or is to be sent, until one decides. Names of policies that do not
    /// exist are left out.
    pub fn chain(
        &self,
        names: &[String],
        neighbor: IpAddr,
        mut subject: Subject,
    ) -> Vec<(String, Explanation)> {
        if let Ok(neighbor) = self.neighbor(neighbor) {
            subject.neighbor = Some(neighbor.address);
            subject.neighbor_as = Some(neighbor.peer_as.0);
            subject.group = neighbor.group.clone();
        }
        let mut all = Vec::new();
        for name in names {
            let Ok(program) = self.program(name) else { continue };
            let explanation = Explanation::of(self.policies.source(), program, &subject, self.local_as);
            subject.octets.clone_from(&explanation.octets);
            let has_decided = explanation.is_accepted.is_some();
            all.push((name.clone(), explanation));
            if has_decided {
                break;
            }
        }
        all
    }

    /// Answers a question; `trace` is the content of the file that the question names, if the question names a file.
    ///
    /// # Errors
    /// A policy or the neighbor does not exist, or the route is none.
    pub fn answer(&self, question: &Question, trace: Option<&[u8]>) -> Result<Report, TrialError> {
        let program = self.program(&question.policy)?;
        let other = question.compare.as_ref().map(|name| self.program(name)).transpose()?;
        let neighbor = question.neighbor.map(|address| self.neighbor(address)).transpose()?;
        let complete = |subject: &mut Subject| {
            if let Some(neighbor) = neighbor {
                subject.neighbor = Some(neighbor.address);
                subject.neighbor_as = Some(neighbor.peer_as.0);
                subject.group = neighbor.group.clone();
            }
        };
        if let Some(trace) = trace {
            let tally = |program| Tally::new(&self.policies, program);
            let comparison =
                Comparison::over(trace, tally(program), other.map(tally), self.local_as, complete);
            let report = TraceReport { question, comparison };
            return Ok(Report { text: report.text(), json: report.json() });
        }
        let mut subject = route::parse(&question.subject)?;
        complete(&mut subject);
        let explain = |program| Explanation::of(self.policies.source(), program, &subject, self.local_as);
        let report = RouteReport {
            question,
            prefix: subject.prefix.to_string(),
            policy: explain(program),
            other: other.map(|other| explain(other)),
            default: neighbor.map(|neighbor| self.default_of(neighbor)),
        };
        Ok(Report { text: report.text(), json: report.json() })
    }
}
