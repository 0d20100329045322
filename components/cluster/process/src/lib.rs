//! The cluster: the process.
