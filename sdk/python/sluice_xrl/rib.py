"""Being an origin of routes in the RIB.

    origin = RibOrigin(router, "rip", distance=120, grace=60)
    component.task(origin.run(announce_all))       # announce_all() is called for every RIB that comes to life
    await origin.update([Route("10.1.0.0/16", via=["192.0.2.1"], metric=2), Withdrawal("10.2.0.0/16")])
    await origin.update(all_routes, complete=True) # what was announced in an earlier life, and not again, is swept
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import XrlError
from .router import Client, Router

_RIB = "rib.v1.Rib"
_IPV4, _IPV6, _XID = 4, 6, 10
_PRINCIPALS = {
    "ad": 0x10, "hid": 0x11, "cid": 0x12, "sid": 0x13, "uni4id": 0x14, "i4id": 0x15, "u4id": 0x16, "xdp": 0x17, "serval": 0x18,
    "flowid": 0x19, "u6id": 0x1B, "zf": 0x20, "lpm": 0x21, "ether": 0x22, "x4id": 0x50, "i6id": 0x51, "x6id": 0x52, "hidv2": 0x53,
    "ndn": 0x54, "ants": 0x55,
}


@dataclass(frozen=True)
class Route:
    """A route to announce: its prefix, and the addresses or the interface that packets go to; neither discards them, `local` means this
    host. Prefixes and addresses may be XIDs: `ad-` and 40 hexadecimal digits, and `/` with the number of bits of the ID for a prefix."""

    prefix: str
    via: Sequence[str] = field(default_factory=tuple)
    interface: int = 0
    metric: int = 0
    tag: int = 0
    local: bool = False


@dataclass(frozen=True)
class Withdrawal:
    """A prefix that the origin has no route for any more."""

    prefix: str


class RibOrigin:
    """An origin: registers with every RIB that comes to life, and sends changes in order."""

    def __init__(
        self,
        router: Router,
        name: str,
        *,
        distance: int,
        external: bool = False,
        grace: int = 60,
        target: str = "",
        table: int = 0,
    ) -> None:
        self._router = router
        self._register = {
            "origin": name, "target": target, "table": table, "distance": distance, "external": external,
            "grace_seconds": grace,
        }
        self._named = {"origin": name, "table": table}
        self._client: Client | None = None
        self._in_order = asyncio.Lock()

    async def run(self, announce_all: Callable[[], Awaitable[None]]) -> None:
        """Registers whenever the RIB comes to life, and has `announce_all` announce every route that is known by then. Never returns.
        Raises XrlError if the RIB refuses the origin, as it does where a right is missing."""
        async for event in self._router.watch_class("rib"):
            if not event.born:
                self._client = None
                continue
            client = await self._router.client("rib", _RIB)
            try:
                await client.call("RegisterOrigin", self._register)
                self._client = client
                await announce_all()
            except XrlError as error:
                if not error.is_death:
                    raise
                self._client = None  # that RIB died; the next one receives everything

    async def update(self, changes: Sequence[Route | Withdrawal], complete: bool = False) -> None:
        """Announces and withdraws routes, in order. With `complete` everything has been announced then, and the RIB sweeps the routes
        of an earlier life that were not announced again. Does nothing while there is no RIB: the next one receives everything."""
        try:
            await self._update(changes, complete)
        except XrlError as error:
            if not error.is_death:
                raise
            self._client = None  # that RIB died; the next one receives everything

    async def _update(self, changes: Sequence[Route | Withdrawal], complete: bool) -> None:
        for family in (_IPV4, _IPV6, _XID):
            of_family = [c for c in changes if _family(c.prefix) == family]
            client = self._client
            if not of_family or client is None:
                continue
            sets: list[dict[str, Any]] = []
            routes = [_change(change, sets) for change in of_family]
            request = {**self._named, "family": family, "sets": sets, "routes": routes}
            async with self._in_order:
                await client.call("UpdateRoutes", request)
        if complete and self._client is not None:
            async with self._in_order:
                await self._client.call("EndOfRefresh", {**self._named, "even_all": not changes})

    async def unregister(self) -> None:
        """Ends the origin for good: the RIB drops its routes at once."""
        client, self._client = self._client, None
        if client is not None:
            async with self._in_order:
                await client.call("UnregisterOrigin", self._named)


def xid(text: str) -> bytes:
    """The 24 octets of an XID's text. Raises ValueError for another text."""
    name, dash, digits = text.partition("-")
    kind = int(name[2:], 16) if name.startswith("0x") else _PRINCIPALS.get(name.lower())
    if not dash or kind is None or len(digits) != 40:
        raise ValueError(f"{text!r} is no XID: expected TYPE-ID with 40 hexadecimal digits")
    return struct.pack(">I", kind) + bytes.fromhex(digits)


def xid_text(octets: bytes) -> str:
    """The text of an XID of 24 octets."""
    kind = struct.unpack(">I", octets[:4])[0]
    name = next((name for name, number in _PRINCIPALS.items() if number == kind), f"0x{kind:x}")
    return f"{name}-{octets[4:].hex()}"


def _family(prefix: str) -> int:
    return _XID if "-" in prefix else ipaddress.ip_network(prefix).version


def net(prefix: str) -> dict[str, Any]:
    """A prefix as a message common.v1.Net. Raises ValueError for a text that is none, or has bits after its length."""
    if _family(prefix) != _XID:
        network = ipaddress.ip_network(prefix)
        return {"octets": network.network_address.packed, "length": network.prefixlen}
    text, _, bits = prefix.partition("/")
    octets, length = xid(text), 32 + int(bits or 160)
    if not 32 <= length <= 192:
        raise ValueError(f"{prefix!r}: expected 0 to 160 bits of the ID")
    if int.from_bytes(octets, "big") & ((1 << (192 - length)) - 1):
        raise ValueError(f"{prefix!r} has bits after its length")
    return {"octets": octets, "length": length, "family": _XID}


def addr(text: str) -> dict[str, Any]:
    """An address as a message common.v1.Addr: an IP address or an XID."""
    return {"octets": xid(text), "family": _XID} if "-" in text else {"octets": ipaddress.ip_address(text).packed}


def _change(change: Route | Withdrawal, sets: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"net": net(change.prefix)}
    if isinstance(change, Withdrawal):
        return {**message, "delete": True}
    hops: list[dict[str, Any]] = [
        {"gateway": addr(address), "interface": change.interface, "weight": 1}
        for address in change.via
    ]
    if not hops and change.interface:
        hops = [{"interface": change.interface, "weight": 1}]
    kind = "LOCAL" if change.local else "NEXT_HOPS" if hops else "DISCARD"
    forwarding = {"kind": kind, "next_hops": [] if change.local else hops}
    entry = {"forwarding": forwarding, "metric": change.metric, "tag": change.tag}
    if entry not in sets:
        sets.append(entry)
    return {**message, "set": sets.index(entry)}
