"""Connects again and again: SOURCE ADDRESS PORT, three words for each place to knock at. Prints when it has knocked everywhere; when its
standard input ends it prints how often it was let in and what else it got. Nobody is there who stays longer than two minutes."""

import collections
import json
import select
import socket
import sys
import time


def knock(source, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        try:
            connection.bind((source, 0))
            connection.connect((address, int(port)))
            return "in"
        except OSError as error:
            return error.strerror or str(error)


places = list(zip(*[iter(sys.argv[1:])] * 3))
got = collections.Counter(knock(*place) for place in places)
print("knocks", flush=True)
end = time.monotonic() + 120
while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
    got.update(knock(*place) for place in places)
print(json.dumps(got))
