"""Keys that say who calls (docs/xrl.md, "Keys")."""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

from .errors import XrlError

KEY = 16
_DOMAIN = b"sluice xrl key 2"


class Credential(NamedTuple):
    """A caller's key of a method, and the rights by which the Finder gave it."""

    key: bytes
    grant: int
    principal: str

    def octets(self) -> bytes:
        """The credential as the Bind frame carries it, before the path."""
        name = self.principal.encode()
        return self.key + struct.pack(">QB", self.grant, len(name)) + name


NONE = Credential(bytes(KEY), 0, "")


class Holder(NamedTuple):
    """The process and user at the other end of a Unix socket, as the kernel reports them."""

    pid: int
    uid: int


def read_bind(body: bytes) -> tuple[Credential, str]:
    """The credential and the path of a Bind frame."""
    head = KEY + 9
    if len(body) < head:
        raise XrlError("Protocol", "malformed Bind frame")
    grant, length = struct.unpack_from(">QB", body, KEY)
    try:
        principal, path = body[head : head + length].decode(), body[head + length :].decode()
    except UnicodeDecodeError:
        raise XrlError("Protocol", "malformed Bind frame") from None
    return Credential(body[:KEY], grant, principal), path


def key(seal: bytes, grant: int, principal: str, path: str, holder: Holder | None) -> bytes:
    """The key that the Finder makes; `holder` is None for callers by TCP."""
    who = b"\x02" if holder is None else struct.pack(">BII", 1, holder.pid, holder.uid)
    name = principal.encode()
    text = _DOMAIN + struct.pack(">Q", grant) + who + bytes([len(name)]) + name + path.encode()
    return hmac.new(seal, text, hashlib.sha256).digest()[:KEY]
