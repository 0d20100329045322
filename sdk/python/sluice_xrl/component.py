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
import resource
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from .errors import XrlError, application
from .router import Method, Router
from .schema import Schema

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

    def task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `work` beside everything else until it returns. If it raises, the process ends with the exception on standard error
        and exit status 1, and the router manager starts it again."""
        task = asyncio.get_running_loop().create_task(work)
        self._own()[0].add(task)
        task.add_done_callback(self._done)
        return task

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

    async def started(self, router: Router) -> None:
        """It is registered."""

    async def ended(self, for_good: bool) -> None:
        """It is about to end; with `for_good` the router goes on without it."""


class _Part:
    """A part of the configuration, by what stands directly in it, with the shared subtrees that the component takes too."""

    def __init__(self) -> None:
        self.members: dict[str, Any] = {}
        self.lists: dict[str, dict[tuple[str, ...], Any]] = {}
        self.shared: dict[str, _Part] = {}

    def after(self, change: Mapping[str, Any]) -> "_Part":
        """This with a change carried out."""
        part = _Part() if change.get("clear") else self._copy()
        for edit in change["edits"]:
            subtree = edit.get("subtree")
            target = part if subtree is None else part.shared.setdefault(subtree, _Part())
            target._edit(edit)
        return part

    def _copy(self) -> "_Part":
        part = _Part()
        part.members = dict(self.members)
        part.lists = {name: dict(entries) for name, entries in self.lists.items()}
        part.shared = {name: subtree._copy() for name, subtree in self.shared.items()}
        return part

    def _edit(self, edit: Mapping[str, Any]) -> None:
        name, value = edit["name"], edit.get("value")
        place, key = self.members, name
        if "key" in edit:
            place, key = self.lists.setdefault(name, {}), tuple(edit["key"])
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value

    def whole(self) -> dict[str, Any]:
        """All of it as the schema has it; a shared subtree is a member of its name."""
        lists = {name: list(entries.values()) for name, entries in self.lists.items() if entries}
        shared = {name: subtree.whole() for name, subtree in self.shared.items()}
        return {**self.members, **lists, **{name: subtree for name, subtree in shared.items() if subtree}}


class _Life:
    """What every component answers."""

    def __init__(self, component: Component, target_class: str, version: str) -> None:
        self.component, self.target_class, self.version = component, target_class, version
        self.part = _Part()
        self.prepared: tuple[int, _Part] | None = None
        self.begun: tuple[int, _Part, set[str]] | None = None
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
    life = _Life(component, target_class, version)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, life.end.set)
    served = {
        f"{_COMPONENT}/GetStatus": life.get_status,
        f"{_COMPONENT}/Prepare": life.prepare,
        f"{_COMPONENT}/Apply": life.apply,
        f"{_COMPONENT}/Abandon": life.abandon,
        f"{_COMPONENT}/Shutdown": life.shutdown,
    }
    together = router.platform_schema().with_files_of(schema) if schema else router.platform_schema()
    component._own()
    component._failure = asyncio.get_running_loop().create_future()
    await router.register(target_class, together, {**served, **methods}, instance=name, singleton=True)
    await component.started(router)
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
