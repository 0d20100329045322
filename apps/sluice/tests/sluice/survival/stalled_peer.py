"""A BGP speaker that brings a session up and then never reads again: `stalled_peer.py LOCAL-AS ROUTER-ID PEER HOLD-TIME`. It takes
routes of the family that the session runs over. It goes on sending KEEPALIVEs for as long as its standard input is open, and stands still after that until it is killed."""

import select
import signal
import socket
import struct
import sys

OPEN, KEEPALIVE = 1, 4
local_as, router_id, peer, hold_time = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])


def message(kind, body=b""):
    return b"\xff" * 16 + struct.pack("!HB", 19 + len(body), kind) + body


def read_message(stream):
    header = stream.recv(19, socket.MSG_WAITALL)
    length, kind = struct.unpack("!HB", header[16:])
    if length > 19:
        stream.recv(length - 19, socket.MSG_WAITALL)
    return kind


over_ipv6 = ":" in peer
# RFC 5492 and RFC 4760: a capability, in a parameter, in a list of parameters.
family = struct.pack("!HBB", 2 if over_ipv6 else 1, 0, 1)
parameters = bytes([8, 2, 6, 1, 4]) + family
stream = socket.socket(socket.AF_INET6 if over_ipv6 else socket.AF_INET)
stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
stream.connect((peer, 179))
stream.sendall(message(OPEN, struct.pack("!BHH4s", 4, local_as, hold_time, socket.inet_aton(router_id)) + parameters))
while read_message(stream) != OPEN:
    pass
stream.sendall(message(KEEPALIVE))
while read_message(stream) != KEEPALIVE:
    pass
print("established", flush=True)
while not select.select([sys.stdin], [], [], hold_time / 3)[0]:
    stream.sendall(message(KEEPALIVE))
print("silent", flush=True)
signal.pause()
