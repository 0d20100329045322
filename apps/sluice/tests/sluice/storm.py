"""Connects from each of many addresses and sends nothing: COUNT PREFIX ADDRESS PORT; the sources are PREFIX.1, PREFIX.2 and so on. Prints how many
connections the other side has not closed, and how many it has; holds the former until its standard input ends, but for two minutes at most."""

import json
import select
import socket
import sys

count, prefix, address, port = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
held, closed = [], 0
for number in range(1, count + 1):
    connection = socket.socket()
    connection.settimeout(10)
    connection.bind((f"{prefix}.{number}", 0))
    connection.connect((address, port))
    try:
        # The OPEN of a router that admits a neighbor, or the end of the connection.
        is_held = bool(connection.recv(1, socket.MSG_PEEK))
    except OSError:
        is_held = False
    if is_held:
        held.append(connection)
    else:
        closed += 1
print(json.dumps({"held": len(held), "closed": closed}), flush=True)
select.select([sys.stdin], [], [], 120)
