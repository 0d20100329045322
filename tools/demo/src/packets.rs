//! The programs on the hosts: the source sends a packet to each of many addresses, the sink counts arriving packets.

use clap::Subcommand;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The UDP port that packets go to.
pub const PORT: u16 = 40_000;

/// Octets of the sink's socket buffer: enough for the packets of a whole run.
const RECEIVE_BUFFER: usize = 64 << 20;

#[derive(Subcommand)]
pub enum HostCommand {
    /// Sends one packet to each address of a file.
    #[command(hide = true)]
    Source {
        /// An address in each line.
        file: PathBuf,
        /// Packets a second.
        #[arg(long, default_value_t = 10_000)]
        rate: u32,
    },
    /// Counts packets until the flow pauses, then prints the number of distinct packets.
    #[command(hide = true)]
    Sink {
        /// Written when the sink listens.
        ready: PathBuf,
        /// Ends after so many milliseconds without a packet (once one has come, or `patience` is over).
        #[arg(long, default_value_t = 1000)]
        quiet_ms: u64,
        /// Ends after so many milliseconds if no packet comes at all.
        #[arg(long, default_value_t = 20_000)]
        patience_ms: u64,
    },
}

/// Runs a host's part.
pub fn run(command: HostCommand) -> ExitCode {
    let result = match command {
        HostCommand::Source { file, rate } => source(&file, rate),
        HostCommand::Sink { ready, quiet_ms, patience_ms } => sink(&ready, quiet_ms, patience_ms),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            sluice_print::errln!("demo host: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn source(file: &std::path::Path, rate: u32) -> anyhow::Result<()> {
    let v4 = UdpSocket::bind("0.0.0.0:0")?;
    let v6 = UdpSocket::bind("[::]:0")?;
    let start = Instant::now();
    let mut sent: u64 = 0;
    for line in std::fs::read_to_string(file)?.lines() {
        let addr: IpAddr = line.parse()?;
        let socket = if addr.is_ipv4() { &v4 } else { &v6 };
        let number = sent.to_be_bytes();
        // An ICMP error of an earlier packet shows up at a later send; that packet is missing at the sink anyway.
        if socket.send_to(&number, SocketAddr::new(addr, PORT)).is_err() {
            socket.send_to(&number, SocketAddr::new(addr, PORT))?;
        }
        sent += 1;
        let due = Duration::from_secs_f64(sent as f64 / f64::from(rate));
        if let Some(wait) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(wait);
        }
    }
    sluice_print::outln!("{sent}");
    Ok(())
}

fn sink(ready: &std::path::Path, quiet_ms: u64, patience_ms: u64) -> anyhow::Result<()> {
    // One socket for both families: IPv4 arrives as mapped addresses.
    let socket = UdpSocket::bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT))?;
    // The machine is busy with everybody's routes: what was forwarded must not be lost in this host's own buffer.
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &RECEIVE_BUFFER)?;
    std::fs::write(ready, "")?;
    let mut seen = HashSet::new();
    socket.set_read_timeout(Some(Duration::from_millis(patience_ms)))?;
    let mut buffer = [0; 64];
    while let Ok((length, _)) = socket.recv_from(&mut buffer) {
        if seen.is_empty() {
            socket.set_read_timeout(Some(Duration::from_millis(quiet_ms)))?;
        }
        seen.insert(buffer[..length].to_vec());
    }
    sluice_print::outln!("{}", seen.len());
    Ok(())
}
