//! Generates the interface that the program serves.

fn main() {
    if let Err(error) = sluice_xrl_build::compile(&["dv.proto"], &[".."]) {
        panic!("dv.proto does not compile: {error}");
    }
}
