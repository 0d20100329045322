"""Sends octets over one TCP connection in both directions at once and prints the hash of the received octets.

both_ways.py listen ADDRESS PORT OCTETS | both_ways.py connect ADDRESS PORT OCTETS
"""

import hashlib
import socket
import sys
import threading

role, address, port, octets = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
family = socket.AF_INET6 if ":" in address else socket.AF_INET

if role == "listen":
    listener = socket.create_server((address, port), family=family)
    print("listening", flush=True)
    listener.settimeout(60)
    connection, _ = listener.accept()
else:
    connection = socket.create_connection((address, port), timeout=60)
connection.settimeout(60)


def send():
    # Each position has another value in both directions, so that lost or repeated parts change the hash.
    seed = role.encode()
    block = b"".join(hashlib.sha256(seed + number.to_bytes(4, "big")).digest() for number in range(2048))
    for begin in range(0, octets, len(block)):
        connection.sendall(block[: octets - begin])
    connection.shutdown(socket.SHUT_WR)


sender = threading.Thread(target=send)
sender.start()
digest, received = hashlib.sha256(), 0
while part := connection.recv(1 << 16):
    digest.update(part)
    received += len(part)
sender.join()
print(received, digest.hexdigest())
