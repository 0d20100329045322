"""A component with a packet socket as standard input, which tries to receive more than it may."""
import socket

s = socket.socket(fileno=0)
SO_ATTACH_FILTER, SO_DETACH_FILTER, ETH_P_ALL = 26, 27, 3
for option in (SO_ATTACH_FILTER, SO_DETACH_FILTER):
    try:
        s.setsockopt(socket.SOL_SOCKET, option, b"\0" * 16)
        print("changed")
    except OSError as error:
        print(error.strerror)
s.bind(("eth0", ETH_P_ALL))
print(s.getsockname()[1])
