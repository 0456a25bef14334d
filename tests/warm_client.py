"""Has a command done by `tests/warm.py`, with the streams of this process, and ends as it ended.

It is started a thousand times, so it imports nothing that an interpreter does not have anyway.
"""

import _socket
import posix
import sys

asked = _socket.socket(_socket.AF_UNIX)
asked.connect(sys.argv[1])
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
    posix.kill(posix.getpid(), -code)
posix._exit(code)
