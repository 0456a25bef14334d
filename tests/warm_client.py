"""Has a command done by `tests/warm.py`, with the streams of this process, and ends as it ended.

Signals that reach this process, also those of its terminal, are sent on to the command.

It is started a thousand times, so it imports nothing that an interpreter does not have anyway.
"""

import _signal
import _socket
import posix
import sys

place = sys.argv[1]
if place[0] == "/":
    asked = _socket.socket(_socket.AF_UNIX)
    asked.connect(place)
    command = int(asked.recv(8, _socket.MSG_WAITALL))
else:  # Whoever starts this has connected, and knows the number of the command.
    descriptor, command = map(int, place.split(":"))
    asked = _socket.socket(fileno=descriptor)
SENT_ON = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGWINCH)
for number in SENT_ON:
    _signal.signal(number, lambda number, _: posix.kill(command, number))
arguments = [word.encode("utf-8", "surrogateescape") for word in sys.argv[2:]]
names = [name + b"=" + value for name, value in posix.environ.items()]
text = b"\0".join([posix.getcwdb(), str(len(arguments)).encode(), *arguments, *names])
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
asked.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
asked.sendall(text)
for stream in range(3):
    posix.close(stream)
code = int(asked.recv(16) or b"70")
if code < 0:
    if -code in SENT_ON:
        _signal.signal(-code, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -code)
posix._exit(code)
