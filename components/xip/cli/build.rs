//! Generates the interface that the commands call, and the one that packages may call.

fn main() {
    if let Err(error) =
        sluice_xrl_build::compile(&["xip.proto", "principal.proto"], &["../idl", "../../../idl"])
    {
        panic!("the interfaces do not compile: {error}");
    }
}
