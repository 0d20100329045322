//! Listeners for neighbours that connect, one a family, as long as there are neighbours of it.

use crate::{BgpShell, sockets};
use sluice_bgp::session::{ConnectionId, Direction};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

struct Listener {
    /// The FEA's number for it.
    socket: u64,
    task: AbortHandle,
    /// Keys that are set on it.
    passwords: BTreeMap<IpAddr, String>,
}

/// The listeners, IPv4 first.
#[derive(Default)]
pub struct Listening {
    listeners: RefCell<[Option<Listener>; 2]>,
    /// Changes come one after the other.
    turn: Mutex<()>,
}

/// Opens, closes and keys listeners as the neighbours want it; all anew if the FEA is.
pub async fn refresh(shell: &Rc<BgpShell>, anew: bool) {
    let _turn = shell.listening.turn.lock().await;
    let wanted: BTreeMap<IpAddr, Option<String>> = shell
        .with(|control| {
            let addresses: Vec<IpAddr> = control.neighbors().collect();
            let key = |a: IpAddr| control.neighbor_config(a).and_then(|c| c.password.clone());
            addresses.into_iter().map(|a| (a, key(a))).collect()
        })
        .unwrap_or_default();
    for (place, ipv4) in [true, false].into_iter().enumerate() {
        let mut passwords: BTreeMap<IpAddr, String> = BTreeMap::new();
        let mut any = false;
        for (address, password) in wanted.iter().filter(|(a, _)| a.is_ipv4() == ipv4) {
            any = true;
            passwords.extend(password.clone().map(|p| (*address, p)));
        }
        let old = shell.listening.listeners.borrow_mut()[place].take();
        let kept = match old {
            Some(old) if any && !anew => Some(old),
            Some(old) => {
                old.task.abort();
                shell.sockets.close(old.socket).await;
                None
            }
            None => None,
        };
        let listener = match kept {
            Some(listener) => Some(listener),
            None if any => open(shell, ipv4).await,
            None => None,
        };
        if let Some(mut listener) = listener {
            set_passwords(shell, &mut listener, passwords).await;
            shell.listening.listeners.borrow_mut()[place] = Some(listener);
        }
    }
}

/// Closes all, so that another process can open them.
pub async fn close(shell: &Rc<BgpShell>) {
    let _turn = shell.listening.turn.lock().await;
    let listeners = shell.listening.listeners.take();
    for listener in listeners.into_iter().flatten() {
        listener.task.abort();
        shell.sockets.close(listener.socket).await;
    }
}

async fn open(shell: &Rc<BgpShell>, ipv4: bool) -> Option<Listener> {
    match shell.sockets.listen(ipv4).await {
        Ok((socket, listener)) => {
            let task = tokio::task::spawn_local(accept(Rc::clone(shell), listener)).abort_handle();
            Some(Listener { socket, task, passwords: BTreeMap::new() })
        }
        Err(error) => {
            warn!(%error, "no listener: neighbors cannot connect, this router connects to them");
            None
        }
    }
}

async fn set_passwords(shell: &BgpShell, listener: &mut Listener, wanted: BTreeMap<IpAddr, String>) {
    for address in listener.passwords.keys().chain(wanted.keys()) {
        let (old, new) = (listener.passwords.get(address), wanted.get(address));
        if old == new {
            continue;
        }
        let new = new.map(String::as_str);
        if let Err(error) = shell.sockets.set_password(listener.socket, *address, new).await {
            warn!(%address, %error, "the neighbor's password is not set: it cannot connect");
        }
    }
    listener.passwords = wanted;
}

async fn accept(shell: Rc<BgpShell>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => take(&shell, stream, remote.ip().to_canonical()),
            Err(error) => {
                // Out of descriptors, most likely: others may close some meanwhile.
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

fn take(shell: &Rc<BgpShell>, stream: TcpStream, remote: IpAddr) {
    let Some((config, internal)) = shell.neighbor(remote) else {
        return debug!(%remote, "a stranger connected");
    };
    if let Err(error) = sockets::adopt(&stream, &config, internal) {
        return debug!(%remote, %error, "a connection broke at once");
    }
    let number = shell.accepted.get();
    shell.accepted.set(number.wrapping_add(1));
    let id = ConnectionId { direction: Direction::Incoming, number };
    shell.new_connection((remote, id));
    shell.opened(remote, id, stream);
}
