//! The same interface twice: as XRL and as gRPC.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sluice_xrl_build::compile(&["bench.proto"], &["idl"])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("grpc");
    std::fs::create_dir_all(&out)?;
    let set = protox::compile(["bench.proto"], ["idl"])?;
    tonic_prost_build::configure().out_dir(out).compile_fds(set)?;
    Ok(())
}
