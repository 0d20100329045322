//! Generates the interface that the component serves.

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&["rpki.proto"], &["../idl", "../../../idl"]) {
        panic!("rpki.proto does not compile: {error}");
    }
}
