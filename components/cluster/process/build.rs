//! Generates the interface that the cluster serves, and the client of etcd.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sluice_xrl_build::compile(&["cluster.proto"], &["../idl", "../../../idl"])?;
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("etcd");
    std::fs::create_dir_all(&out)?;
    let set = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).out_dir(out).compile_fds(set)?;
    Ok(())
}
