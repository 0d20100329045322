//! Compiles the interfaces of components that the CLI talks to.

fn main() {
    sluice_xrl_build::compile(&["bgp.proto"], &["../../components/bgp/idl", "../../idl"])
        .expect("the interfaces of the components compile");
}
