"""The frames of an XRL connection (docs/xrl.md, "Frames")."""

from __future__ import annotations

import asyncio
import struct
from enum import IntEnum
from typing import NamedTuple

from .errors import XrlError

VERSION = 2
MAGIC = b"XRL\n"
MAX_LENGTH = 16 << 20
_HEAD = struct.Struct(">IBIH")


class Kind(IntEnum):
    """What a frame is for."""

    HELLO = 1
    BIND = 2
    CALL = 3
    CALL_WITHIN = 4
    CANCEL = 5
    REPLY = 6
    ERROR = 7
    CLOSE = 8


class Frame(NamedTuple):
    """A frame without its length."""

    kind: Kind
    sequence: int
    method: int
    body: bytes


def encode(kind: Kind, sequence: int, method: int, body: bytes = b"") -> bytes:
    """The frame as octets."""
    length = len(body) + _HEAD.size - 4
    if length > MAX_LENGTH:
        raise XrlError("TooLarge", str(MAX_LENGTH), length)
    return _HEAD.pack(length, kind, sequence, method) + body


def hello() -> bytes:
    """What a caller sends first of all."""
    return encode(Kind.HELLO, 0, VERSION, MAGIC)


async def read(reader: asyncio.StreamReader) -> Frame:
    """The next frame; `EOFError` at the end, XrlError for what is none."""
    try:
        length, kind, sequence, method = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if not _HEAD.size - 4 <= length <= MAX_LENGTH:
            raise XrlError("Protocol", f"frame length {length}")
        body = await reader.readexactly(length + 4 - _HEAD.size)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError from error
    try:
        return Frame(Kind(kind), sequence, method, body)
    except ValueError:
        raise XrlError("Protocol", f"frame kind {kind}") from None
