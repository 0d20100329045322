"""Deciding for a type of XIDs: XIP asks where packets go, in batches, and takes the answers. See docs/xia/principals.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import XrlError
from .rib import xid, xid_text
from .router import Client, Router
from .schema import Schema

OWNER = "xip.v1.PrincipalOwner/Ask"
_PRINCIPAL = "xip.v1.Principal"
_RETRY = 5.0
_MOST_ANSWERS = 1024


@dataclass(frozen=True)
class Decision:
    """A decision about an XID. `token` is the number by which decisions are taken back together."""

    kind: str
    token: int = 0
    target: str = ""

    @staticmethod
    def redirect(target: str, token: int = 0) -> "Decision":
        """Looks up an XID of another type instead."""
        return Decision("REDIRECT", token, target)

    @staticmethod
    def next_edge(token: int = 0) -> "Decision":
        """Leaves the packet to the next edge of its address."""
        return Decision("NEXT_EDGE", token)

    @staticmethod
    def local(token: int = 0) -> "Decision":
        """The XID is a place in this router: routing goes on at the node behind it."""
        return Decision("LOCAL", token)

    @staticmethod
    def drop(token: int = 0) -> "Decision":
        """Drops the packets."""
        return Decision("DROP", token)


class Principals:
    """The types of a component. Answers and tokens leave in the order of the decisions."""

    def __init__(
        self,
        types: Sequence[str],
        decide: Callable[[str], Awaitable[Decision]],
        degraded: Callable[[str, str], None],
        task: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._types = types
        self._decide = decide
        self._degraded = degraded
        self._task = task
        self._client: Client | None = None
        self._in_order = asyncio.Lock()

    async def schema(self, router: Router) -> Schema:
        """XIP's schema, as soon as XIP runs."""
        async for event in router.watch_class("xip"):
            if event.born:
                try:
                    return await router.schema("xip", _PRINCIPAL)
                except XrlError as error:
                    if not error.is_death:
                        raise
        raise XrlError("NoFinder", "the router manager is gone")

    async def follow(self, router: Router, target: str) -> None:
        """Registers the types at every XIP that comes to life. Never returns."""
        registering: list[asyncio.Task[None]] = []
        async for event in router.watch_class("xip"):
            for task in registering:
                task.cancel()
            registering = []
            self._client = await router.client("xip", _PRINCIPAL) if event.born else None
            if self._client is not None:
                work = (self._register(self._client, kind, target) for kind in self._types)
                registering = [asyncio.create_task(coroutine) for coroutine in work]

    async def _register(self, client: Client, kind: str, target: str) -> None:
        """Registers a type, as soon as no other process has the type."""
        while True:
            try:
                await client.call("Register", {"type": kind, "target": target})
            except XrlError as error:
                self._degraded(kind, str(error))
                await asyncio.sleep(_RETRY)
            else:
                self._degraded(kind, "")
                return

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The method that XIP calls. The answers follow in calls of their own."""
        self._task(self._answer(request["type"], request["xids"]))
        return {}

    async def _answer(self, kind: str, xids: Sequence[bytes]) -> None:
        async with self._in_order:
            answers = [_answer(octets, await self._decide(xid_text(octets))) for octets in xids]
            reply = await self._call("Answer", {"type": kind, "answers": answers})
        if reply.get("refused"):
            self._degraded(kind, f"XIP refused {reply['refused']} answers: {reply['reason']}")

    async def take_back(self, tokens: Sequence[int]) -> None:
        """Ends the decisions with these tokens, of all types."""
        async with self._in_order:
            for kind in self._types:
                for start in range(0, len(tokens), _MOST_ANSWERS):
                    some = list(tokens[start : start + _MOST_ANSWERS])
                    await self._call("TakeBack", {"type": kind, "tokens": some})

    async def _call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """Calls XIP. A XIP that has just started asks again whatever it needs, and has nothing to take back."""
        if self._client is None:
            return {}
        try:
            return await self._client.call(method, request)
        except XrlError as error:
            if error.is_death or error.name == "AccessDenied":
                return {}
            raise


def _answer(octets: bytes, decision: Decision) -> dict[str, Any]:
    answer = {"xid": octets, "token": decision.token, "decision": decision.kind}
    return {**answer, "redirect": xid(decision.target)} if decision.target else answer
