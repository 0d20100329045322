//! Generates the interface that the cluster serves.

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&["cluster.proto"], &["../idl", "../../../idl"]) {
        panic!("the interfaces do not compile: {error}");
    }
}
