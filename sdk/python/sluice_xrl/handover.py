"""Hand-over: the values that a process passes to its successor, and their transport.

The successor listens on a Unix socket with message boundaries; its predecessor connects. Each checks with the kernel that the peer is the
process that the manager named. A value is postcard in packets of 64 KiB at most, descriptors lie beside packets (SCM_RIGHTS). The
last value holds the number of values and their checksum. platform/process/src/handover.rs is the same in Rust.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

MOST_OCTETS = 4 << 20
"""Octets of the longest value."""
_PACKET = 65_536
_FORMAT = 1
_MAGIC = "sluice hand-over"
_PIECE, _LAST_PIECE, _DESCRIPTOR, _TAKEN, _REFUSED, _DONE = b"plDtr."
_PATIENCE = 10.0


class HandOverError(Exception):
    """The reason why nothing was handed over."""


def socket_path(folder: str, successor: int) -> Path:
    """The path of a successor's socket in the folder of the component's sockets."""
    return Path(folder) / f"{successor}-handover"


def number(value: int) -> bytes:
    """A number in postcard."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def octets(value: bytes) -> bytes:
    """A text or a list of octets in postcard."""
    return number(len(value)) + value


class Reader:
    """Reads postcard."""

    def __init__(self, value: bytes) -> None:
        self._value, self._at = value, 0

    def number(self) -> int:
        """The next number, of 64 bits at most."""
        found = 0
        for shift in range(0, 70, 7):
            octet = self._take(1)[0]
            found |= (octet & 0x7F) << shift
            if octet < 0x80:
                return found
        raise HandOverError("a number is too long")

    def octets(self) -> bytes:
        """The next text or list of octets."""
        return self._take(self.number())

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._value):
            raise HandOverError("a value is cut off")
        taken, self._at = self._value[self._at : end], end
        return taken


class _End:
    """One end of the way between the processes. Every step waits for ten seconds at most."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.socket.settimeout(_PATIENCE)
        self._values, self._sum = 0, 0

    def _add(self, value: bytes) -> None:
        self._values += 1
        for octet in value:
            self._sum = (self._sum ^ octet) * 0x0100_0000_01B3 & 0xFFFF_FFFF_FFFF_FFFF

    def _tail(self) -> bytes:
        return number(self._values) + number(self._sum)

    def send(self, kind: int, value: bytes = b"") -> None:
        """Sends a packet."""
        self.socket.send(bytes([kind]) + value)

    def receive(self) -> tuple[int, bytes, list[int]]:
        """Kind, octets and descriptors of the next packet."""
        packet, descriptors, _, _ = socket.recv_fds(self.socket, _PACKET + 1, 1)
        if not packet:
            raise HandOverError("the other process is gone")
        return packet[0], packet[1:], descriptors


class Sink(_End):
    """The way to the successor."""

    def __init__(self, folder: str, successor: int, name: str, state: int) -> None:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.settimeout(_PATIENCE)
        end.connect(str(socket_path(folder, successor)))
        super().__init__(end)
        _check_peer(end, successor)
        self.octets, self.descriptors = 0, 0
        head = octets(_MAGIC.encode()) + number(_FORMAT) + octets(name.encode()) + number(state)
        self.put(head + octets(b"python"))

    def put(self, value: bytes) -> None:
        """Sends a value in postcard."""
        if len(value) > MOST_OCTETS:
            raise HandOverError(f"a value has {len(value)} octets")
        pieces = [value[at : at + _PACKET] for at in range(0, len(value), _PACKET)] or [b""]
        for piece in pieces[:-1]:
            self.send(_PIECE, piece)
        self.send(_LAST_PIECE, pieces[-1])
        self._add(value)
        self.octets += len(value)

    def put_long(self, value: bytes) -> None:
        """Sends octets of any length, in values."""
        size = MOST_OCTETS // 2
        pieces = [value[at : at + size] for at in range(0, len(value), size)]
        self.put(number(len(pieces)))
        for piece in pieces:
            self.put(octets(piece))

    def put_descriptor(self, descriptor: int) -> None:
        """Sends a descriptor; the process keeps its own copy."""
        socket.send_fds(self.socket, [bytes([_DESCRIPTOR])], [descriptor])
        self.descriptors += 1

    def finish(self) -> None:
        """Waits until the successor has received and checked everything."""
        self.put(self._tail())
        kind, reason, _ = self.receive()
        if kind != _TAKEN:
            raise HandOverError(reason.decode(errors="replace") or "the new process refuses")

    def taken_over(self) -> bool:
        """Waits until the successor has taken over (True), or has ended."""
        self.socket.settimeout(None)
        try:
            return self.receive()[0] == _DONE
        except (HandOverError, OSError):
            return False


class Source(_End):
    """The way from the predecessor."""

    def __init__(self, end: socket.socket, name: str, state: int) -> None:
        super().__init__(end)
        head = Reader(self.take())
        theirs = (head.octets(), head.number(), head.octets(), head.number())
        if theirs != (_MAGIC.encode(), _FORMAT, name.encode(), state):
            difference = f"{theirs[2].decode(errors='replace')} hands over state of version {theirs[1]}.{theirs[3]}"
            self.refuse(f"{difference}, this is {name} for version {_FORMAT}.{state}")
            raise HandOverError(difference)

    def take(self) -> bytes:
        """The next value."""
        value = bytearray()
        while True:
            kind, piece, _ = self.receive()
            value += piece
            if kind not in (_PIECE, _LAST_PIECE) or len(value) > MOST_OCTETS:
                raise HandOverError("a value was expected")
            if kind == _LAST_PIECE:
                break
        self._last = self._tail()
        self._add(value)
        return bytes(value)

    def take_long(self) -> bytes:
        """The next octets of any length."""
        count = Reader(self.take()).number()
        return b"".join(Reader(self.take()).octets() for _ in range(count))

    def take_descriptor(self) -> int:
        """The next descriptor."""
        kind, _, descriptors = self.receive()
        if kind != _DESCRIPTOR or len(descriptors) != 1:
            raise HandOverError("a descriptor was expected")
        return descriptors[0]

    def finish(self) -> None:
        """Checks that what came is what was sent."""
        if self.take() != self._last:
            raise HandOverError("what came is not what was sent")

    def accept(self) -> None:
        """Notifies the predecessor that everything was taken."""
        self.send(_TAKEN)

    def refuse(self, reason: str) -> None:
        """Notifies the predecessor why nothing was taken."""
        self.send(_REFUSED, reason.encode()[:_PACKET])

    def done(self) -> None:
        """Notifies the predecessor that this process is the component now."""
        self.send(_DONE)


def listen(folder: str) -> socket.socket:
    """Listens for the predecessor."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.settimeout(2 * _PATIENCE)
    listener.bind(str(socket_path(folder, os.getpid())))
    listener.listen(1)
    return listener


def accept(listener: socket.socket, predecessor: int) -> socket.socket:
    """The connection from the predecessor; nobody else is waited for afterwards."""
    try:
        end, _ = listener.accept()
    finally:
        Path(listener.getsockname()).unlink(missing_ok=True)
        listener.close()
    _check_peer(end, predecessor)
    return end


def _check_peer(end: socket.socket, expected: int) -> None:
    pid, _, _ = struct.unpack("iII", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid != expected:
        raise HandOverError("another process is at the other end")
