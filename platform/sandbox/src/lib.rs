//! The confinement of component processes.
//!
//! The router manager describes the confinement of a process in a [`Plan`]. The launcher (`sluice confine`) receives the
//! plan, applies the plan to its own process and executes the component's program, so that programs in any language run
//! confined. Each layer that the host cannot provide is missing in the [`Host`]'s description, and named for operators;
//! a plan that the launcher cannot apply as a whole starts nothing.
//!
//! The layers: a user of its own ([`users`]), control groups ([`cgroup`]), an empty network namespace, a view of the host's
//! files ([`view`]), no capabilities, files by Landlock ([`files`]), system calls by seccomp ([`calls`]). [`observed`] reads back from the kernel which of
//! the layers hold. `docs/security.md` describes which attack each layer stops.

pub mod calls;
pub mod cgroup;
pub mod files;
pub mod host;
pub mod launch;
pub mod observed;
pub mod plan;
pub mod users;
pub mod view;

pub use host::{Host, NetworkNamespace};
pub use observed::Observed;
pub use plan::{CallList, Files, Limits, Network, Plan, View};
