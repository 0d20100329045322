//! Neighbors.
