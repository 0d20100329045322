"""Prefixes and addresses as messages."""

import unittest

from sluice_xrl.rib import Route, _change, addr, net

AD = "ad-" + "a1" * 20


class RibTest(unittest.TestCase):
    def test_xids_are_keys_of_their_family(self) -> None:
        octets = bytes([0, 0, 0, 0x10]) + b"\xa1" * 20
        self.assertEqual(net(AD), {"octets": octets, "length": 192, "family": 10})
        self.assertEqual(addr(AD), {"octets": octets, "family": 10})
        prefix = net("lpm-0a" + "00" * 19 + "/8")
        self.assertEqual((prefix["octets"][:5], prefix["length"]), (bytes([0, 0, 0, 0x21, 10]), 40))
        self.assertEqual(net("10.0.0.0/8"), {"octets": bytes([10, 0, 0, 0]), "length": 8})
        self.assertEqual(addr("2001:db8::1")["octets"][:2], b"\x20\x01")

    def test_wrong_texts_are_refused(self) -> None:
        for text in ("ad-1", "nothing-" + "00" * 20, AD + "/161", "lpm-0a01" + "00" * 18 + "/8", "ad-" + "zz" * 20):
            self.assertRaises(ValueError, net, text)

    def test_a_route_may_lead_to_this_host(self) -> None:
        sets: list[dict] = []
        _change(Route(AD, local=True), sets)
        _change(Route(AD, via=["hid-" + "b2" * 20]), sets)
        self.assertEqual(sets[0]["forwarding"], {"kind": "LOCAL", "next_hops": []})
        self.assertEqual(sets[1]["forwarding"]["next_hops"][0]["gateway"]["family"], 10)


if __name__ == "__main__":
    unittest.main()
