//! The socket broker: what it opens, and whom it hands it to.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sluice_clients::{LinkGroup, LinkProtocol};
use sluice_fea::socket::Reception;
use sluice_fea_process::sockets::broker::{Kind, SocketRequest, set_tcp_md5};
use sluice_fea_process::sockets::descriptors::Descriptors;
use sluice_fea_process::sockets::relay;
use sluice_lab::{Lab, LabOptions, until};
use sluice_process::descriptor::{fetch, give, socket_path};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

const TOPOLOGY: &str = "
[nodes.a]
[nodes.b]
[[links]]
a = 'a:eth0'
b = 'b:eth0'
a_addresses = ['10.0.0.1/24', 'fd00::1/64']
b_addresses = ['10.0.0.2/24', 'fd00::2/64']
";

/// The longest wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The wait for a connection that must not come about.
const REFUSAL: Duration = Duration::from_secs(1);

fn lab() -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() {
        sluice_testkit::skipped("not root");
        return None;
    }
    let lab = Lab::up(&TOPOLOGY.parse().unwrap(), LabOptions::unique("sockets")).unwrap();
    for (from, to, address) in
        [("a", "b", "10.0.0.2"), ("b", "a", "10.0.0.1"), ("a", "b", "fd00::2"), ("b", "a", "fd00::1")]
    {
        until_reached(&lab, from, to, address.parse().unwrap());
    }
    Some(lab)
}

/// Waits until datagrams from a node arrive at an address of another. A new link drops them until the kernel has activated its queue.
fn until_reached(lab: &Lab, from: &str, to: &str, address: IpAddr) {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let receiver = inside(lab, to, || UdpSocket::bind((address, 0)).unwrap());
    let sender = inside(lab, from, || UdpSocket::bind(any).unwrap());
    let target = receiver.local_addr().unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let is_reached = until(PATIENCE, || {
        // An unreachable host is an error until the link is active.
        let _ = sender.send_to(b"probe", target);
        receiver.recv(&mut [0; 16]).is_ok()
    });
    assert!(is_reached, "{from} does not reach {address}");
}

/// Does something on a thread inside a node; sockets stay in the namespace in which they were opened.
fn inside<T: Send>(lab: &Lab, node: &str, act: impl FnOnce() -> T + Send) -> T {
    lab.inside(node, act).unwrap()
}

fn request(kind: Kind) -> SocketRequest {
    SocketRequest {
        kind,
        interface: None,
        ttl: None,
        min_ttl: None,
        dscp: 0,
        reception: Reception::default(),
    }
}

fn listener(local: &str) -> SocketRequest {
    request(Kind::TcpListener { local: local.parse().unwrap(), backlog: 16 })
}

fn connector(local: Option<&str>, remote: &str, md5: Option<&str>) -> SocketRequest {
    request(Kind::TcpConnector {
        local: local.map(|l| l.parse().unwrap()),
        remote: remote.parse().unwrap(),
        md5: md5.map(str::to_owned),
    })
}

/// Connects a connector within a time.
fn connect(socket: OwnedFd, remote: &str, within: Duration) -> io::Result<TcpStream> {
    let socket = socket2::Socket::from(socket);
    socket.set_nonblocking(false)?;
    let remote: SocketAddr = remote.parse().unwrap();
    socket.connect_timeout(&remote.into(), within)?;
    Ok(socket.into())
}

fn wait_readable(fd: &impl AsFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let patience = PollTimeout::try_from(PATIENCE).unwrap();
    poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], patience).unwrap() == 1
}

#[test]
fn tcp_with_keys_and_hops() {
    let Some(lab) = lab() else { return };
    for (here, there) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let at = |a: &str, port: u16| SocketAddr::new(a.parse().unwrap(), port).to_string();
        let remote = at(there, 179);
        // A listener that takes only neighbors on the link, and signed segments from one of them.
        let mut wanted = listener(&remote);
        wanted.min_ttl = Some(255);
        wanted.ttl = Some(255);
        let listening = inside(&lab, "b", || wanted.open().unwrap());
        set_tcp_md5(&listening, here.parse().unwrap(), None, "secret").unwrap();
        let listening = TcpListener::from(listening);
        let attempt = |ttl: u8, key: Option<&str>, within: Duration| {
            let mut request = connector(Some(here), &remote, key);
            (request.ttl, request.dscp) = (Some(ttl), 48);
            connect(inside(&lab, "a", || request.open().unwrap()), &remote, within)
        };
        let is_refused = |ttl, key| attempt(ttl, key, REFUSAL).is_err();
        let accepted = |key| attempt(255, key, PATIENCE).unwrap();
        assert!(is_refused(255, None), "unsigned");
        assert!(is_refused(255, Some("wrong")), "signed with another key");
        assert!(is_refused(64, Some("secret")), "from too far away");
        let mut client = accepted(Some("secret"));
        assert_eq!(client.local_addr().unwrap().ip().to_string(), here);
        assert!(wait_readable(&listening));
        let (mut server, _) = listening.accept().unwrap();
        server.set_nonblocking(false).unwrap();
        client.write_all(b"hello").unwrap();
        let mut octets = [0; 5];
        server.read_exact(&mut octets).unwrap();
        assert_eq!(&octets, b"hello");
        // Without the key the neighbor may come unsigned; removing it twice is no error.
        set_tcp_md5(&listening, here.parse().unwrap(), None, "").unwrap();
        set_tcp_md5(&listening, here.parse().unwrap(), None, "").unwrap();
        accepted(None);
        // A key of a prefix holds for its addresses, but where a longer prefix has another one.
        let prefix = |length: u8, key: &str| {
            set_tcp_md5(&listening, here.parse().unwrap(), Some(length), key).unwrap();
        };
        prefix(8, "of the prefix");
        assert!(is_refused(255, None) && is_refused(255, Some("secret")));
        accepted(Some("of the prefix"));
        prefix(12, "longer");
        assert!(is_refused(255, Some("of the prefix")));
        accepted(Some("longer"));
        prefix(12, "");
        prefix(12, "");
        accepted(Some("of the prefix"));
        assert!(set_tcp_md5(&listening, here.parse().unwrap(), Some(129), "x").is_err());
    }
}

#[test]
fn packets_are_relayed() {
    let Some(lab) = lab() else { return };
    let index = |node: &str| -> u32 {
        let text = lab.exec(node, "ip", ["-o", "link", "show", "dev", "eth0"]).unwrap();
        text.split(':').next().unwrap().parse().unwrap()
    };
    let cases = [
        (Kind::Udp { local: "0.0.0.0:520".parse().unwrap(), last: None }, "224.0.0.9", "10.0.0.1"),
        (Kind::Udp { local: "[::]:521".parse().unwrap(), last: None }, "ff02::9", "fe80::"),
        (Kind::Raw { ipv4: true, protocol: 89 }, "224.0.0.5", "10.0.0.1"),
        (Kind::Raw { ipv4: false, protocol: 89 }, "ff02::5", "fe80::"),
    ];
    for (kind, group, source) in cases {
        let group: IpAddr = group.parse().unwrap();
        let mut wanted = request(kind.clone());
        (wanted.interface, wanted.reception.groups) = (Some("eth0".into()), vec![group]);
        wanted.ttl = Some(1);
        let sender = inside(&lab, "a", || wanted.open().unwrap());
        let receiver = inside(&lab, "b", || wanted.open().unwrap());
        let port = match kind {
            Kind::Udp { local, .. } => local.port(),
            _ => 0,
        };
        relay::send(&sender, SocketAddr::new(group, port), index("a"), b"hello").unwrap();
        assert!(wait_readable(&receiver), "{kind:?}");
        let mut buffer = vec![0; relay::PACKET];
        let raw_ipv4 = matches!(kind, Kind::Raw { ipv4: true, .. });
        let packet = relay::receive(&receiver, raw_ipv4, &mut buffer).unwrap();
        assert_eq!(packet.payload, b"hello");
        assert_eq!((packet.destination, packet.interface, packet.ttl), (group, index("b"), 1), "{kind:?}");
        assert!(packet.source.ip().to_string().starts_with(source), "{packet:?}");
    }
}

#[test]
fn what_cannot_be_opened_has_a_reason() {
    let Some(lab) = lab() else { return };
    let why = |request: SocketRequest| inside(&lab, "a", || request.open().unwrap_err().to_string());
    assert!(why(listener("192.0.2.1:179")).contains("Cannot assign requested address"));
    let mut elsewhere = listener("0.0.0.0:179");
    elsewhere.interface = Some("eth9".into());
    assert!(why(elsewhere).contains("interface eth9"));
    let mut marked = listener("0.0.0.0:179");
    marked.dscp = 64;
    assert!(why(marked).contains("at most 63"));
    let mut grouped = request(Kind::Udp { local: "0.0.0.0:520".parse().unwrap(), last: None });
    grouped.reception.groups = vec!["224.0.0.9".parse().unwrap()];
    assert!(why(grouped).contains("needs an interface"));
    assert!(why(connector(None, "10.0.0.2:179", Some(&"x".repeat(81)))).contains("80 octets"));
}

/// The descriptor of a packet socket of IS-IS on node `b`.
fn isis(lab: &Lab) -> OwnedFd {
    let mut wanted = request(Kind::Packet { protocol: LinkProtocol::Llc(0xfe) });
    wanted.interface = Some("eth0".into());
    wanted.reception.link_groups = vec![LinkGroup(ALL_INTERMEDIATE_SYSTEMS)];
    inside(lab, "b", || wanted.open().unwrap())
}

const ALL_INTERMEDIATE_SYSTEMS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x14];

/// Sends frames from node `a`, each to [`ALL_INTERMEDIATE_SYSTEMS`]: what follows the addresses, in hexadecimal digits.
fn send_frames(lab: &Lab, frames: &[&str]) {
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('eth0', 0))\n\
        own = s.getsockname()[4]\n\
        for frame in sys.argv[1:]:\n    s.send(bytes.fromhex('0180c2000014') + own + bytes.fromhex(frame).ljust(50, b'\\0'))\n";
    lab.exec("a", "python3", [&["-c", script], frames].concat()).unwrap();
}

fn read_frame(socket: &OwnedFd) -> Vec<u8> {
    assert!(wait_readable(socket), "no frame came");
    let mut octets = [0; 1500];
    let length = nix::unistd::read(socket, &mut octets).unwrap();
    octets[..length].to_vec()
}

const LLC_ISIS: &str = "0010fefe0383";
const LLC_SPANNING_TREE: &str = "001042420399";
const LLDP: &str = "88ccfefe0377";

#[test]
fn a_packet_socket_receives_its_protocol_alone() {
    let Some(lab) = lab() else { return };
    let socket = isis(&lab);
    // Frames stay in order: had the filter let one of the first two pass, it would be read first.
    send_frames(&lab, &[LLC_SPANNING_TREE, LLDP, LLC_ISIS]);
    assert_eq!(read_frame(&socket)[..4], [0xfe, 0xfe, 0x03, 0x83]);
    // The component holds the socket: it may bind it to all protocols, and receives no more by that.
    let mut component = lab.command("b", "python3").unwrap();
    component.args(["-c", include_str!("descriptor.py")]).stdin(socket.try_clone().unwrap());
    let output = component.output().unwrap();
    let denied = "Operation not permitted";
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{denied}\n{denied}\n3\n"), "{output:?}");
    send_frames(&lab, &[LLDP, LLC_SPANNING_TREE, LLC_ISIS]);
    assert_eq!(read_frame(&socket)[..4], [0xfe, 0xfe, 0x03, 0x83]);

    let mut lldp = request(Kind::Packet { protocol: LinkProtocol::EtherType(0x88cc) });
    lldp.interface = Some("eth0".into());
    let socket = inside(&lab, "b", || lldp.open().unwrap());
    let mut joining = lldp.clone();
    joining.reception.link_groups = vec![LinkGroup(ALL_INTERMEDIATE_SYSTEMS)];
    let joined = inside(&lab, "b", || joining.open().unwrap());
    send_frames(&lab, &[LLC_ISIS, LLDP]);
    assert_eq!(read_frame(&joined)[..4], [0xfe, 0xfe, 0x03, 0x77]);
    drop((socket, joined));
    lldp.interface = None;
    let why = inside(&lab, "b", || lldp.open().unwrap_err().to_string());
    assert!(why.contains("needs an interface"), "{why}");
}

#[test]
fn icmpv6_of_other_types_does_not_arrive() {
    let Some(lab) = lab() else { return };
    let mut wanted = request(Kind::Raw { ipv4: false, protocol: 58 });
    let sender = inside(&lab, "a", || wanted.open().unwrap());
    // Types for private experiments (RFC 4443): the hosts themselves send none.
    wanted.reception.icmpv6_types = vec![100, 200];
    let receiver = inside(&lab, "b", || wanted.open().unwrap());
    let to: SocketAddr = "[fd00::2]:0".parse().unwrap();
    let mut buffer = vec![0; relay::PACKET];
    for (refused, accepted) in [(201u8, 200u8), (101, 100)] {
        for kind in [refused, accepted] {
            relay::send(&sender, to, 0, &[kind, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        }
        assert!(wait_readable(&receiver));
        let packet = relay::receive(&receiver, false, &mut buffer).unwrap();
        assert_eq!((packet.payload[0], packet.payload.len()), (accepted, 8));
    }
    for (ipv4, protocol) in [(true, 58), (false, 89)] {
        let wrong = SocketRequest { kind: Kind::Raw { ipv4, protocol }, ..wanted.clone() };
        assert!(inside(&lab, "a", || wrong.open().unwrap_err().to_string()).contains("protocol 58"));
    }
}

#[test]
fn a_port_of_a_range_is_for_one_socket() {
    let Some(lab) = lab() else { return };
    let wanted = request(Kind::Udp { local: "10.0.0.1:50000".parse().unwrap(), last: Some(50001) });
    let open = || inside(&lab, "a", || wanted.open());
    let port =
        |socket: &OwnedFd| socket2::SockRef::from(socket).local_addr().unwrap().as_socket().unwrap().port();
    let (first, second) = (open().unwrap(), open().unwrap());
    let mut ports = [port(&first), port(&second)];
    ports.sort_unstable();
    assert_eq!(ports, [50000, 50001]);
    let error = open().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    let free = port(&first);
    drop(first);
    // A program that another test starts at this moment has the socket too until it is executed.
    let mut again = None;
    assert!(until(PATIENCE, || {
        again = open().ok();
        again.is_some()
    }));
    assert_eq!(again.as_ref().map(port), Some(free));
}

#[test]
fn a_connected_socket_speaks_with_one_peer() {
    let Some(lab) = lab() else { return };
    let udp = |local: &str| request(Kind::Udp { local: local.parse().unwrap(), last: None });
    let connected = inside(&lab, "a", || {
        let (local, remote) = ("0.0.0.0".parse().unwrap(), "10.0.0.2:1230".parse().unwrap());
        request(Kind::UdpConnector { local, remote }).open().unwrap()
    });
    let address = socket2::SockRef::from(&connected).local_addr().unwrap().as_socket().unwrap();
    assert_eq!(address.ip(), "10.0.0.1".parse::<IpAddr>().unwrap());
    let (peer, other) =
        inside(&lab, "b", || (udp("0.0.0.0:1230").open().unwrap(), udp("0.0.0.0:1231").open().unwrap()));
    // Datagrams of a host stay in order: a stranger's would be read before the peer's.
    let mut buffer = vec![0; relay::PACKET];
    for greeting in [b"hello", b"again"] {
        relay::send(&other, address, 0, b"a stranger").unwrap();
        relay::send(&peer, address, 0, greeting).unwrap();
        assert!(wait_readable(&connected));
        assert_eq!(relay::receive(&connected, false, &mut buffer).unwrap().payload, greeting);
    }
    let error = relay::receive(&connected, false, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_socket_stays_on_its_interface() {
    let Some(lab) = lab() else { return };
    let mut wanted = request(Kind::Udp { local: "0.0.0.0:520".parse().unwrap(), last: None });
    wanted.interface = Some("lo".into());
    let on_loopback = inside(&lab, "b", || wanted.open().unwrap());
    wanted.interface = Some("eth0".into());
    let on_link = inside(&lab, "b", || wanted.open().unwrap());
    let sender = inside(&lab, "a", || {
        request(Kind::Udp { local: "0.0.0.0:521".parse().unwrap(), last: None }).open().unwrap()
    });
    relay::send(&sender, "10.0.0.2:520".parse().unwrap(), 0, b"hello").unwrap();
    assert!(wait_readable(&on_link));
    let mut buffer = vec![0; relay::PACKET];
    assert_eq!(relay::receive(&on_link, false, &mut buffer).unwrap().payload, b"hello");
    let error = relay::receive(&on_loopback, false, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_token_serves_once_and_only_who_asked() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let dir = tempfile::tempdir().unwrap();
        let descriptors = Rc::new(Descriptors::default());
        descriptors.serve(dir.path()).unwrap();
        let me = std::process::id();
        let file = || Rc::new(OwnedFd::from(File::open("/proc/self/stat").unwrap()));
        let token = descriptors.offer(me, file()).unwrap();
        let fetched = fetch(dir.path(), &token).await.unwrap();
        let mut text = String::new();
        File::from(fetched).read_to_string(&mut text).unwrap();
        assert!(text.starts_with(&me.to_string()));
        let refused = |e: io::Error| e.kind();
        let denied = io::ErrorKind::PermissionDenied;
        assert_eq!(fetch(dir.path(), &token).await.map_err(refused).unwrap_err(), denied, "twice");
        let token = descriptors.offer(me + 1, file()).unwrap();
        assert_eq!(fetch(dir.path(), &token).await.map_err(refused).unwrap_err(), denied, "another's");
        let token = descriptors.offer(me, file()).unwrap();
        assert_eq!(fetch(dir.path(), &token[..15]).await.map_err(refused).unwrap_err(), denied, "too short");
        fetch(dir.path(), &token).await.unwrap();
        // A token for giving takes one descriptor, if it is the right one.
        for is_right in [true, false] {
            let taken = Rc::new(std::cell::Cell::new(None));
            let place = Rc::clone(&taken);
            let accept = move |descriptor: OwnedFd| {
                place.set(Some(descriptor));
                is_right
            };
            let token = descriptors.request(me, accept).unwrap();
            let given = give(dir.path(), &token, file().as_fd()).await;
            assert_eq!(given.map_err(refused).err(), (!is_right).then_some(denied));
            let mut text = String::new();
            File::from(taken.take().unwrap()).read_to_string(&mut text).unwrap();
            assert!(text.starts_with(&me.to_string()));
            assert_eq!(give(dir.path(), &token, file().as_fd()).await.map_err(refused), Err(denied), "twice");
        }
        let token = descriptors.request(me, |_| true).unwrap();
        assert_eq!(fetch(dir.path(), &token).await.map_err(refused).unwrap_err(), denied, "nothing given");
        let held = file();
        let token = descriptors.offer(me, Rc::clone(&held)).unwrap();
        descriptors.withdraw(&held);
        assert_eq!(fetch(dir.path(), &token).await.map_err(refused).unwrap_err(), denied, "withdrawn");
        // Strangers, which are this process without anything to fetch, are in nobody's way however many there are.
        let address = SocketAddrUnix::new(socket_path(dir.path())).unwrap();
        let stranger = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let socket = socket.unwrap();
            rustix::net::connect(&socket, &address).unwrap();
            socket
        };
        let strangers: Vec<_> = (0..200).map(|_| stranger()).collect();
        // The socket's queue is one for all: the last stranger is served after the others.
        let last =
            tokio::net::UnixStream::from_std(strangers.last().unwrap().try_clone().unwrap().into()).unwrap();
        last.readable().await.unwrap();
        let token = descriptors.offer(me, file()).unwrap();
        fetch(dir.path(), &token).await.unwrap();
    });
}
