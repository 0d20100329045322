//! Configuration: YANG schema, curly-brace text, validation, and one tree for the whole router.
//!
//! The schema is YANG; each component ships its own module, and a third party adds one by dropping a package into a folder. On
//! disk the configuration reads as curly braces, or as one path a line, which is the same thing to the parser:
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
//! * [`Schema`] holds the modules; libyang checks every value, and what no one else can check ([`Schema::validate`]),
//! * [`Schema::read`], [`Schema::merge`] and [`Schema::edit`] make a [`Tree`]; an error says file, line, column, and what was expected
//!   there. Trees share what they have in common, so that the next one costs what the change costs,
//! * [`Schema::text`], [`Schema::set_lines`] and [`Schema::json`] write it,
//! * [`Schema::compare`] says what differs between two, [`Schema::change`] what a component has to be told of it, and
//!   [`Schema::cost`] what that costs a running router,
//! * [`steps`] leads from one to another by the text of what differs,
//! * [`package`] reads what extends the router, [`metrics`] the metrics that it brings, [`upgrade`] says what another schema means for
//!   a configuration.

mod bind;
mod change;
mod comments;
mod compare;
mod edit;
mod entries;
mod error;
mod impact;
mod index;
mod mark_changes;
mod marks;
pub mod metrics;
mod node;
mod order;
pub mod package;
mod pending_marks;
mod places;
#[cfg(test)]
mod properties;
mod role;
mod schema;
mod spot;
pub mod steps;
pub mod text;
mod tree;
pub mod upgrade;
mod validate;
mod write;
mod yang;

pub use bind::HIDDEN;
pub use comments::carry as carry_comments;
pub use compare::Comparison;
pub use error::{ConfigError, ConfigErrors, Place, SchemaError, nearest};
pub use impact::Impact;
pub use node::{Node, NodeKind, Value};
pub use role::{Role, RolePlace, with_role, with_role_anywhere};
pub use schema::{Module, Schema};
pub use tree::Tree;
pub use write::{Renderer, Secrets};
