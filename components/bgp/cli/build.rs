//! Generates the interface that the commands call.

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&["bgp.proto"], &["../idl", "../../../idl"]) {
        panic!("bgp.proto does not compile: {error}");
    }
}
