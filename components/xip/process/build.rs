//! Generates the interfaces that XIP serves and calls.

const PROTOS: [&str; 2] = ["xip.proto", "principal.proto"];

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&PROTOS, &["../idl", "../../../idl"]) {
        panic!("the interfaces do not compile: {error}");
    }
}
