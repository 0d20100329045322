"""A process of ExaBGP: announces two prefixes when the session is up, withdraws and announces the first one again and again, and then the
second one once."""

import sys
import time


def say(line):
    print(line, flush=True)
    # ExaBGP joins what comes at once.
    time.sleep(0.3)


for line in sys.stdin:
    if '"up"' in line:
        break
for prefix in "100.64.1.0/24", "100.64.2.0/24":
    say(f"announce route {prefix} next-hop self")
for prefix, flaps in ("100.64.1.0/24", 2), ("100.64.2.0/24", 1):
    for _ in range(flaps):
        say(f"withdraw route {prefix}")
        say(f"announce route {prefix} next-hop self")
for line in sys.stdin:
    pass
