//! Configuration: YANG schema, curly-brace text, validation.
//!
//! The schema is YANG; each component ships its own module, and a third party adds one by dropping a file into a folder. On
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
//! * [`Schema`] holds the modules, validated by libyang,
//! * [`Schema::read`] binds statements to the schema; an error says file, line, column, and what was expected there,
//! * [`Config`] hands each component its part as JSON,
//! * [`Schema::cost`] says what the change from one configuration to another costs a running router.

mod bind;
mod difference;
mod error;
mod impact;
mod node;
mod schema;
pub mod text;

pub use bind::Config;
pub use error::{ConfigError, Place};
pub use impact::Impact;
pub use node::{Node, NodeKind, Value};
pub use schema::{Module, Schema, SchemaError};
