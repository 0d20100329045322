//! Compiles the C programs of `bpf/` by clang and puts the objects where `embedded.rs` includes them.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The programs: each is one file `bpf/NAME.bpf.c`.
const PROGRAMS: [&str; 11] =
    ["root", "empty", "drop", "ip", "xip", "copy", "balance", "sink", "pktgen", "protocols", "budget"];

const CLANG: &str = "clang-14";

fn main() {
    println!("cargo:rerun-if-changed=../../bpf");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_XDP").is_none() {
        return;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let source = Path::new("../../bpf");
    let include = system_include();
    if !include.join("bpf/bpf_helpers.h").exists() && !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        fail("the headers of libbpf are missing");
    }
    for name in PROGRAMS {
        compile(&source.join(format!("{name}.bpf.c")), &out.join(format!("{name}.bpf.o")), &include, source);
    }
}

/// Returns the folder of the headers that depend on the architecture, by Debian's name of the architecture.
fn system_include() -> PathBuf {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    Path::new("/usr/include").join(format!("{architecture}-linux-gnu"))
}

fn compile(source: &Path, object: &Path, include: &Path, programs: &Path) {
    let mut clang = Command::new(CLANG);
    clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"]);
    // The object names its source by this folder, not by the folder of the machine that built it.
    clang.arg(format!("-fdebug-prefix-map={}=sluice", std::env::current_dir().unwrap_or_default().display()));
    clang.arg("-I").arg(include).arg("-I").arg(programs.join("include"));
    match clang.arg("-c").arg(source).arg("-o").arg(object).status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{CLANG} could not compile {}: {status}", source.display())),
        Err(error) => fail(&format!("{CLANG} cannot be run: {error}")),
    }
}

fn fail(why: &str) -> ! {
    eprintln!(
        "sluice-bpf: {why}; install the Debian packages clang-14 and libbpf-dev, or build without the feature `xdp`"
    );
    exit(1);
}
