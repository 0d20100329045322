"""The floods, each a loop until the process is killed: `floods.py FLOOD RUN-DIR`, with the component's secret on standard input.

The process connects by itself: raw sockets and frames, with keys that it resolves as the component."""

import itertools
import select
import socket
import struct
import sys
import time
from collections import deque
from pathlib import Path

from sluice_xrl import codec, frames
from sluice_xrl.frames import Kind
from sluice_xrl.keys import NONE, Credential
from sluice_xrl.router import _only_bytes_field
from sluice_xrl.schema import Schema

FINDER = "finder/finder.v1.Finder/"
# Connections that a process holds open.
CONNECTIONS = 5000
# Connections for floods of calls and frames, to each target.
MANY = 64
# An address in an encoded LookupRoute: 192.0.2.1.
LOOKUP = b"\x12\x06\x0a\x04\xc0\x00\x02\x01"


def connect(path: str) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(path)
    return stream


def read_frame(stream: socket.socket) -> tuple[int, bytes]:
    """Kind and body of the next frame."""
    head = stream.recv(11, socket.MSG_WAITALL)
    if len(head) < 11:
        raise ConnectionError("closed")
    length, kind = struct.unpack_from(">IB", head)
    body = b""
    while len(body) < length - 7:
        part = stream.recv(length - 7 - len(body))
        if not part:
            raise ConnectionError("closed")
        body += part
    return kind, body


def bind(number: int, credential: Credential, path: str) -> bytes:
    return frames.encode(Kind.BIND, 0, number, credential.octets() + path.encode())


class Target:
    """A socket, and the frames with which a connection to it begins: it is no guest after these."""

    def __init__(self, name: str, path: str, opening: bytes, call: bytes) -> None:
        self.name, self.path, self.opening, self.call = name, path, opening, call

    def open(self) -> socket.socket:
        stream = connect(self.path)
        stream.sendall(self.opening)
        return stream


class Finder:
    """A connection to the Finder with the component's secret."""

    def __init__(self, run_dir: str, secret: bytes) -> None:
        self.path = str(Path(run_dir) / "finder.sock")
        self.hello = b"\x0a" + bytes([len(secret)]) + secret
        self.stream = connect(self.path)
        self.stream.sendall(frames.hello())
        self.numbers: dict[str, int] = {}
        self.ask("Hello", self.hello)
        descriptors = self.ask("GetDescriptors", b"\x0a\x06finder")
        self.schema = Schema.from_descriptors(_only_bytes_field(descriptors))

    def ask(self, method: str, body: bytes) -> bytes:
        if method not in self.numbers:
            self.numbers[method] = len(self.numbers)
            self.stream.sendall(bind(self.numbers[method], NONE, FINDER + method))
        self.stream.sendall(frames.encode(Kind.CALL, 1, self.numbers[method], body))
        kind, body = read_frame(self.stream)
        if kind != Kind.REPLY:
            raise ConnectionError(f"{method}: {body[6:]!r}")
        return body

    def target(self) -> Target:
        """The Finder's own socket; the call is one for a target that does not exist."""
        opening = frames.hello() + bind(0, NONE, FINDER + "Hello") + frames.encode(Kind.CALL, 0, 0, self.hello)
        opening += bind(1, NONE, FINDER + "ListTargets")
        return Target("finder", self.path, opening, frames.encode(Kind.CALL, 7, 1))

    def resolve(self, target: str, interface: str, method: str, call: bytes) -> Target:
        request = {"target": target, "interface": interface, "method": method}
        octets = codec.encode(self.schema, "finder.v1.ResolveRequest", request)
        reply = codec.decode(self.schema, "finder.v1.ResolveReply", self.ask("Resolve", octets))
        credential = Credential(reply["key"], reply["grant"], "flooder")
        path = next(e["address"] for e in reply["endpoints"] if e["family"] == "UNIX")
        bound = bind(1, credential, f"{reply['instance']}/{interface}/{method}")
        return Target(target, path, frames.hello() + bound, frames.encode(Kind.CALL, 7, 1, call))


class Flood:
    """The floods of a process."""

    def __init__(self, run_dir: str, secret: bytes) -> None:
        self.finder = Finder(run_dir, secret)
        self.lookup = self.finder.resolve("rib", "rib.v1.Rib", "LookupRoute", LOOKUP)
        self.interfaces = self.finder.resolve("fea", "fea.v1.Interfaces", "GetInterfaces", b"")
        self.targets = [self.finder.target(), self.lookup, self.interfaces]

    def connections(self) -> None:
        """Opens connections as fast as it can, half of them without a secret or a key, and holds the newest."""
        held: deque[socket.socket] = deque()
        for number in itertools.count():
            target = self.targets[number // 2 % len(self.targets)]
            try:
                held.append(target.open() if number % 2 else connect(target.path))
                refused = False
            except OSError:
                refused = True
            # Who is refused has what is allowed: the oldest makes room for the next one.
            if held and (refused or len(held) > CONNECTIONS):
                held.popleft().close()

    def calls(self) -> None:
        """Calls on many connections, and reads the answers."""
        self.flow([(target, target.call * 200) for target in self.targets], reads=True)

    def slow(self) -> None:
        """Calls on many connections, and reads no answer."""
        self.flow([(target, target.call * 200) for target in self.targets], reads=False)

    def flow(self, octets: list[tuple[Target, bytes]], reads: bool) -> None:
        """Keeps many connections to each target open, and writes the octets to each, again and again."""
        streams: dict[int, tuple[socket.socket, Target, bytes]] = {}
        poll = select.poll()
        wanted = [pair for pair in octets for _ in range(MANY)]

        def open_one(target: Target, written: bytes) -> None:
            stream = target.open()
            stream.setblocking(False)
            streams[stream.fileno()] = (stream, target, written)
            poll.register(stream, select.POLLOUT | (select.POLLIN if reads else 0))

        for target, written in wanted:
            open_one(target, written)
        left: dict[int, bytes] = {}
        while True:
            for number, events in poll.poll(100):
                stream, target, written = streams[number]
                try:
                    if events & select.POLLOUT:
                        rest = left.pop(number, written)
                        sent = stream.send(rest)
                        if sent < len(rest):
                            left[number] = rest[sent:]
                    if events & select.POLLIN and not stream.recv(1 << 16):
                        raise ConnectionError
                    if events & (select.POLLHUP | select.POLLERR):
                        raise ConnectionError
                except BlockingIOError:
                    pass
                except OSError:
                    poll.unregister(stream)
                    stream.close()
                    del streams[number]
                    left.pop(number, None)
                    open_one(target, written)

    def frames(self) -> None:
        """Half frames, frames that are too long or none, and frames with as many fields as fit."""
        update = self.finder.resolve("rib", "rib.v1.Rib", "UpdateRoutes", b"")
        head = struct.Struct(">IBIH").pack
        routes = b"\x32\x00" * (500 << 10)
        # Almost all of a frame of 1 MiB, of one of 16 MiB, and as much as a connection takes of neither.
        half = head(1 << 20, Kind.CALL, 7, 1) + bytes((1 << 20) - 64)
        huge = head(16 << 20, Kind.CALL, 7, 1) + bytes(1 << 20)
        full = frames.encode(Kind.CALL, 7, 1, routes)
        garbage = head(7, 99, 0, 0)
        for octets in itertools.cycle([half, huge, full, garbage]):
            held = []
            ends = select.poll()
            for target in [self.targets[0], update, self.interfaces]:
                for _ in range(MANY):
                    try:
                        stream = target.open()
                        held.append(stream)
                        ends.register(stream, 0)
                        stream.settimeout(0.02)
                        stream.sendall(octets)
                    except OSError:
                        pass
            # Until the other side ends one, or a while: it may wait for the rest.
            ends.poll(100)
            for stream in held:
                stream.close()

    def registrations(self) -> None:
        """Registers targets, watches, origins and subscriptions, and never ends one."""
        encode, schema = codec.encode, self.finder.schema
        me = encode(schema, "rib.v1.RegisterOriginRequest", {"origin": "flooder", "distance": 100})
        watch = encode(schema, "rib.v1.SubscribeRequest", {"target": "flooder", "family": 4})
        origin = self.finder.resolve("rib", "rib.v1.Rib", "RegisterOrigin", me)
        subscription = self.finder.resolve("rib", "rib.v1.Rib", "Subscribe", watch)
        interfaces = self.finder.resolve("fea", "fea.v1.Interfaces", "Subscribe", b"\x0a\x07flooder")
        streams = [(target, target.open()) for target in (origin, subscription, interfaces)]
        for number in itertools.count():
            name = f"flooder-{number}-{time.time_ns()}"
            interface = {"name": "flooder.v1.Flooder", "descriptors": bytes(1 << 18)}
            request = {"class": "flooder", "instance": name, "interfaces": [interface]}
            enable = encode(schema, "finder.v1.EnableRequest", {"instance": name})
            for method, octets in [
                ("Register", encode(schema, "finder.v1.RegisterRequest", request)),
                ("Enable", enable),
                ("Watch", encode(schema, "finder.v1.WatchRequest", {"class": name + "x" * (1 << 18)})),
                ("Watch", encode(schema, "finder.v1.WatchRequest", {"class": name})),
            ]:
                try:
                    self.finder.ask(method, octets)
                except ConnectionError as error:
                    if str(error) == "closed":
                        raise
            for index, (target, stream) in enumerate(streams):
                try:
                    stream.settimeout(0.05)
                    stream.sendall(target.call * 50)
                    stream.recv(1 << 16)
                except OSError:
                    stream.close()
                    streams[index] = (target, target.open())


def main() -> None:
    flood, run_dir = sys.argv[1:]
    secret = bytes.fromhex(sys.stdin.read(32))
    while True:
        try:
            flooding = Flood(run_dir, secret)
            break
        except OSError:
            # The connections of the flood before are not closed yet. An attempt takes as long as the refusal of the Finder.
            continue
    print(f"flood {flood}: begun", flush=True)
    getattr(flooding, flood)()


main()
