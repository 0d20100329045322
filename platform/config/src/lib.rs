//! Configuration: YANG schema, curly-brace text, validation, and a single tree for the whole router.
//!
//! The schema is YANG; each component ships its own module, and a third party adds a module by dropping a package into
//! a folder. On disk the configuration reads as curly braces, or as a path a line; the parser accepts both:
//!
//! ```text
//! protocols {
//!     bgp {
//!         local-as 65001;
//!         neighbor 192.0.2.1 { peer-as 65002; }
//!     }
//! }
//! protocols bgp router-id 10.0.0.1;
//! ```
//!
//! * [`text`] turns text into statements with places,
//! * [`Schema`] holds the modules; libyang checks every value, and conditions across the tree ([`Schema::validate`]),
//! * [`Schema::read`], [`Schema::merge`] and [`Schema::edit`] make a [`Tree`]; an error names file, line, column, and
//!   the expected words. Trees share common parts, so that the cost of a new tree follows the size of the change,
//! * [`Schema::text`], [`Schema::set_lines`] and [`Schema::json`] write a tree,
//! * [`Schema::compare`] returns the differences between two trees, [`Schema::change`] a component's share of the
//!   differences, and [`Schema::cost`] their impact on a running router,
//! * [`Schema::kept`] returns the part of a tree that somebody may read,
//! * [`Schema::local_part`] returns the part of a tree that an element of a cluster keeps for itself, [`Ports`] names a cluster's ports,
//! * [`steps`] leads from a configuration to the next by the text of the differences,
//! * [`package`] reads extensions of the router, [`metrics`] their metrics, [`upgrade`] finds the effects of a
//!   different schema on a configuration.

mod commit;
mod edit;
mod error;
#[cfg(test)]
mod properties;
mod schema;
pub mod text;
mod tree;

pub use commit::comparison::Comparison;
pub use commit::ports::Ports;
pub use commit::refusal::ConfigText;
pub use commit::{steps, upgrade};
pub use error::{ConfigError, ConfigErrors, Place, SchemaError, nearest};
pub use schema::impact::Impact;
pub use schema::node::{Node, NodeKind, Role, Value};
pub use schema::role::{RolePlace, with_role, with_role_anywhere};
pub use schema::{Module, Schema, metrics, package};
pub use text::comments::{KeptComments, carry as carry_comments};
pub use text::secrets::{HIDDEN, Secrets};
pub use text::write::Renderer;
pub use tree::Tree;
