//! The features of dependencies that the workspace as a whole has, as a dev-dependency of every crate.
//!
//! Cargo builds a dependency with the features that the packages of one command ask for. Without this crate, `cargo test -p NAME`
//! would build many dependencies once more than `cargo test --workspace`, with fewer features each. No executable that is installed
//! contains a feature because of this crate: dev-dependencies count in builds of tests only. `cargo xtask tidy` compares the
//! features that each package has by itself with those of the workspace, and prints the lines that are missing here.
