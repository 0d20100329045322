"""Both sides of a connection."""

from __future__ import annotations

import asyncio
import hmac
import socket
import struct
from dataclasses import dataclass
from typing import Awaitable, Callable

from . import frames, keys
from .errors import XrlError
from .frames import Kind
from .keys import Credential, Holder

# Calls that may be outstanding on one connection; more wait.
WINDOW = 256
# Handlers of one connection that may be going on at once; beyond that it is not read from.
MAX_RUNNING = 1024

Handler = Callable[[bytes], Awaitable[bytes]]


async def dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a Unix socket (a path) or to HOST:PORT."""
    try:
        if "/" in address:
            return await asyncio.open_unix_connection(address)
        host, _, port = address.rpartition(":")
        return await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError as error:
        raise XrlError("Disconnected", f"{address}: {error}") from error


def peer(writer: asyncio.StreamWriter) -> Holder | None:
    """The process at the other end of a Unix socket; None for TCP."""
    end = writer.get_extra_info("socket")
    if end is None or end.family != socket.AF_UNIX:
        return None
    pid, uid, _ = struct.unpack("iII", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Holder(pid, uid)


class Caller:
    """The calling side: many calls at once, each with a number of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._bound: dict[str, tuple[Credential, int]] = {}
        self._next = 0
        self._window = asyncio.Semaphore(WINDOW)
        self.closed = False
        self.peer = peer(writer)
        writer.write(frames.hello())
        self._task = asyncio.create_task(self._receive(reader))

    @staticmethod
    async def connect(address: str) -> "Caller":
        """A connection to a target's socket."""
        return Caller(*await dial(address))

    def _bind(self, path: str, credential: Credential) -> int:
        known = self._bound.get(path)
        if known is not None and known[0] == credential:
            return known[1]
        number = known[1] if known is not None else len(self._bound)
        self._bound[path] = (credential, number)
        self._writer.write(frames.encode(Kind.BIND, 0, number, credential.octets() + path.encode()))
        return number

    async def call(
        self, path: str, credential: Credential, arguments: bytes, within: float | None = None
    ) -> bytes:
        """Calls INSTANCE/INTERFACE/METHOD. Cancelling this cancels the call at the receiver too."""
        async with self._window:
            if self.closed:
                raise XrlError("Disconnected", "closed")
            number = self._bind(path, credential)
            sequence, self._next = self._next, (self._next + 1) & 0xFFFF_FFFF
            if within is None:
                frame = frames.encode(Kind.CALL, sequence, number, arguments)
            else:
                head = struct.pack(">I", max(1, int(within * 1000)))
                frame = frames.encode(Kind.CALL_WITHIN, sequence, number, head + arguments)
            reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting[sequence] = reply
            self._writer.write(frame)
            try:
                await self._writer.drain()
                return await asyncio.wait_for(reply, within)
            except (asyncio.CancelledError, asyncio.TimeoutError) as error:
                if not self.closed:
                    self._writer.write(frames.encode(Kind.CANCEL, sequence, 0))
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise XrlError("DeadlineExceeded") from None
            except ConnectionError as error:
                raise XrlError("Disconnected", str(error)) from error

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        why = XrlError("Disconnected", "closed by the other side")
        try:
            while True:
                frame = await frames.read(reader)
                if frame.kind == Kind.CLOSE:
                    why = XrlError.decode(frame.body)
                    break
                # A reply to a call that was given up finds nobody any more.
                waiting = self._waiting.pop(frame.sequence, None)
                if waiting is None or waiting.done():
                    continue
                if frame.kind == Kind.REPLY:
                    waiting.set_result(frame.body)
                else:
                    waiting.set_exception(XrlError.decode(frame.body))
        except EOFError:
            pass
        except XrlError as error:
            why = error
        finally:
            self.closed = True
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(why)
            self._waiting.clear()

    async def close(self) -> None:
        """Ends the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@dataclass
class Entry:
    """A method that is served."""

    seals: list[bytes]
    handler: Handler


class Server:
    """The receiving side: the methods of a process, and the connections to them."""

    def __init__(self) -> None:
        self.methods: dict[str, Entry] = {}
        self.revoked: set[int] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen_unix(self, path: str) -> None:
        """Listens on a Unix socket."""
        self._servers.append(await asyncio.start_unix_server(self._accept, path))

    async def listen_tcp(self, host: str) -> str:
        """Listens on a TCP port that the system chooses; returns HOST:PORT."""
        server = await asyncio.start_server(self._accept, host, 0)
        self._servers.append(server)
        name = server.sockets[0].getsockname()
        return f"{name[0]}:{name[1]}"

    async def close(self) -> None:
        """Ends everything."""
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        running: dict[int, asyncio.Task[None]] = {}
        try:
            await self._serve(reader, writer, running)
        except (EOFError, ConnectionError, asyncio.CancelledError):
            pass
        except XrlError as error:
            writer.write(frames.encode(Kind.CLOSE, 0, 0, error.encode()))
        finally:
            for handler in running.values():
                handler.cancel()
            writer.close()
            self._tasks.discard(task)

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        running: dict[int, asyncio.Task[None]],
    ) -> None:
        bound: dict[int, tuple[Entry, int] | XrlError] = {}
        holder = peer(writer)
        free = asyncio.Semaphore(MAX_RUNNING)
        frame = await frames.read(reader)
        if frame.kind != Kind.HELLO or frame.method != frames.VERSION or frame.body != frames.MAGIC:
            raise XrlError("Protocol", f"expected Hello of version {frames.VERSION}")
        while True:
            frame = await frames.read(reader)
            if frame.kind == Kind.BIND:
                bound[frame.method] = self._find(frame.body, holder)
            elif frame.kind == Kind.CANCEL:
                handler = running.get(frame.sequence)
                if handler is not None:
                    handler.cancel()
            elif frame.kind in (Kind.CALL, Kind.CALL_WITHIN):
                await free.acquire()
                within, arguments = None, frame.body
                if frame.kind == Kind.CALL_WITHIN:
                    if len(arguments) < 4:
                        raise XrlError("Protocol", "a call without its time")
                    within, arguments = struct.unpack_from(">I", arguments)[0] / 1000, arguments[4:]
                if frame.method not in bound:
                    raise XrlError("Protocol", f"method number {frame.method} is not bound")
                entry = self._usable(bound[frame.method])
                work = self._answer(writer, frame.sequence, entry, arguments, within)
                task = asyncio.create_task(work)
                running[frame.sequence] = task

                def ended(_: object, sequence: int = frame.sequence) -> None:
                    running.pop(sequence, None)
                    free.release()

                task.add_done_callback(ended)
                # A caller that does not read its replies is not read from.
                await writer.drain()
            else:
                raise XrlError("Protocol", f"unexpected {frame.kind.name} frame")

    def _find(self, body: bytes, holder: Holder | None) -> "tuple[Entry, int] | XrlError":
        credential, path = keys.read_bind(body)
        entry = self.methods.get(path)
        if entry is None:
            return XrlError("BadKey")
        for seal in entry.seals:
            expected = keys.key(seal, credential.grant, credential.principal, path, holder)
            if hmac.compare_digest(expected, credential.key) and credential.grant not in self.revoked:
                return entry, credential.grant
        return XrlError("BadKey")

    def _usable(self, bound: "tuple[Entry, int] | XrlError") -> "Entry | XrlError":
        if isinstance(bound, XrlError):
            return bound
        entry, grant = bound
        return XrlError("AccessDenied", "the caller's rights were taken away") if grant in self.revoked else entry

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        sequence: int,
        entry: "Entry | XrlError",
        arguments: bytes,
        within: float | None,
    ) -> None:
        try:
            if isinstance(entry, XrlError):
                raise entry
            reply = await asyncio.wait_for(entry.handler(arguments), within)
            frame = frames.encode(Kind.REPLY, sequence, 0, reply)
        except XrlError as error:
            frame = frames.encode(Kind.ERROR, sequence, 0, error.encode())
        except asyncio.TimeoutError:
            frame = frames.encode(Kind.ERROR, sequence, 0, XrlError("DeadlineExceeded").encode())
        except asyncio.CancelledError:
            frame = frames.encode(Kind.ERROR, sequence, 0, XrlError("Cancelled").encode())
        except Exception as error:  # noqa: BLE001: a handler's fault is the caller's reply, never the process's end
            text = f"{type(error).__name__}: {error}"
            frame = frames.encode(Kind.ERROR, sequence, 0, XrlError("Internal", text).encode())
        if not writer.is_closing():
            writer.write(frame)
