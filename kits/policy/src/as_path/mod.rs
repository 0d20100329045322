//! AS-path expressions: regular expressions over AS numbers.
//!
//! An expression describes a whole path, as in Junos: `65001 .*` is a path from AS 65001.
//!
//! | term | meaning |
//! |---|---|
//! | `65001` | this AS |
//! | `64512-65534` | an AS in the range |
//! | `.` | any AS |
//! | `[65001 65005-65010]`, `[^65001]` | one of these ASes; any AS but these |
//! | `TERM?`, `TERM*`, `TERM+`, `TERM{2}`, `TERM{2,}`, `TERM{2,5}` | repetition |
//! | `A B` | A, then B |
//! | `A \| B`, `( )` | either; grouping. `()` is the empty path |
//!
//! An AS_SET counts as one AS, equal to each member.
//!
//! [`Expression`] is the syntax tree, [`Automaton`] the deterministic automaton: one step for each AS, in place.

mod automaton;
mod expression;

pub use automaton::{Automaton, TooManyStates};
pub use expression::{Asns, Expression, ExpressionError, Repeat};
