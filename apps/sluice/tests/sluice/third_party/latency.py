"""Two BGP speakers in one process, for the time that a route takes through a router: `latency.py`, as AS 64501 at 10.1.0.2 and as
AS 64502 at 10.2.0.2, with the router as AS 64500 at 10.1.0.1 and 10.2.0.1. Prints `ready` when both sessions are up. For each line
`COUNT` of standard input it announces COUNT routes at the first session, 5 ms apart, and prints the times in microseconds until
each has come out of the second one; then it withdraws them. It ends with an error when a session ends."""

import os
import select
import socket
import struct
import sys
import time

OPEN, UPDATE, NOTIFICATION, KEEPALIVE = 1, 2, 3, 4
HOLD_TIME = 30
PAUSE = 0.005
# How long the routes may take.
PATIENCE = 20.0


def message(kind, body=b""):
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def attribute(flags, code, value):
    return struct.pack("!BBB", flags, code, len(value)) + value


class Session:
    """An established session."""

    def __init__(self, local, router, asn):
        self.local, self.asn, self.octets, self.sent = local, asn, b"", time.monotonic()
        while True:
            try:
                self.stream = socket.create_connection((router, 179), source_address=(local, 0))
                body = struct.pack("!BHH4sB", 4, asn, HOLD_TIME, socket.inet_aton(local), 8)
                # Capabilities: IPv4 unicast.
                self.stream.sendall(message(OPEN, body + bytes([2, 6, 1, 4, 0, 1, 0, 1])))
                self.expect(OPEN)
                self.send(KEEPALIVE)
                self.expect(KEEPALIVE)
                break
            except (OSError, EOFError):
                time.sleep(0.2)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def expect(self, wanted):
        while True:
            for kind, _ in self.read():
                if kind == wanted:
                    return

    def send(self, kind, body=b""):
        self.stream.sendall(message(kind, body))
        self.sent = time.monotonic()

    def read(self):
        """The messages that have come; waits for some octets."""
        octets = self.stream.recv(1 << 16)
        if not octets:
            raise EOFError(f"the router closed the session of {self.local}")
        self.octets += octets
        messages = []
        while len(self.octets) >= 19:
            length, kind = struct.unpack_from("!HB", self.octets, 16)
            if len(self.octets) < length:
                break
            if kind == NOTIFICATION:
                raise EOFError(f"{self.local}: NOTIFICATION {self.octets[19:length]}")
            messages.append((kind, self.octets[19:length]))
            self.octets = self.octets[length:]
        return messages

    def keep_alive(self):
        if time.monotonic() - self.sent > HOLD_TIME / 3:
            self.send(KEEPALIVE)

    def announce(self, number):
        path = attribute(0x40, 2, struct.pack("!BBH", 2, 1, self.asn))
        attributes = attribute(0x40, 1, b"\0") + path + attribute(0x40, 3, socket.inet_aton(self.local))
        self.send(UPDATE, struct.pack("!HH", 0, len(attributes)) + attributes + prefix(number))

    def withdraw(self, numbers):
        for number in numbers:
            self.send(UPDATE, struct.pack("!H", 4) + prefix(number) + bytes(2))


def prefix(number):
    """198.18.NUMBER.0/24, or of the network behind that."""
    return bytes([24, 198, 18 + number // 256, number % 256])


def numbers(octets):
    return [(octets[i + 2] - 18) * 256 + octets[i + 3] for i in range(0, len(octets), 4)]


def wait(first, second, until):
    """Handles what comes until a time; yields the routes announced and withdrawn by the router, with the time."""
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([first.stream, second.stream], [], [], left)
        now = time.monotonic()
        for session in (first, second):
            session.keep_alive()
            if session.stream not in ready:
                continue
            for kind, body in session.read():
                if kind == UPDATE and session is second:
                    gone = struct.unpack_from("!H", body)[0]
                    size = struct.unpack_from("!H", body, 2 + gone)[0]
                    yield now, numbers(body[4 + gone + size :]), numbers(body[2 : 2 + gone])


def sample(first, second, count):
    announced_at, took = {}, {}
    for number in range(count):
        announced_at[number] = time.monotonic()
        first.announce(number)
        for now, announced, _ in wait(first, second, announced_at[number] + PAUSE):
            took.update({n: now - announced_at[n] for n in announced if n not in took})
    end = time.monotonic() + PATIENCE
    while len(took) < count and time.monotonic() < end:
        for now, announced, _ in wait(first, second, time.monotonic() + PAUSE):
            took.update({n: now - announced_at[n] for n in announced if n not in took})
    first.withdraw(range(count))
    left = set(range(count))
    while left and time.monotonic() < end + PATIENCE:
        for _, _, gone in wait(first, second, time.monotonic() + PAUSE):
            left.difference_update(gone)
    print(" ".join(str(int(seconds * 1e6)) for seconds in took.values()), flush=True)


first, second = Session("10.1.0.2", "10.1.0.1", 64501), Session("10.2.0.2", "10.2.0.1", 64502)
print("ready", flush=True)
orders = b""
while True:
    if select.select([sys.stdin], [], [], 0)[0]:
        octets = os.read(0, 4096)
        if not octets:
            break
        orders += octets
    while b"\n" in orders:
        line, _, orders = orders.partition(b"\n")
        sample(first, second, int(line))
    for _ in wait(first, second, time.monotonic() + 0.05):
        pass
