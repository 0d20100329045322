"""XRL for Python: call Sluice's components, and be one.

    router = await Router.connect("/run/sluice/finder.sock", secret, "/run/sluice/xrl")
    rib = await router.client("rib", "rib.v1.Rib")
    print(await rib.call("GetSummary"))

    schema = load(["greeter.proto"], ["idl"])
    async def greet(request): return {"text": "hello " + request["name"]}
    await router.register("greeter", schema, {"greeter.v1.Greeter/Greet": greet})

Messages are dictionaries by their fields' names; see `codec`. The protocol is in docs/xrl.md.
"""

from .component import Component, run
from .errors import XrlError, application
from .interfaces import Interface
from .principal import Decision
from .proto import ProtoError, load
from .rib import RibOrigin, Route, Withdrawal
from .router import Client, Event, Router
from .schema import Schema
from .sockets import Sockets

__all__ = [
    "Client", "Component", "Decision", "Event", "Interface", "ProtoError", "RibOrigin", "Route", "Router", "Schema", "Sockets",
    "Withdrawal", "XrlError", "application", "load", "run",
]
