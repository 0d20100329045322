//! BGP-4: the process.
