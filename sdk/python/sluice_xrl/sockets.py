"""Sockets of the router's network, which the FEA opens.

    sockets = Sockets(router)
    hello = await sockets.udp(5520, interface="eth0", groups=["224.0.0.9"], ttl=1)

`[sockets]` in rights.toml lists which sockets a component may have; docs/fea.md has the keys.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import XrlError
from .router import Router

_SOCKETS = "fea.v1.Sockets"
_PATIENCE = 5.0


class Sockets:
    """Opens sockets by the FEA. Each is non-blocking, and the component's until it is closed."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def udp(
        self, port: int, *, local: str = "0.0.0.0", interface: str = "", groups: Sequence[str] = (), ttl: int = 0
    ) -> socket.socket:
        """A UDP socket, bound to a port that other sockets with other interfaces may have too."""
        options = _options(interface, groups, ttl)
        return await self.open("OpenUdp", {"local": _address(local), "port": port, "options": options})

    async def udp_to(self, remote: str, port: int, *, local: str = "", interface: str = "") -> socket.socket:
        """A UDP socket connected to an address and port, from any free port."""
        from_ = local or _any(remote)
        request = {"local": _address(from_), "remote": _address(remote), "remote_port": port}
        return await self.open("OpenUdp", {**request, "options": _options(interface)})

    async def tcp_listener(self, port: int, *, local: str = "0.0.0.0", interface: str = "") -> socket.socket:
        """A TCP socket that listens."""
        request = {"local": _address(local), "port": port, "options": _options(interface), "backlog": 16}
        return await self.open("OpenTcpListener", request)

    async def tcp(self, remote: str, port: int, *, local: str = "", interface: str = "") -> socket.socket:
        """A TCP socket for connecting to an address and port: `await loop.sock_connect(it, (remote, port))`."""
        from_ = local or _any(remote)
        request = {"local": _address(from_), "remote": _address(remote), "remote_port": port}
        return await self.open("OpenTcp", {**request, "options": _options(interface)})

    async def raw(self, protocol: int, *, family: int = 4, interface: str = "", groups: Sequence[str] = ()) -> socket.socket:
        """A raw IP socket of a protocol; the family is 4 or 6."""
        return await self.open("OpenRaw", {"family": family, "protocol": protocol, "options": _options(interface, groups)})

    async def open(self, method: str, request: Mapping[str, Any]) -> socket.socket:
        """Opens a socket by a method of `fea.v1.Sockets`. Raises XrlError with the FEA's reason for a refusal."""
        client = await self._router.client("fea", _SOCKETS)
        reply = await client.call(method, request)
        opened = socket.socket(fileno=await self.fetch(reply["token"]))
        opened.setblocking(False)
        return opened

    async def fetch(self, token: bytes) -> int:
        """The descriptor that a token of the FEA stands for: of a socket, or of a map (`fea.v1.Programs`)."""
        path = Path(self._router.socket_dir).parent / "fea" / "fea.fd"
        return await asyncio.to_thread(_fetch, str(path), token)


def _fetch(path: str, token: bytes) -> int:
    """The descriptor that a token stands for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
        way.settimeout(_PATIENCE)
        try:
            way.connect(path)
            way.send(token)
            _, descriptors, _, _ = socket.recv_fds(way, 1, 1)
        except OSError as error:
            raise XrlError("Disconnected", f"{path}: {error}") from error
    if len(descriptors) != 1:
        raise XrlError("AccessDenied", "the FEA does not know the token")
    return int(descriptors[0])


def _any(remote: str) -> str:
    """The address that stands for any of the family of another one."""
    return "0.0.0.0" if ipaddress.ip_address(remote).version == 4 else "::"


def _address(text: str) -> dict[str, bytes]:
    return {"octets": ipaddress.ip_address(text).packed}


def _options(interface: str, groups: Sequence[str] = (), ttl: int = 0) -> dict[str, Any]:
    return {"interface": interface, "ttl": ttl, "multicast_groups": [_address(group) for group in groups]}
