"""Both ends of a hand-over, inside a process. The router manager decides when; what follows when the other process ends is decided here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from .errors import XrlError, application
from .handover import HandOverError, Reader, Sink, Source, accept, listen, number
from .part import Part
from .router import Method, Router
from .schema import Schema

if TYPE_CHECKING:
    from .component import Life

_Step = Callable[[], Awaitable[None]]

_NEXT_STEP = 10.0
_NAME = 3.0
_LOOK_AGAIN = 0.005


class _Stage(Enum):
    NONE = auto()
    GIVING = auto()
    GIVEN = auto()
    RELEASED = auto()
    TAKEN = auto()


class Succession:
    """A process's part in a hand-over. `register` takes the component's name, `begin` starts its work."""

    def __init__(self, router: Router, life: "Life", name: str, register: _Step, begin: _Step) -> None:
        self._router, self._life, self._name, self._register, self._begin = router, life, name, register, begin
        self._stage = _Stage.NONE
        self._waiting_name = ""
        self._source: Source | None = None
        self._taken: tuple[Part, bytes, list[int]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def methods(self) -> dict[str, Method]:
        """The methods of `common.v1.Component` for hand-overs."""
        return {"HandOver": self.hand_over, "Release": self.release, "TakeOver": self.take_over}

    # The process that hands over.

    async def hand_over(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._stage is not _Stage.NONE or not self._life.ready:
            raise application(1, "it is not ready, or hands over already")
        self._stage, self._life.at_rest = _Stage.GIVING, True
        component, successor = self._life.component, request["successor"]
        try:
            await component.rest()
            state, descriptors = await component.hand_over()
            part = json.dumps(self._life.part.change()).encode()
            sink = await asyncio.to_thread(self._give, successor, part, state, list(descriptors))
        except (HandOverError, OSError) as error:
            print(f"not handed over: this process goes on: {error}", file=sys.stderr)
            await self._go_on()
            raise application(1, str(error)) from error
        self._stage = _Stage.GIVEN
        self._beside(self._follow(sink, successor))
        return {"octets": sink.octets, "descriptors": sink.descriptors}

    def _give(self, successor: int, part: bytes, state: bytes, descriptors: list[int]) -> Sink:
        version = self._life.component.STATE
        assert version is not None
        sink = Sink(self._router.socket_dir, successor, self._name, version)
        sink.put_long(part)
        sink.put_long(state)
        sink.put(number(len(descriptors)))
        for descriptor in descriptors:
            sink.put_descriptor(descriptor)
        sink.finish()
        return sink

    async def _follow(self, sink: Sink, successor: int) -> None:
        """Waits until the successor has taken over, and ends; or until it is gone, and goes on."""
        ended = asyncio.create_task(asyncio.to_thread(sink.taken_over))
        done, _ = await asyncio.wait({ended}, timeout=_NEXT_STEP)
        # A successor that was allowed to take over is the one who knows what is.
        if not done and self._stage is _Stage.GIVEN:
            os.kill(successor, signal.SIGKILL)
        if await ended:
            os._exit(0)  # without a word to anybody: what is open is the successor's now
        print("the new process is gone: this one goes on", file=sys.stderr)
        await self._go_on()

    async def release(self, _request: dict[str, Any]) -> dict[str, Any]:
        if self._stage is not _Stage.GIVEN:
            raise application(1, "nothing was handed over, or the new process is gone")
        self._stage = _Stage.RELEASED
        await self._router.unregister(self._name)
        return {}

    async def _go_on(self) -> None:
        released = self._stage is _Stage.RELEASED
        self._stage, self._life.at_rest = _Stage.NONE, False
        if released:
            await self._take_name()
        await self._begin()
        self._life.component.apply(self._life.part.whole())

    # The process that takes over.

    async def succeed(self, predecessor: int, schema: Schema, methods: Mapping[str, Method]) -> None:
        """Takes the state of the process `predecessor`. Exits on failure: the state is still the predecessor's."""
        # The manager has the predecessor connect as soon as this process is registered.
        listener = listen(self._router.socket_dir)
        waiting = f"{self._name}:next"
        self._waiting_name = await self._router.register(waiting, schema, methods, singleton=True)
        try:
            self._source = await asyncio.to_thread(self._take, listener, predecessor)
        except (HandOverError, OSError, ValueError) as error:
            sys.exit(f"cannot take over: {error}")
        self._stage = _Stage.TAKEN
        self._beside(self._expect())

    def _take(self, listener: socket.socket, predecessor: int) -> Source:
        component = self._life.component
        assert component.STATE is not None
        source = Source(accept(listener, predecessor), self._name, component.STATE)
        try:
            part = Part().after(json.loads(source.take_long()))
            component.prepare(part.whole(), sorted(part.whole()))
            state = source.take_long()
            count = Reader(source.take()).number()
            descriptors = [source.take_descriptor() for _ in range(count)]
            source.finish()
            component.take_over(state, descriptors)
        except (HandOverError, ValueError) as error:
            source.refuse(str(error))
            raise
        self._life.part = part
        source.accept()
        return source

    async def _expect(self) -> None:
        await asyncio.sleep(_NEXT_STEP)
        if self._stage is _Stage.TAKEN:
            print("it was not asked in time to take over", file=sys.stderr)
            os._exit(1)

    async def take_over(self, _request: dict[str, Any]) -> dict[str, Any]:
        if self._stage is not _Stage.TAKEN or self._source is None:
            raise application(1, "it has nothing to take over")
        try:
            await asyncio.wait_for(self._take_name(), _NAME)
        except asyncio.TimeoutError:
            raise application(1, "the name is not free") from None
        self._stage, self._life.ready = _Stage.NONE, True
        await self._begin()
        self._life.component.apply(self._life.part.whole())
        await self._router.unregister(self._waiting_name)
        self._source.done()
        return {"version": self._life.version}

    async def _take_name(self) -> None:
        while True:
            try:
                return await self._register()
            except XrlError as error:
                if error.name != "NameTaken":
                    raise
            await asyncio.sleep(_LOOK_AGAIN)

    def _beside(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
