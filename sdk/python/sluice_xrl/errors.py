"""What can go wrong with a call (docs/xrl.md, "Errors")."""

from __future__ import annotations

import struct

NAMES = {
    1: "NoFinder",
    2: "UnknownTarget",
    3: "UnknownInterface",
    4: "UnknownMethod",
    5: "BadArguments",
    6: "AccessDenied",
    7: "BadKey",
    8: "Disconnected",
    9: "DeadlineExceeded",
    10: "Cancelled",
    11: "TooLarge",
    12: "NoFamily",
    13: "NameTaken",
    14: "Protocol",
    15: "Internal",
    16: "Busy",
    100: "Application",
}
CODES = {name: code for code, name in NAMES.items()}


class XrlError(Exception):
    """A failed call: `name` is the kind, `text` the reason; `detail` is the interface's own number of an Application error."""

    def __init__(self, name: str, text: str = "", detail: int = 0) -> None:
        super().__init__(f"{name}: {text}" if text else name)
        self.name = name
        self.text = text
        self.detail = detail

    @property
    def is_death(self) -> bool:
        """Whether the target has ended: the next target of its class must be sent everything."""
        return self.name in ("Disconnected", "UnknownTarget")

    def encode(self) -> bytes:
        """The body of an Error frame."""
        return struct.pack(">HI", CODES[self.name], self.detail) + self.text.encode()

    @staticmethod
    def decode(body: bytes) -> "XrlError":
        """The error that the body of an Error frame holds."""
        if len(body) < 6:
            return XrlError("Protocol", "an error without a code")
        code, detail = struct.unpack_from(">HI", body)
        text = body[6:].decode("utf-8", "replace")
        if code not in NAMES:
            return XrlError("Protocol", f"unknown error {code}: {text}")
        return XrlError(NAMES[code], text, detail)


def application(code: int, text: str) -> XrlError:
    """The error of a method that was carried out and refuses."""
    return XrlError("Application", text, code)
