//! Generates the interface that the commands call.

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&["xip.proto"], &["../idl", "../../../idl"]) {
        panic!("xip.proto does not compile: {error}");
    }
}
