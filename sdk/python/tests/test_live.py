"""Against a live Finder, and with a Rust caller."""

import asyncio
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from sluice_xrl.keys import NONE
from sluice_xrl import Router, XrlError, application, load
from sluice_xrl.connection import Caller

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SECRET = bytes(range(16))
SCHEMA = load(["greeter.proto"], [HERE, ROOT / "idl"])


def example(name: str) -> str:
    """The path of an example of the crate sluice-xrl, built if need be."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--workspace", "--example", name], cwd=ROOT, check=True
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "debug" / "examples" / name)


class LiveTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.finder_program, cls.call_program = example("finder"), example("call")

    async def asyncSetUp(self) -> None:
        # Starting a process takes longer than a handler should; that is no news here.
        asyncio.get_running_loop().slow_callback_duration = 5
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.socket = os.path.join(self.dir.name, "finder")
        self.finder = subprocess.Popen(
            [self.finder_program, self.socket, SECRET.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.addCleanup(self._stop_finder)
        assert self.finder.stdout is not None
        self.assertEqual(self.finder.stdout.readline(), b"ready\n")

    def _stop_finder(self) -> None:
        self.finder.kill()
        self.finder.communicate()

    async def router(self) -> Router:
        router = await Router.connect(self.socket, SECRET, self.dir.name)
        self.addAsyncCleanup(router.close)
        return router

    async def greeter(self, router: Router, **options: object) -> str:
        async def greet(request: dict) -> dict:
            return {"text": " ".join(["hello " + request["name"]] * request["times"])}

        async def everything(request: dict) -> dict:
            return {k: v for k, v in request.items() if v is not None}

        async def hang(_: dict) -> dict:
            self.hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
            return {}

        async def fail(_: dict) -> dict:
            raise application(7, "no")

        self.hanging, self.ended = asyncio.Event(), asyncio.Event()
        methods = {"Greet": greet, "Everything": everything, "Hang": hang, "Fail": fail}
        methods = {f"greeter.v1.Greeter/{name}": method for name, method in methods.items()}
        return await router.register("greeter", SCHEMA, methods, **options)  # type: ignore[arg-type]

    async def test_calls_and_is_called(self) -> None:
        self.assertEqual(await self.greeter(await self.router()), "greeter")
        router = await self.router()
        client = await router.client("greeter", "greeter.v1.Greeter")
        self.assertEqual(await client.call("Greet", {"name": "you", "times": 2}), {"text": "hello you hello you"})
        many = [client.call("Greet", {"name": str(n), "times": 1}) for n in range(1000)]
        replies = await asyncio.gather(*many)
        self.assertEqual(replies, [{"text": f"hello {n}"} for n in range(1000)])
        value = {"table": {"a": 1}, "mood": "WILD", "i64": -1, "right": {"z": 4}}
        reply = await client.call("Everything", value)
        self.assertEqual({k: reply[k] for k in value}, value)

    async def test_by_tcp(self) -> None:
        await self.greeter(await self.router(), families=("TCP",))
        client = await (await self.router()).client("greeter", "greeter.v1.Greeter")
        self.assertEqual(await client.call("Greet", {"name": "you", "times": 1}), {"text": "hello you"})

    async def test_errors(self) -> None:
        await self.greeter(await self.router())
        router = await self.router()
        client = await router.client("greeter", "greeter.v1.Greeter")

        async def check(call, name: str) -> XrlError:  # type: ignore[no-untyped-def]
            with self.assertRaises(XrlError) as caught:
                await call
            self.assertEqual(caught.exception.name, name)
            return caught.exception

        error = await check(client.call("Fail"), "Application")
        self.assertEqual((error.detail, error.text), (7, "no"))
        await check(client.call("Nothing"), "UnknownMethod")
        await check(client.call("Greet", {"nobody": 1}), "BadArguments")
        await check(router.client("nobody", "greeter.v1.Greeter"), "UnknownTarget")
        await check(Router.connect(self.socket, bytes(16), self.dir.name), "AccessDenied")
        await check(client.call("Hang", within=0.05), "DeadlineExceeded")
        await asyncio.wait_for(self.ended.wait(), 5)

    async def test_cancellation_reaches_the_handler(self) -> None:
        await self.greeter(await self.router())
        client = await (await self.router()).client("greeter", "greeter.v1.Greeter")
        call = asyncio.create_task(client.call("Hang"))
        await asyncio.wait_for(self.hanging.wait(), 5)
        call.cancel()
        await asyncio.wait_for(self.ended.wait(), 5)

    async def test_births_and_deaths(self) -> None:
        router = await self.router()
        events = router.watch_class("greeter")
        first = await self.router()
        await self.greeter(first)
        self.assertEqual(tuple(await anext(events)), (True, "greeter", "greeter"))
        client = await router.client("greeter", "greeter.v1.Greeter")
        await client.call("Greet", {"name": "you", "times": 1})
        await first.close()
        self.assertEqual(tuple(await anext(events)), (False, "greeter", "greeter"))
        with self.assertRaises(XrlError) as caught:
            await client.call("Greet")
        self.assertIn(caught.exception.name, ("UnknownTarget", "Disconnected"))
        await self.greeter(await self.router())
        self.assertEqual(tuple(await anext(events)), (True, "greeter", "greeter"))
        await client.call("Greet", {"name": "you", "times": 1})

    async def test_without_the_key_nothing_is_called(self) -> None:
        receiver = await self.router()
        await self.greeter(receiver)
        address = receiver._endpoints["UNIX"]
        caller = await Caller.connect(address)
        with self.assertRaises(XrlError) as caught:
            await caller.call("greeter/greeter.v1.Greeter/Greet", NONE, b"")
        self.assertEqual(caught.exception.name, "BadKey")
        await caller.close()

    async def test_rust_calls_python_by_text(self) -> None:
        await self.greeter(await self.router())
        text = "finder://greeter/greeter.v1/Greet?name:txt=Rust&times:u32=1"
        args = [self.call_program, self.socket, SECRET.hex(), self.dir.name, text]
        process = await asyncio.create_subprocess_exec(*args, stdout=subprocess.PIPE)
        out, _ = await asyncio.wait_for(process.communicate(), 20)
        self.assertEqual(out.decode().strip(), "text:txt=hello+Rust")


if __name__ == "__main__":
    unittest.main()
