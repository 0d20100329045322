//! The frame of every component process.
