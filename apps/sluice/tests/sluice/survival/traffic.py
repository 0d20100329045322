"""What runs on the hosts of a lab: `source FILE RATE` sends a packet to each address of a file, again and again; `sink` notes
what arrives. Both end when their standard input does, and print a line: the source how many it sent, the sink the numbers of those
that arrived, as ranges."""

import select
import socket
import sys
import time

PORT = 40000
BUFFER = 16 << 20  # octets: what was forwarded must not be lost at the host
SO_RCVBUFFORCE = 33


def is_to_end(within):
    return bool(select.select([sys.stdin], [], [], within)[0])


def source(path, rate):
    sockets = {family: socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)}
    with open(path, encoding="ascii") as file:
        addresses = [(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in file.read().split()]
    sent = 0
    start = time.monotonic()
    # Every address has its turn, however soon the end comes.
    end = False
    while not end or sent < len(addresses):
        due = int((time.monotonic() - start) * rate)
        while sent < due:
            family, address = addresses[sent % len(addresses)]
            try:
                sockets[family].sendto(sent.to_bytes(8, "big"), (address, PORT))
            except OSError:
                pass  # an answer to an earlier packet; both count as sent, and will be missed
            sent += 1
        # The pace; the end is noticed at once.
        end = is_to_end(0.005)
    print(sent)


def ranges(numbers):
    """Consecutive numbers as `FIRST-LAST`."""
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if last is not None:
            yield f"{first}-{last}"
        first = last = number
    if last is not None:
        yield f"{first}-{last}"


def sink():
    own = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)  # IPv4 arrives as mapped addresses
    try:
        own.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    own.bind(("::", PORT))
    print("ready", flush=True)
    seen = set()
    waiting = [own, sys.stdin]
    # After the end of the input only what is still on its way is waited for.
    while ready := select.select(waiting, [], [], None if sys.stdin in waiting else 0.5)[0]:
        if own in ready:
            seen.add(int.from_bytes(own.recv(64), "big"))
        if sys.stdin in ready:
            waiting.remove(sys.stdin)
    print(*ranges(sorted(seen)))


if sys.argv[1] == "source":
    source(sys.argv[2], float(sys.argv[3]))
else:
    sink()
