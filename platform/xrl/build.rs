//! Generates the platform's own interfaces, and the interfaces of tests.

fn main() {
    sluice_xrl_build::Generator::default()
        .compile(&["finder.proto", "common.proto", "rib.proto", "fea.proto", "manager.proto"], &["../../idl"])
        .unwrap_or_else(|e| panic!("the platform's interfaces do not compile: {e}"));
    sluice_xrl_build::Generator::default()
        .extern_package("common.v1", "::sluice_xrl::idl::common::v1")
        .folder("tests")
        .compile(&["echo.proto"], &["tests/idl", "../../idl"])
        .unwrap_or_else(|e| panic!("the tests' interfaces do not compile: {e}"));
}
