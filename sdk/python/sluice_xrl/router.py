"""A process's endpoint: its connection to the Finder, its targets, and clients of others."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Mapping, NamedTuple

from . import codec
from .connection import Caller, Entry, Server
from .errors import XrlError
from .keys import NONE, Credential
from .schema import Schema

# A method of a target: takes the request, returns the reply, both as dictionaries.
Method = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]

_FINDER = "finder.v1.Finder"
_FAMILIES = {"UNIX": 0, "TCP": 1}


class Event(NamedTuple):
    """A birth or a death."""

    born: bool
    target_class: str
    instance: str


class Router:
    """Made by `await Router.connect(...)`. `socket_dir` is the folder of the process's sockets."""

    def __init__(self, link: Caller, principal: str, schema: Schema, socket_dir: str) -> None:
        self._link = link
        self._principal = principal
        self._finder = schema
        self.socket_dir = socket_dir
        self._server = Server()
        self._endpoints: dict[str, str] = {}
        self._resolved: dict[tuple[str, str], tuple[str, Credential, Caller]] = {}
        self._callers: dict[str, Caller] = {}
        self._schemas: dict[tuple[str, str], Schema] = {}
        self._watches: list[asyncio.Queue[Event | None]] = []
        self._events = asyncio.create_task(self._follow())

    @staticmethod
    async def connect(finder: str, secret: bytes | None, socket_dir: str) -> "Router":
        """Connects to the Finder's socket and shows it the process's secret. Without a secret the process has the rights of its user."""
        link = await Caller.connect(finder)
        shown = b"\x0a" + bytes([len(secret)]) + secret if secret else b""
        try:
            # Two messages by hand; after that the Finder sends the form of its messages.
            path = f"finder/{_FINDER}/"
            known = await link.call(path + "Hello", NONE, shown)
            reply = await link.call(path + "GetDescriptors", NONE, b"\x0a\x06finder")
        except BaseException:
            await link.close()
            raise
        descriptors = _only_bytes_field(reply)
        principal = _only_bytes_field(known).decode()
        return Router(link, principal, Schema.from_descriptors(descriptors), socket_dir)

    async def close(self) -> None:
        """Ends all connections; the Finder forgets this process's targets."""
        self._events.cancel()
        await asyncio.gather(self._events, return_exceptions=True)
        for caller in [self._link, *self._callers.values()]:
            await caller.close()
        await self._server.close()
        if "UNIX" in self._endpoints:
            Path(self._endpoints["UNIX"]).unlink(missing_ok=True)

    async def ask(self, method: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Calls a method of the Finder."""
        return await _call(self._finder, self._link, "finder", _FINDER, method, NONE, request or {}, None)

    def platform_schema(self) -> Schema:
        """The interfaces of the platform: what every component answers is among them."""
        return self._finder

    async def lost(self) -> None:
        """Returns when the connection to the Finder is gone."""
        await asyncio.gather(self._events, return_exceptions=True)

    async def targets(self) -> list[dict[str, Any]]:
        """All the targets that there are."""
        return (await self.ask("ListTargets"))["targets"]

    async def schema(self, target: str, interface: str) -> Schema:
        """What an interface of a target looks like, asked of the Finder."""
        schema = self._schemas.get((target, interface))
        if schema is None:
            request = {"target": target, "interface": interface}
            schema = Schema.from_descriptors((await self.ask("GetDescriptors", request))["descriptors"])
            self._schemas[(target, interface)] = schema
        if interface not in schema.services:
            raise XrlError("UnknownInterface", f"{target}/{interface}")
        return schema

    async def client(self, target: str, interface: str) -> "Client":
        """A client for an interface of a target."""
        return Client(self, await self.schema(target, interface), target, interface)

    async def register(
        self,
        target_class: str,
        schema: Schema,
        methods: Mapping[str, Method],
        *,
        instance: str = "",
        singleton: bool = False,
        families: tuple[str, ...] = ("UNIX",),
    ) -> str:
        """Registers a target; `methods` maps INTERFACE/METHOD to handlers. Returns the instance name."""
        interfaces: dict[str, list[str]] = {}
        for path in methods:
            interface, _, method = path.partition("/")
            if interface not in schema.services or method not in schema.services[interface].methods:
                raise XrlError("UnknownMethod", path)
            interfaces.setdefault(interface, []).append(method)
        endpoints = [{"family": f, "address": await self._listen(f)} for f in families]
        descriptors = schema.descriptors()
        offers = [
            {
                "name": i,
                "methods": [{"name": m, "reads": schema.services[i].methods[m].reads} for m in ms],
                "descriptors": descriptors,
            }
            for i, ms in interfaces.items()
        ]
        request = {
            "class": target_class, "instance": instance, "singleton": singleton, "endpoints": endpoints,
            "interfaces": offers, "incarnation": secrets.randbits(63),
        }
        reply = await self.ask("Register", request)
        name: str = reply["instance"]
        paths = [f"{i}/{m}" for i, ms in interfaces.items() for m in ms]
        for path in paths:
            interface, _, method = path.partition("/")
            described = schema.services[interface].methods[method]
            handler = _typed(schema, described.input, described.output, methods[path])
            self._server.methods[f"{name}/{path}"] = Entry([reply["seal"]], handler)
        await self.ask("Enable", {"instance": name})
        return name

    async def unregister(self, instance: str) -> None:
        """Ends a target."""
        await self.ask("Unregister", {"instance": instance})
        for path in [p for p in self._server.methods if p.startswith(instance + "/")]:
            del self._server.methods[path]

    async def watch_class(self, target_class: str) -> AsyncIterator[Event]:
        """Births and deaths of a class, the births of what lives first."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._watches.append(queue)
        try:
            await self.ask("Watch", {"class": target_class})
            while (event := await queue.get()) is not None:
                if event.target_class == target_class:
                    yield event
        finally:
            self._watches.remove(queue)

    async def resolve(self, target: str, interface: str, method: str) -> tuple[str, Credential, Caller]:
        """Instance, credential and connection for a method; kept until the Finder reports that it is void."""
        known = self._resolved.get((target, f"{interface}/{method}"))
        if known is not None and not known[2].closed:
            return known
        request = {"target": target, "interface": interface, "method": method}
        reply = await self.ask("Resolve", request)
        usable = [e for e in reply["endpoints"] if e["family"] in _FAMILIES]
        usable.sort(key=lambda e: _FAMILIES[e["family"]])
        if not usable:
            raise XrlError("NoFamily", "unix, tcp")
        address = usable[0]["address"]
        caller = self._callers.get(address)
        if caller is None or caller.closed:
            caller = self._callers[address] = await Caller.connect(address)
        if caller.peer is not None and caller.peer != (reply["pid"], reply["uid"]):
            # Neither a key nor an argument goes to a process that is not the target.
            await caller.close()
            text = f"{address}: process {caller.peer.pid} listens there, not the target's process {reply['pid']}"
            raise XrlError("Disconnected", text)
        key = reply["network_key"] if caller.peer is None else reply["key"]
        found = (reply["instance"], Credential(key, reply["grant"], self._principal), caller)
        self._resolved[(target, f"{interface}/{method}")] = found
        return found

    def forget(self, target: str) -> None:
        """What was resolved for a target is void."""
        for key in [k for k in self._resolved if k[0] == target]:
            del self._resolved[key]

    async def _listen(self, family: str) -> str:
        if family not in self._endpoints:
            if family == "UNIX":
                path = os.path.join(self.socket_dir, f"{os.getpid()}-{secrets.token_hex(4)}.xrl")
                await self._server.listen_unix(path)
                os.chmod(path, 0o666)
                self._endpoints[family] = path
            elif family == "TCP":
                self._endpoints[family] = await self._server.listen_tcp("127.0.0.1")
            else:
                raise XrlError("NoFamily", family)
        return self._endpoints[family]

    async def _follow(self) -> None:
        try:
            while True:
                for event in (await self.ask("NextEvents"))["events"]:
                    if event["invalid"] is not None:
                        self.forget(event["invalid"])
                        continue
                    if event["revoked"] is not None:
                        self._server.revoked.add(event["revoked"])
                        continue
                    life = event["birth"] or event["death"]
                    life_event = Event(event["birth"] is not None, life["class"], life["instance"])
                    for queue in self._watches:
                        queue.put_nowait(life_event)
        except XrlError:
            pass
        finally:
            for queue in self._watches:
                queue.put_nowait(None)


class Client:
    """Calls an interface of a target: `await client.call("SetLocalAs", {"as": 65001})`."""

    def __init__(self, router: Router, schema: Schema, target: str, interface: str) -> None:
        self._router = router
        self._schema = schema
        self._target = target
        self._interface = interface

    async def call(
        self, method: str, request: Mapping[str, Any] | None = None, within: float | None = None
    ) -> dict[str, Any]:
        """Calls a method; `within` is the deadline in seconds."""
        if method not in self._schema.services[self._interface].methods:
            raise XrlError("UnknownMethod", f"{self._target}/{self._interface}/{method}")
        instance, credential, caller = await self._router.resolve(self._target, self._interface, method)
        try:
            return await _call(
                self._schema, caller, instance, self._interface, method, credential, request or {}, within
            )
        except XrlError as error:
            if error.name in ("BadKey", "UnknownTarget", "Disconnected"):
                self._router.forget(self._target)
            raise


async def _call(
    schema: Schema,
    caller: Caller,
    instance: str,
    interface: str,
    method: str,
    credential: Credential,
    request: Mapping[str, Any],
    within: float | None,
) -> dict[str, Any]:
    described = schema.services[interface].methods[method]
    arguments = codec.encode(schema, described.input, request)
    reply = await caller.call(f"{instance}/{interface}/{method}", credential, arguments, within)
    return codec.decode(schema, described.output, reply)


def _typed(schema: Schema, request: str, reply: str, method: Method) -> Callable[[bytes], Awaitable[bytes]]:
    async def handle(arguments: bytes) -> bytes:
        return codec.encode(schema, reply, await method(codec.decode(schema, request, arguments)))

    return handle


def _only_bytes_field(message: bytes) -> bytes:
    """The value of a message whose only field is a bytes field number 1."""
    at = shift = size = 0
    if message[:1] != b"\x0a":
        raise XrlError("Protocol", "no descriptors")
    while True:
        at += 1
        size |= (message[at] & 0x7F) << shift
        shift += 7
        if message[at] < 0x80:
            return message[at + 1 : at + 1 + size]
