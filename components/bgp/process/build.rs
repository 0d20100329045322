//! Generates BGP's interface, and the interface of the component with the payloads for validation.

const PROTOS: [&str; 2] = ["bgp.proto", "rpki.proto"];

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&PROTOS, &["../idl", "../../rpki/idl", "../../../idl"]) {
        panic!("the interfaces do not compile: {error}");
    }
}
