"""The interfaces of the router, as the FEA knows them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, Callable

from .errors import XrlError
from .router import Router
from .schema import Schema

OBSERVER = "fea.v1.InterfaceObserver/InterfaceChanged"
_INTERFACES = "fea.v1.Interfaces"

Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True)
class Interface:
    """An interface: its addresses with the lengths of their prefixes."""

    index: int
    name: str
    running: bool
    loopback: bool
    addresses: tuple[Address, ...]


class Interfaces:
    """A copy of the FEA's interfaces, by index. `changed` is called after each change once the first copy is whole."""

    def __init__(self, changed: Callable[[dict[int, Interface]], None]) -> None:
        self._changed = changed
        self._all: dict[int, Interface] = {}
        self._before: set[int] | None = set()

    async def schema(self, router: Router) -> Schema:
        """The FEA's schema, as soon as there is an FEA."""
        async for event in router.watch_class("fea"):
            if event.born:
                try:
                    return await router.schema("fea", _INTERFACES)
                except XrlError as error:
                    if not error.is_death:
                        raise
        raise XrlError("NoFinder", "the router manager is gone")

    async def follow(self, router: Router, target: str) -> None:
        """Subscribes `target` at every FEA that comes to life. Never returns."""
        async for event in router.watch_class("fea"):
            if event.born:
                try:
                    client = await router.client("fea", _INTERFACES)
                    await client.call("Subscribe", {"target": target})
                except XrlError as error:
                    if not error.is_death:
                        raise

    async def observe(self, request: dict[str, Any]) -> dict[str, Any]:
        """The method that the FEA calls."""
        for event in request["events"]:
            if event["snapshot_begin"]:
                self._before = set(self._all)
            elif event["changed"] is not None:
                found = _interface(event["changed"])
                self._all[found.index] = found
                if self._before is not None:
                    self._before.discard(found.index)
            elif event["removed"] is not None:
                self._all.pop(event["removed"], None)
            elif event["snapshot_end"]:
                for index in self._before or ():
                    self._all.pop(index, None)
                self._before = None
        if self._before is None:
            self._changed(dict(self._all))
        return {}


def _interface(message: dict[str, Any]) -> Interface:
    addresses = (
        ipaddress.ip_interface((a["addr"]["octets"], a["prefix_length"])) for a in message["addresses"]
    )
    return Interface(
        message["index"], message["name"], message["running"], message["loopback"], tuple(addresses)
    )
