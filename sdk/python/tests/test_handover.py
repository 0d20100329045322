"""Hand-over between two ends in one process, its own successor."""

import os
import tempfile
import threading
import unittest

from sluice_xrl.handover import HandOverError, Reader, Sink, Source, accept, listen, number, octets


class HandOver(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def pass_on(self, version: int) -> tuple[bytes, bytes]:
        """Passes values and a descriptor; `version` is the one that the successor expects."""
        listener = listen(self.folder)
        taken: list[tuple[bytes, bytes]] = []

        def take() -> None:
            try:
                source = Source(accept(listener, os.getpid()), "test", version)
            except HandOverError:
                return
            long = source.take_long()
            with os.fdopen(source.take_descriptor(), "rb") as file:
                read = file.read()
            source.finish()
            source.accept()
            taken.append((long, read))

        taking = threading.Thread(target=take)
        taking.start()
        try:
            sink = Sink(self.folder, os.getpid(), "test", 1)
            sink.put_long(b"7" * 300_000)
            reading, writing = os.pipe()
            os.write(writing, b"the end")
            os.close(writing)
            sink.put_descriptor(reading)
            os.close(reading)
            sink.finish()
        finally:
            taking.join()
        return taken[0]

    def test_values_and_descriptors_arrive(self) -> None:
        self.assertEqual(self.pass_on(1), (b"7" * 300_000, b"the end"))

    def test_state_of_another_version_is_refused_with_the_reason(self) -> None:
        with self.assertRaises((HandOverError, OSError)):
            self.pass_on(2)

    def test_numbers_are_those_of_postcard(self) -> None:
        for value, written in [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (2**64 - 1, b"\xff" * 9 + b"\x01")]:
            self.assertEqual(number(value), written)
            self.assertEqual(Reader(written).number(), value)
        self.assertEqual(Reader(octets(b"abc")).octets(), b"abc")
        for wrong in [b"", b"\x80", b"\x05abc", b"\xff" * 11]:
            with self.assertRaises(HandOverError):
                Reader(wrong).octets()


if __name__ == "__main__":
    unittest.main()
