"""Ways out: to listeners of this machine, which stand for every host there is, and to sockets of programs."""

from __future__ import annotations

from tests.attacks.case import Batch

NETWORK = Batch("network")

NETWORK.python("tcp", "net", 'socket.create_connection(("127.0.0.1", TCP), 1).sendall(b"hello")')
NETWORK.bash("tcp of bash", "net", "exec 3<> /dev/tcp/127.0.0.1/$TCP; echo hello >&3")
NETWORK.sh("curl", "net", 'curl -s -m 1 "http://127.0.0.1:$TCP/"', needs="curl")
NETWORK.sh(
    "proxy variable",
    "net",
    'http_proxy="http://127.0.0.1:$TCP" curl -s -m 1 http://example.org/',
    needs="curl",
)
NETWORK.sh("git protocol", "net", 'timeout 1 git ls-remote "git://127.0.0.1:$TCP/x"')
NETWORK.python("tcp over IPv6", "net", 'socket.create_connection(("::1", int(E["TCP6"])), 1)', needs="ipv6")
NETWORK.python(
    "tcp to an address of the machine",
    "net",
    'host, port = E["FAR"].split(); socket.create_connection((host, int(port)), 1)',
    needs="address",
)
NETWORK.python(
    "tcp with data in the first packet",
    "net",
    """
with socket.socket() as made:
    made.settimeout(1)
    made.sendto(b"hello", 0x20000000, ("127.0.0.1", TCP))
""",
)
NETWORK.python(
    "tcp over several paths",
    "net",
    """
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as made:
    made.settimeout(1)
    made.connect(("127.0.0.1", TCP))
""",
    needs="mptcp",
)
NETWORK.python(
    "udp",
    "net",
    'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", UDP))',
)
NETWORK.bash("udp of bash", "net", "echo hello > /dev/udp/127.0.0.1/$UDP")
NETWORK.python(
    "a question for a name",
    "net",
    """
question = bytes.fromhex("000101000001000000000000") + b"\\x06secret\\x07example\\x00\\x00\\x01\\x00\\x01"
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as made:
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.sendto(question, ("::ffff:127.0.0.1", UDP))
""",
    needs="ipv6",
)
NETWORK.python(
    "taking a port of the host",
    "net",
    """
try:
    socket.socket().bind(("127.0.0.1", TCP))
except OSError as error:
    if error.errno == 98:
        reached("the host has this port, so it is the same network")
""",
)
NETWORK.python(
    "interfaces",
    "process",
    """
names = [name for _, name in socket.if_nameindex() if name != "lo"]
if names:
    reached(names)
""",
    needs="address",
)
NETWORK.python(
    "raw packets",
    "process",
    """
for family, kind, protocol in ((17, 3, 0x300), (2, 3, 255), (2, 3, 1)):
    made = attempt(socket.socket, family, kind, protocol)
    if made is not None:
        reached(f"a socket of family {family}")
""",
    bare=False,
)
NETWORK.python(
    "echo request",
    "net",
    """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1) as made:
    made.settimeout(0.5)
    made.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 1]), (E["FAR"].split()[0], 0))
    if made.recv(64):
        reached("an answer")
""",
    bare=False,
    needs="address",
)

# Sockets of programs

NETWORK.python("unix socket", "unix_sockets", 'unix(f"{OUTSIDE}/socket")')
NETWORK.python(
    "unix socket through a link", "unix_sockets", 'os.symlink(f"{OUTSIDE}/socket", "link"); unix("link")'
)
NETWORK.python("unix socket through own root", "unix_sockets", 'unix(f"/proc/self/root{OUTSIDE}/socket")')
NETWORK.python("unix datagram", "unix_sockets", 'unix(f"{OUTSIDE}/datagram", kind=socket.SOCK_DGRAM)')
NETWORK.python(
    "datagram from a pair",
    "unix_sockets",
    """
one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
one.sendto(b"hello", f"{OUTSIDE}/datagram")
""",
)
NETWORK.python("agent of ssh", "unix_sockets", 'unix(f"{HOME}/.ssh/agent")')
NETWORK.python("service", "unix_sockets", 'unix(E["BASE"] + "/run/service")')
NETWORK.python(
    "service in run",
    "unix_sockets",
    'attempt(unix, "/run/" + E["MARK"] + "-socket"); unix("/var/run/" + E["MARK"] + "-socket")',
    needs="run",
)
NETWORK.python("abstract socket", "unix_sockets", 'unix("\\0" + E["MARK"])')
NETWORK.python(
    "abstract datagram", "unix_sockets", 'unix("\\0" + E["MARK"] + "-datagram", kind=socket.SOCK_DGRAM)'
)
NETWORK.python(
    "known sockets of services",
    "unix_sockets",
    """
for path in ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/snapd.socket",
             "/run/systemd/private", "/run/containerd/containerd.sock", "/tmp/.X11-unix/X0"):
    if attempt(unix, path, b"") is not None or attempt(os.stat, path):
        reached(path)
""",
    bare=False,
)
NETWORK.python(
    "descriptor handed over",
    "unix_sockets",
    """
held = os.open("/", os.O_RDONLY)
with socket.socket(socket.AF_UNIX) as made:
    made.connect(f"{OUTSIDE}/socket")
    made.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", held))])
""",
)
NETWORK.sh(
    "push to a file",
    "fs_write",
    'git -c protocol.file.allow=always push -q "file://$BASE/remote.git" HEAD:refs/heads/evil',
)
NETWORK.python(
    "socket to the host of a virtual machine",
    "process",
    """
made = socket.socket(40, socket.SOCK_STREAM)
reached("vsock")
""",
    needs="vsock",
)
NETWORK.python(
    "socket of the kernel's ciphers",
    "process",
    """
made = socket.socket(38, socket.SOCK_SEQPACKET)
made.bind(("hash", "sha256"))
reached("the kernel computes for us")
""",
    needs="alg",
)
NETWORK.python(
    "messages of the kernel",
    "process",
    """
for protocol in (4, 9, 11, 15, 16, 20):
    made = attempt(socket.socket, 16, socket.SOCK_RAW, protocol)
    if made is not None:
        reached(f"netlink {protocol}")
""",
)
