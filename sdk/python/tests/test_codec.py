"""The codec and the reader of interface files."""

import random
import unittest
from pathlib import Path

from sluice_xrl import Schema, XrlError, load
from sluice_xrl.codec import decode, encode

HERE = Path(__file__).parent
IDL = HERE.parents[2] / "idl"
ALL = "greeter.v1.All"


def schema() -> Schema:
    return load(["greeter.proto"], [HERE, IDL])


class CodecTest(unittest.TestCase):
    def test_every_kind_comes_back(self) -> None:
        s = schema()
        value = {
            "i32": -5, "u32": 2**32 - 1, "i64": -(2**63), "u64": 2**64 - 1, "s32": -1, "f64": 7, "d": 0.1, "f": 0.5,
            "b": True, "s": "grüezi", "o": b"\0\xff", "mood": "WILD", "list": [-1, 0, 1], "texts": ["", "a"],
            "inner": {"z": -3}, "inners": [{"z": 1}, {"z": 0}], "table": {"a": 1, "b": 0}, "maybe": 0,
            "left": None, "right": {"z": 9}, "addr": {"octets": b"\x7f\0\0\1", "family": 0}, "fixed": [-2, 2],
        }
        self.assertEqual(decode(s, ALL, encode(s, ALL, value)), value)
        # By way of its own description the schema is the same.
        again = Schema.from_descriptors(s.descriptors())
        self.assertEqual(decode(again, ALL, encode(again, ALL, value)), value)

    def test_methods_say_whether_they_read(self) -> None:
        s = schema()
        for known in [s, Schema.from_descriptors(s.descriptors())]:
            reads = {name: method.reads for name, method in known.services["greeter.v1.Greeter"].methods.items()}
            self.assertEqual(reads, {"Greet": True, "Everything": False, "Hang": False, "Fail": False})

    def test_known_octets(self) -> None:
        s = schema()
        for value, octets in [
            ({}, ""), ({"u32": 300}, "10ac02"), ({"s32": -1}, "2801"), ({"i32": -1}, "08" + "ff" * 9 + "01"),
            ({"list": [1, 2]}, "6a020102"), ({"maybe": 0}, "900100"), ({"table": {"k": 1}}, "8a01050a016b1001"),
        ]:
            self.assertEqual(encode(s, ALL, value).hex(), octets)

    def test_wrong_values(self) -> None:
        s = schema()
        for value in [
            {"u32": -1}, {"u32": 2**32}, {"i32": 2**31}, {"u32": "1"}, {"u32": True}, {"b": 1}, {"s": b""},
            {"nothing": 1}, {"mood": "SAD"}, {"list": 1}, {"inner": 5}, {"u64": 2**64},
        ]:
            with self.assertRaises(XrlError, msg=str(value)) as caught:
                encode(s, ALL, value)
            self.assertEqual(caught.exception.name, "BadArguments")

    def test_garbage_is_refused_in_order(self) -> None:
        s = schema()
        rng = random.Random(4711)
        for _ in range(3000):
            data = rng.randbytes(rng.randrange(24))
            try:
                decode(s, ALL, data)
            except XrlError as error:
                self.assertEqual(error.name, "BadArguments")

    def test_the_platforms_own_interfaces_are_read(self) -> None:
        files = sorted(p.name for p in IDL.glob("*.proto"))
        s = load(files, [IDL])
        self.assertIn("UpdateRoutes", s.services["rib.v1.Rib"].methods)
        self.assertEqual(s.services["common.v1.Component"].methods["GetStatus"].output, "common.v1.GetStatusReply")
