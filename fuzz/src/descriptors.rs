//! Datagrams on the socket `fea.fd`: requests as from any local process, and answers as to a fetching process.

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use sluice_fea_process::sockets::descriptors::Descriptors;
use sluice_process::descriptor::{TOKEN, fetch, socket_path};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder of its own")
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("every system has it").into()
}

/// The FEA's side in a run-time folder of its own. Tasks end before the event loop, and both before the folder.
struct Broker {
    tasks: LocalSet,
    runtime: Runtime,
    descriptors: Rc<Descriptors>,
    run_dir: TempDir,
}

impl Broker {
    fn new() -> Self {
        let (tasks, runtime, descriptors, run_dir) = (LocalSet::new(), runtime(), Rc::default(), folder());
        let served: io::Result<()> =
            tasks.block_on(&runtime, async { Descriptors::serve(&descriptors, run_dir.path()) });
        served.expect("the socket is made");
        Broker { tasks, runtime, descriptors, run_dir }
    }
}

/// A fetching process, and an FEA with answers from the fuzzer.
struct Requester {
    runtime: Runtime,
    listener: OwnedFd,
    run_dir: TempDir,
}

impl Requester {
    fn new() -> Self {
        let (runtime, run_dir) = (runtime(), folder());
        let made =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let listener = made.expect("the kernel makes sockets");
        let path = socket_path(run_dir.path());
        std::fs::create_dir_all(path.parent().expect("the socket lies in a folder"))
            .expect("the folder is new");
        let address = SocketAddrUnix::new(path).expect("a short path");
        rustix::net::bind(&listener, &address).expect("nothing is bound there");
        rustix::net::listen(&listener, 1).expect("a bound socket listens");
        Requester { runtime, listener, run_dir }
    }
}

thread_local! {
    static BROKER: Broker = Broker::new();
    static REQUESTER: Requester = Requester::new();
}

/// Sends a request while a descriptor waits. The first octet is the number of leading octets of the true token, the
/// remaining octets follow. Only the token itself gets the descriptor, once; a wrong request takes the descriptor from
/// nobody.
pub fn request(octets: &[u8]) {
    let (kept, rest) = octets.split_first().map_or((0, octets), |(first, rest)| (usize::from(*first), rest));
    BROKER.with(|broker| {
        broker.tasks.block_on(&broker.runtime, async {
            let descriptor = Rc::new(null());
            let token = broker.descriptors.offer(std::process::id(), Rc::clone(&descriptor));
            let token = token.expect("no descriptor of an earlier run waits");
            let datagram = [&token[..kept.min(TOKEN)], rest].concat();
            let path = broker.run_dir.path();
            let answered = fetch(path, &datagram).await;
            assert_eq!(answered.is_ok(), datagram == token, "{datagram:02x?}");
            assert_eq!(fetch(path, &token).await.is_ok(), datagram != token);
            assert!(fetch(path, &token).await.is_err());
        });
    });
}

/// Fetches from an FEA that answers with a single datagram: the first octet is the number of descriptors, the
/// remaining octets are the content. A descriptor with at least one octet is fetched; any different answer is an
/// error.
pub fn answer(octets: &[u8]) {
    let (count, rest) = octets.split_first().map_or((0, octets), |(first, rest)| (first % 4, rest));
    REQUESTER.with(|requester| {
        requester.runtime.block_on(async {
            let answering = async {
                let client = rustix::net::accept(&requester.listener).expect("a client has connected");
                // A request that is left unread would reset the connection.
                let mut request = [0; TOKEN];
                let read = rustix::net::recv(&client, &mut request[..], RecvFlags::DONTWAIT);
                assert_eq!(read.map(|(length, _)| length), Ok(TOKEN));
                let nulls: Vec<OwnedFd> = (0..count).map(|_| null()).collect();
                let borrowed: Vec<BorrowedFd<'_>> = nulls.iter().map(AsFd::as_fd).collect();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if count > 0 {
                    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
                }
                // More than the socket's buffer takes is not sent.
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                rustix::net::sendmsg(&client, &[IoSlice::new(rest)], &mut ancillary, flags).is_ok()
            };
            let (fetched, sent) =
                tokio::join!(biased; fetch(requester.run_dir.path(), &[0; TOKEN]), answering);
            assert_eq!(fetched.is_ok(), sent && count > 0, "{count} descriptors");
        });
    });
}

/// Requests with the whole token, a part of it, too many octets, and no octets.
pub fn requests() -> Vec<Vec<u8>> {
    vec![vec![16], vec![15, 7], vec![16, 0], vec![0], [&[0][..], &[0x55; TOKEN]].concat()]
}

/// Answers with and without descriptors.
pub fn answers() -> Vec<Vec<u8>> {
    vec![vec![1, 0], vec![0, 0], vec![2, 0], vec![3, 1, 2, 3], vec![1]]
}
