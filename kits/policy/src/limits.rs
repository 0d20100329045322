//! Limits of policies. Each bounds memory or time; all are far above usual policies.

/// Entries of a list.
pub const MOST_ENTRIES: usize = 1_000_000;
/// Prefix lists, AS-path expressions, sets of communities: each.
pub(crate) const MOST_LISTS: usize = 10_000;
/// Terms of a policy, with the terms of called policies.
pub(crate) const MOST_TERMS: usize = 10_000;
/// Instructions of a program.
pub(crate) const MOST_INSTRUCTIONS: usize = 1 << 18;
/// Calls inside each other.
pub(crate) const DEEPEST_CALL: usize = 16;
/// AS numbers of an action that prepends.
pub(crate) const MOST_PREPENDED: usize = 64;
