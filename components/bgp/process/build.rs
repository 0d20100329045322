//! Generates the interface that BGP serves, and the one by which it has payloads that validate routes.

const PROTOS: [&str; 2] = ["bgp.proto", "rpki.proto"];

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&PROTOS, &["../idl", "../../rpki/idl", "../../../idl"]) {
        panic!("the interfaces do not compile: {error}");
    }
}
