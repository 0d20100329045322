//! The start of each daemon, and the test for its readiness.

use crate::LabError;
use crate::state::{NodeState, State};
use crate::topology::Daemon;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for a daemon's answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// The exit status of `sluice status` for a router that runs without a part of its configuration.
const DEGRADED: i32 = 8;
/// The pause between two questions to a daemon.
const PAUSE: Duration = Duration::from_millis(10);

/// A process to be started on a node.
struct Part {
    name: String,
    command: Command,
}

/// Starts the node's daemon and waits for its first answer. `started` is called with each process as soon as the
/// process exists.
pub(crate) fn start(
    state: &State,
    name: &str,
    mut started: impl FnMut(&str, Child) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let node = state.node(name)?;
    let dir = state.node_dir(name);
    let parts = parts(state, node, &dir)?;
    let mut watched = Vec::new();
    for mut part in parts {
        let log = log_file(&dir, &part.name)?;
        let err = log.try_clone().map_err(crate::error::at(&dir))?;
        part.command.stdin(Stdio::null()).stdout(log).stderr(err).process_group(0).current_dir(&dir);
        let program = part.command.get_program().to_string_lossy().into_owned();
        let child = part.command.spawn().map_err(|source| LabError::Start { program, source })?;
        watched.extend(crate::process::ProcessId::of(child.id()).map(|id| (part.name.clone(), id)));
        started(&part.name, child)?;
        // FRR's daemons need zebra's socket, and each must listen before the configuration is loaded.
        if node.daemon == Daemon::Frr {
            let vty = dir.join(format!("{}.vty", part.name));
            wait(state, name, &watched, || Ok(vty.exists()))?;
        }
    }
    if let Some(probe) = Probe::of(node, &dir) {
        wait(state, name, &watched, || probe.answers(state, node))?;
    }
    if node.daemon == Daemon::Frr && node.configured {
        load_frr(state, name, node, &dir)?;
    }
    Ok(())
}

/// Returns the programs of a node, in the order in which they start; FRR has several daemons.
fn parts(state: &State, node: &NodeState, dir: &Path) -> Result<Vec<Part>, LabError> {
    let config = dir.join("config");
    let inside = |program: &Path| state.scope.command_in(&node.namespace, program);
    let one = |name: &str, command: Command| Ok(vec![Part { name: name.into(), command }]);
    match node.daemon {
        Daemon::Host | Daemon::Switch => Ok(Vec::new()),
        Daemon::Sluice => {
            let program = node.program.clone().unwrap_or_else(|| "sluice".into());
            let mut c = inside(&program)?;
            c.arg("start").arg("--config").arg(&config).arg("--run-dir").arg(dir.join("run"));
            // Not those of the host, nor of another node.
            c.arg("--packages-dir").arg(dir.join("packages"));
            one("sluice", c)
        }
        Daemon::Bird => {
            let mut c = inside(Path::new("bird"))?;
            c.arg("-f").arg("-c").arg(&config).arg("-s").arg(dir.join("bird.ctl"));
            one("bird", c)
        }
        Daemon::Openbgpd => {
            let mut c = inside(Path::new("bgpd"))?;
            c.args(["-d", "-v", "-f"]).arg(&config);
            one("openbgpd", c)
        }
        Daemon::Gobgp => {
            let mut c = inside(Path::new("gobgpd"))?;
            c.args(["-t", "toml", "--api-hosts", "127.0.0.1:50051", "-f"]).arg(&config);
            // A GoBGP that ran before announces that it restarts (RFC 4724, flag R), where graceful restart is configured.
            if log_path(dir, "gobgpd").exists() {
                c.arg("-r");
            }
            one("gobgpd", c)
        }
        Daemon::Exabgp => {
            let mut c = inside(Path::new("exabgp"))?;
            c.env("exabgp.daemon.user", "root").env("exabgp.api.cli", "false").arg(&config);
            one("exabgp", c)
        }
        Daemon::Frr => {
            let mut names = vec!["zebra".to_owned()];
            names.extend(node.frr_daemons.iter().filter(|d| *d != "zebra").cloned());
            names.into_iter().map(|name| frr_part(state, node, dir, name)).collect()
        }
    }
}

/// Returns a daemon of FRR. Its entry may have arguments behind the name: `bgpd -M rpki`.
fn frr_part(state: &State, node: &NodeState, dir: &Path, entry: String) -> Result<Part, LabError> {
    let mut words = entry.split_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let empty = dir.join("frr-empty.conf");
    fs::write(&empty, "").map_err(crate::error::at(&empty))?;
    let program = Path::new("/usr/lib/frr").join(&name);
    let mut command = state.scope.command_in(&node.namespace, program)?;
    command
        .args(["--log", "stdout", "-f"])
        .arg(&empty)
        .arg("-z")
        .arg(dir.join("zserv.api"))
        .arg("-i")
        .arg(dir.join(format!("{name}.pid")))
        .arg("--vty_socket")
        .arg(dir)
        .args(["-A", "127.0.0.1"])
        .args(words);
    Ok(Part { name, command })
}

/// Loads FRR's configuration: a single text for every daemon, split by vtysh.
fn load_frr(state: &State, name: &str, node: &NodeState, dir: &Path) -> Result<(), LabError> {
    let mut vtysh = state.scope.command_in(&node.namespace, "vtysh")?;
    vtysh.arg("--vty_socket").arg(dir).arg("-f").arg(dir.join("config"));
    let output = vtysh.output().map_err(|source| LabError::Start { program: "vtysh".into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(LabError::NotReady {
        node: name.into(),
        daemon: "frr".into(),
        message: String::from_utf8_lossy(&text).trim().into(),
    })
}

/// A question answered only by a ready daemon.
struct Probe {
    program: PathBuf,
    args: Vec<std::ffi::OsString>,
}

impl Probe {
    fn of(node: &NodeState, dir: &Path) -> Option<Probe> {
        let probe = |program: &str, args: &[&std::ffi::OsStr]| {
            Some(Probe { program: program.into(), args: args.iter().map(|a| (*a).to_owned()).collect() })
        };
        let run = dir.join("run");
        match node.daemon {
            Daemon::Bird => probe(
                "birdc",
                &["-s".as_ref(), dir.join("bird.ctl").as_os_str(), "show".as_ref(), "status".as_ref()],
            ),
            Daemon::Frr => probe(
                "vtysh",
                &["--vty_socket".as_ref(), dir.as_os_str(), "-c".as_ref(), "show version".as_ref()],
            ),
            Daemon::Openbgpd => {
                probe("bgpctl", &["-s".as_ref(), dir.join("bgpd.sock").as_os_str(), "show".as_ref()])
            }
            Daemon::Gobgp => probe("gobgp", &["global".as_ref()]),
            Daemon::Sluice => Some(Probe {
                program: node.program.clone().unwrap_or_else(|| "sluice".into()),
                args: vec!["status".into(), "--run-dir".into(), run.into()],
            }),
            // ExaBGP opens nothing that could be asked: its sessions show that it is there.
            Daemon::Exabgp | Daemon::Host | Daemon::Switch => None,
        }
    }

    fn answers(&self, state: &State, node: &NodeState) -> Result<bool, LabError> {
        let mut command = state.scope.command_in(&node.namespace, &self.program)?;
        let status = command
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|source| LabError::Start { program: self.program.display().to_string(), source })?;
        Ok(status.success() || status.code() == Some(DEGRADED))
    }
}

/// Asks until it is so, a process has ended or patience has.
fn wait(
    state: &State,
    name: &str,
    watched: &[(String, crate::process::ProcessId)],
    mut ready: impl FnMut() -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if ready()? {
            return Ok(());
        }
        let ended = watched.iter().find(|(_, id)| !id.is_running());
        if ended.is_some() || Instant::now() > deadline {
            let daemon = ended.or(watched.last()).map_or("daemon", |(part, _)| part.as_str());
            return Err(LabError::NotReady {
                node: name.into(),
                daemon: daemon.into(),
                message: log_tail(&state.node_dir(name), daemon),
            });
        }
        std::thread::sleep(PAUSE);
    }
}

fn log_path(dir: &Path, part: &str) -> PathBuf {
    dir.join(format!("{part}.log"))
}

fn log_file(dir: &Path, part: &str) -> Result<File, LabError> {
    let path = log_path(dir, part);
    File::options().create(true).append(true).open(&path).map_err(crate::error::at(&path))
}

/// The last lines of a daemon's log.
pub(crate) fn log_tail(dir: &Path, part: &str) -> String {
    let text = fs::read(log_path(dir, part)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Prepares the host for the daemon: FRR's user may write to the node's folder, OpenBGPD's home exists. Both daemons
/// change their user, which is not allowed in a user namespace with only the caller mapped.
pub(crate) fn prepare(state: &State, name: &str, daemon: Daemon) -> Result<(), LabError> {
    let user = match daemon {
        Daemon::Frr => "frr",
        Daemon::Openbgpd => "_openbgpd",
        _ => return Ok(()),
    };
    if state.scope != crate::scope::Scope::Host {
        return Err(LabError::NeedsRoot { node: name.into(), daemon });
    }
    // Where there is no such user, the daemon reports that itself.
    let Ok(Some(user)) = nix::unistd::User::from_name(user) else { return Ok(()) };
    if daemon == Daemon::Openbgpd {
        return fs::create_dir_all(&user.dir).map_err(crate::error::at(&user.dir));
    }
    let dir = state.node_dir(name);
    std::os::unix::fs::chown(&dir, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .map_err(crate::error::at(&dir))
}

/// Writes the node's configuration and files into its folder.
pub(crate) fn write_files(
    dir: &Path,
    daemon: Daemon,
    config: Option<String>,
    files: &std::collections::BTreeMap<String, String>,
) -> Result<(), LabError> {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(dir).map_err(crate::error::at(dir))?;
    let here = dir.display().to_string();
    let config = config.map(|text| match daemon {
        Daemon::Openbgpd => format!("socket \"{here}/bgpd.sock\"\n{text}"),
        _ => text,
    });
    let write = |name: &str, text: &str, mode: u32| {
        let path = dir.join(name);
        fs::write(&path, text.replace("@DIR@", &here)).map_err(crate::error::at(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(crate::error::at(&path))
    };
    if let Some(text) = config {
        // OpenBGPD refuses a configuration that others can read.
        write("config", &text, 0o600)?;
    }
    for (name, text) in files {
        write(name, text, 0o755)?;
    }
    Ok(())
}
