//! The process of a component: the process shows its secret to the Finder, registers, takes its configuration, ends in order; or takes
//! over from a predecessor, and hands over to a successor.

use crate::component::{Component, Frame};
use crate::life::{Life, PREDECESSOR};
use crate::profile::Profile;
use crate::{RunOptions, socket_folder};
use sluice_base::{Provenance, component_name};
use sluice_xrl::{EndpointOptions, XrlEndpoint};
use std::io::Read;
use std::rc::Rc;

/// With 1: a process killed by a signal may leave its memory in a file.
pub const CORES: &str = "SLUICE_CORES";
/// The folder for core files, where the kernel leaves the choice to the process.
pub const CORES_DIR: &str = "SLUICE_CORES_DIR";

/// Runs a component until asked to end. Blocks; the process has nothing else to do.
pub fn run<C, F, Fut>(mut options: RunOptions, make: F) -> anyhow::Result<()>
where
    C: Component,
    F: FnOnce(Frame) -> Fut,
    Fut: Future<Output = anyhow::Result<Rc<C>>>,
{
    let secret = read_secret()?;
    // Its folder may be another one from here on.
    options.run_dir = std::path::absolute(&options.run_dir)?;
    confine()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Background slices are ready all the time; sockets must not wait for many of them.
        .event_interval(3)
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let finder = options.run_dir.join("finder.sock");
        let name = component_name(C::CLASS, options.instance.as_deref());
        let sockets = socket_folder(&options.run_dir, &name);
        let router = XrlEndpoint::connect(EndpointOptions::new(finder, secret, sockets)).await?;
        let frame = Frame {
            router: router.clone(),
            profile: Profile::default(),
            run_dir: options.run_dir,
            name,
            table: options.table,
            provenance: first_provenance(),
        };
        let place = frame.clone();
        let component = make(frame).await?;
        let life = Life::new(component, place);
        match predecessor() {
            None => life.begin().await?,
            Some(predecessor) => life.succeed(predecessor).await?,
        }
        tokio::select! {
            () = wait_for_end(&life) => {}
            // The manager was started anew and does not know of this process: it starts another one in its place.
            () = router.refused() => {
                anyhow::bail!("the router manager does not know this process any more; it ends");
            }
        }
        Rc::clone(&life.component).shutdown(life.for_good.get()).await;
        life.registered.take();
        // The reply to the call that ended the process goes out first.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        Ok(())
    })
}

/// Returns the predecessor, as named by the manager in the environment.
fn predecessor() -> Option<u32> {
    std::env::var(PREDECESSOR).ok()?.parse().ok()
}

/// Confines the process further than its launcher did, now that its program runs: no further program, no process
/// without rights over its memory by others of the same user, unless cores are wanted.
fn confine() -> anyhow::Result<()> {
    if std::env::var(CORES).is_ok_and(|v| v == "1") {
        let _ = nix::sys::prctl::set_dumpable(true);
        if let Some(folder) = std::env::var_os(CORES_DIR) {
            // The manager has reported already what is in the way, if anything is.
            let _ = std::env::set_current_dir(folder);
        }
    } else if !nix::unistd::geteuid().is_root() {
        let _ = nix::sys::prctl::set_dumpable(false);
    }
    // Started by hand, as tests do: nothing was confined.
    if nix::sys::prctl::get_no_new_privs()? {
        sluice_sandbox::calls::forbid_programs()?;
    }
    Ok(())
}

/// The 16 octets that the manager writes to a component's standard input, as hex.
fn read_secret() -> anyhow::Result<[u8; 16]> {
    let mut text = [0; 32];
    std::io::stdin().read_exact(&mut text).map_err(|e| {
        anyhow::anyhow!("no secret on standard input ({e}); components are started by `sluice start`")
    })?;
    let mut secret = [0; 16];
    for (index, octet) in secret.iter_mut().enumerate() {
        let pair = std::str::from_utf8(&text[index * 2..index * 2 + 2])?;
        *octet = u8::from_str_radix(pair, 16)?;
    }
    Ok(secret)
}

/// A source number that is unlikely to repeat among the lives of a router's components.
fn first_provenance() -> Provenance {
    let mut bits = [0; 2];
    // Without randomness the process number distinguishes lives well enough.
    if getrandom::fill(&mut bits).is_err() {
        bits = (std::process::id() as u16).to_ne_bytes();
    }
    Provenance::new(u16::from_ne_bytes(bits).max(1), 0)
}

async fn wait_for_end<C: Component>(life: &Life<C>) {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut term), Ok(mut int)) => {
            tokio::select! {
                () = life.end.notified() => {}
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        }
        _ => life.end.notified().await,
    }
}

/// Sends what the process of a component reports to the journal or to standard error: text for people, or JSON lines with
/// `SLUICE_LOG_JSON=1`. `SLUICE_LOG` filters (`info`, `debug`, `bgp=debug`).
pub fn start_log(component: &str) {
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let filter = EnvFilter::try_from_env("SLUICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second start in one process (as tests do) keeps the first log.
    let _ = tracing_subscriber::registry().with(filter).with(crate::events::Log::new(component)).try_init();
}
