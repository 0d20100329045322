"""Keys that say who calls."""

import unittest

from sluice_xrl import XrlError
from sluice_xrl.keys import Credential, Holder, key, read_bind


class KeysTest(unittest.TestCase):
    def test_the_documented_key(self) -> None:
        made = key(bytes([7] * 32), 9, "radar", "bgp/bgp.v1.Bgp/GetPeers", Holder(4711, 62001))
        self.assertEqual(made.hex(), "3545f80afecdb38f7a8ca9e2fa33aa3a")
        self.assertNotEqual(made, key(bytes([7] * 32), 9, "radar", "bgp/bgp.v1.Bgp/GetPeers", None))

    def test_a_bind_comes_back(self) -> None:
        credential = Credential(bytes(range(16)), 2**64 - 1, "radar@red")
        self.assertEqual(read_bind(credential.octets() + b"rib/rib.v1.Rib/Get"), (credential, "rib/rib.v1.Rib/Get"))
        for broken in (b"", bytes(24), bytes(24) + b"\x02\xff\xff"):
            self.assertRaises(XrlError, read_bind, broken)
