"""A component of the router in Python: the manager starts it, configures it, and asks how it is.

    class Hello(Component):
        def prepare(self, part, changed):          # nothing changes here; raise ValueError to refuse
            if part.get("greeting") == "": raise ValueError("an empty greeting greets nobody")
        def apply(self, part):                     # it holds from now on
            self.greeting = part.get("greeting", "hello")

    run(Hello(), schema, {"hello.v1.Hello/Greet": ...})

The executable is called as `PROGRAM run NAME --run-dir FOLDER` and finds its secret on standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import XrlError, application
from .interfaces import OBSERVER, Interface, Interfaces
from .part import Part
from .principal import OWNER, Decision, Principals
from .router import Method, Router
from .schema import Schema
from .succession import Succession

_COMPONENT = "common.v1.Component"


class Component:
    """What a component does with its configuration; override what matters.

    Work that goes on beside calls is given to `task`: a component whose work failed must not look as if it ran."""

    name: str = ""
    """Its class, or CLASS@INSTANCE where a class runs several times."""
    table: int = 0
    """The routing table of the instance, as the RIB takes it; 0: the main table."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[BaseException] | None = None
        self._reasons: dict[str, str] = {}
        self._principals: Principals | None = None

    def task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work` beside everything else until it returns. If it raises, the process ends with the exception on standard error
        and exit status 1, and the router manager starts it again."""
        task = asyncio.get_running_loop().create_task(work)
        self._own()[0].add(task)
        task.add_done_callback(self._done)
        return task

    async def rest(self) -> None:
        """Cancels what was given to `task`, and waits until it has ended."""
        tasks = list(self._own()[0])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def degraded(self, what: str, reason: str) -> None:
        """Has `sluice status` show that the component runs without `what`, and why; an empty reason takes that back."""
        reasons = self._own()[1]
        if reason:
            reasons[what] = f"{what}: {reason}"
        else:
            reasons.pop(what, None)

    def _own(self) -> tuple[set[asyncio.Task[None]], dict[str, str]]:
        """Tasks and reasons, also where a subclass does not call this class's `__init__`."""
        if "_tasks" not in self.__dict__:
            Component.__init__(self)
        return self._tasks, self._reasons

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    def prepare(self, part: dict[str, Any], changed: list[str]) -> None:
        """Whether it would take this part of the tree, in which these members change. Raises ValueError if not."""

    def apply(self, part: dict[str, Any]) -> None:
        """The part that was prepared holds from now on."""

    def interfaces_changed(self, interfaces: dict[int, Interface]) -> None:
        """The router's interfaces by index, all of them, after each change. A component that overrides this has the FEA in `needs`,
        and `fea.v1.Interfaces/Subscribe` in its rights."""

    TYPES: Sequence[str] = ()
    """Types of XIDs that the component decides for, such as `sid`. A component with types overrides `decide`, has `xip` in `needs`,
    and has `xip.v1.Principal/*` and the types in its rights."""

    async def decide(self, xid: str) -> Decision:
        """Where packets go that name an XID of one of `TYPES`. Packets wait for 50 ms; the answer counts later too."""
        return Decision.next_edge()

    async def take_back(self, *tokens: int) -> None:
        """Ends the decisions with these tokens: `decide` is called again when packets name their XIDs."""
        if self.__dict__.get("_principals") is not None:
            await self._principals.take_back(tokens)

    async def started(self, router: Router) -> None:
        """It is registered, and is the component from now on."""

    STATE: int | None = None
    """The version of what `hand_over` returns; None: `sluice restart` ends this process before it starts the next one."""

    async def hand_over(self) -> tuple[bytes, Sequence[int]]:
        """State and descriptors that the next process goes on with. What was given to `task` has been cancelled. If the next process
        fails, `started` and `apply` are called again."""
        return b"", ()

    def take_over(self, state: bytes, descriptors: Sequence[int]) -> None:
        """What the process before this one handed over. `started` and `apply` follow. Raises ValueError to refuse."""

    async def ended(self, for_good: bool) -> None:
        """It is about to end; with `for_good` the router goes on without it."""


class Life:
    """What every component answers."""

    def __init__(self, component: Component, target_class: str, version: str) -> None:
        self.component, self.target_class, self.version = component, target_class, version
        self.at_rest = False
        self.part = Part()
        self.prepared: tuple[int, Part] | None = None
        self.begun: tuple[int, Part, set[str]] | None = None
        self.began = time.monotonic()
        self.ready = False
        self.end = asyncio.Event()
        self.for_good = False

    async def get_status(self, _request: dict[str, Any]) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "class": self.target_class, "version": self.version, "readiness": int(self.ready), "reason": "",
            "uptime_ms": int((time.monotonic() - self.began) * 1000), "memory_bytes": usage.ru_maxrss * 1024,
            "cpu_ms": int((usage.ru_utime + usage.ru_stime) * 1000),
            "degraded": list(self.component._own()[1].values())[:16],
        }

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.at_rest:
            raise application(1, "it hands over to the next process; try again")
        begun, self.begun = self.begun, None
        part, names = self.part, set()
        if begun is not None and begun[0] == request["transaction"]:
            part, names = begun[1:]
        change = json.loads(request["change"])
        part = part.after(change)
        names = names | {edit.get("subtree", edit["name"]) for edit in change["edits"]}
        self.prepared = None
        if request["more"]:
            self.begun = (request["transaction"], part, names)
            return {"effects": []}
        try:
            self.component.prepare(part.whole(), sorted(names))
        except ValueError as error:
            raise application(1, str(error)) from error
        self.prepared = (request["transaction"], part)
        return {"effects": []}

    async def apply(self, request: dict[str, Any]) -> dict[str, Any]:
        prepared, self.prepared = self.prepared, None
        if prepared is None or prepared[0] != request["transaction"]:
            raise application(1, "this change was not prepared; prepare it first")
        self.component.apply(prepared[1].whole())
        self.part, self.ready = prepared[1], True
        return {}

    async def abandon(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.prepared is not None and self.prepared[0] == request["transaction"]:
            self.prepared = None
        return {}

    def methods(self) -> dict[str, Method]:
        """The methods of `common.v1.Component` that every component has."""
        return {
            "GetStatus": self.get_status, "Prepare": self.prepare, "Apply": self.apply, "Abandon": self.abandon,
            "Shutdown": self.shutdown,
        }

    async def shutdown(self, request: dict[str, Any]) -> dict[str, Any]:
        self.for_good = request["for_good"]
        self.end.set()
        return {}


def run(
    component: Component, schema: Schema | None = None, methods: Mapping[str, Method] | None = None, version: str = "0"
) -> None:
    """Runs a component until the manager ends it. `methods` of `schema` are what it serves beside what every component does."""
    parser = argparse.ArgumentParser(description="A component of the router; the router manager starts it.")
    parser.add_argument("run", choices=["run"])
    parser.add_argument("name", metavar="NAME", help="its class, or CLASS@INSTANCE where a class runs several times")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--table", type=int, default=0, help="the routing table of the instance; 0: the main table")
    arguments = parser.parse_args()
    secret = bytes.fromhex(sys.stdin.read(32))
    component.name, component.table = arguments.name, arguments.table
    asyncio.run(_live(component, arguments.name, arguments.run_dir, secret, schema, methods or {}, version))


def _overrides(component: Component, method: str) -> bool:
    return getattr(type(component), method) is not getattr(Component, method)


async def _live(
    component: Component,
    name: str,
    run_dir: Path,
    secret: bytes,
    schema: Schema | None,
    methods: Mapping[str, Method],
    version: str,
) -> None:
    router = await Router.connect(str(run_dir / "finder.sock"), secret, str(run_dir / "xrl" / name))
    target_class = name.split("@")[0]
    life = Life(component, target_class, version)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, life.end.set)
    served = {f"{_COMPONENT}/{name}": method for name, method in life.methods().items()}
    together = router.platform_schema().with_files_of(schema) if schema else router.platform_schema()
    component._own()
    component._failure = asyncio.get_running_loop().create_future()
    interfaces = Interfaces(component.interfaces_changed) if _overrides(component, "interfaces_changed") else None
    if interfaces is not None:
        together = together.with_files_of(await interfaces.schema(router))
        methods = {**methods, OBSERVER: interfaces.observe}
    principals = None
    if component.TYPES:
        principals = Principals(component.TYPES, component.decide, component.degraded, component.task)
        component._principals = principals
        together = together.with_files_of(await principals.schema(router))
        methods = {**methods, OWNER: principals.ask}

    async def register() -> None:
        await router.register(target_class, together, {**served, **methods}, instance=name, singleton=True)

    async def begin() -> None:
        if interfaces is not None:
            component.task(interfaces.follow(router, name))
        if principals is not None:
            component.task(principals.follow(router, name))
        await component.started(router)

    succession = Succession(router, life, name, register, begin)
    if component.STATE is not None:
        served.update({f"{_COMPONENT}/{name}": method for name, method in succession.methods().items()})
    predecessor = os.environ.get("SLUICE_PREDECESSOR")
    if predecessor is None:
        await register()
        await begin()
    else:
        await succession.succeed(int(predecessor), together, served)
    lost = asyncio.create_task(router.lost())
    end = asyncio.create_task(life.end.wait())
    await asyncio.wait({lost, end, component._failure}, return_when=asyncio.FIRST_COMPLETED)
    gone = lost.done()
    lost.cancel()
    end.cancel()
    if component._failure.done():
        await router.close()
        raise component._failure.result()
    await component.ended(life.for_good)
    await asyncio.sleep(0)  # the reply to the call that ended it goes out first
    if gone:
        raise XrlError("NoFinder", "the router manager is gone")
    await router.close()
