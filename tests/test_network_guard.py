"""No socket leaves this machine while a guard is on, and nothing is refused while none is.

The run itself is guarded (`tests/conftest.py`): what happens without a guard is seen in a child of its own.
192.0.2.0/24 and 2001:db8::/32 belong to nobody.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from traceback import clear_frames

import httpx2
import pytest

from placet.testing.network import NetworkGuard, NetworkRefused, no_network
from tests.conftest import NETWORK

NOWHERE, NOWHERE_6 = "192.0.2.1", "2001:db8::1"


@pytest.fixture
def guard() -> Iterator[NetworkGuard]:
    """One of the test's own: what it refuses does not count against the run."""
    with no_network() as guard:
        yield guard


def _socket(kind: socket.SocketKind, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    made = socket.socket(family, kind)
    made.settimeout(0.1)
    return made


def _connect(host: str, family: socket.AddressFamily = socket.AF_INET) -> None:
    with _socket(socket.SOCK_STREAM, family) as made:
        made.connect((host, 9))


def _connect_ex() -> None:
    with _socket(socket.SOCK_STREAM) as made:
        made.connect_ex((NOWHERE, 9))


def _send(host: str = NOWHERE) -> None:
    with _socket(socket.SOCK_DGRAM) as made:
        made.sendto(b"x", (host, 9))


def _send_message() -> None:
    with _socket(socket.SOCK_DGRAM) as made:
        made.sendmsg([b"x"], [], 0, (NOWHERE, 9))


def _broadcast() -> None:
    with _socket(socket.SOCK_DGRAM) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        made.sendto(b"x", ("<broadcast>", 9))


def _netlink() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as made:
        made.connect((0, 0))


def _asyncio(host: str) -> None:
    asyncio.run(asyncio.wait_for(asyncio.open_connection(host, 9), 5))


async def _httpx2(host: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        await client.get(f"http://{host}/")


def _urllib() -> None:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{NOWHERE}/", timeout=5)


WAYS_OUT: dict[str, tuple[Callable[[], object], str]] = {
    "connect": (lambda: _connect(NOWHERE), f"connect to {NOWHERE}"),
    "connect by IPv6": (lambda: _connect(NOWHERE_6, socket.AF_INET6), f"connect to {NOWHERE_6}"),
    "connect to IPv4 within IPv6": (
        lambda: _connect("::ffff:192.0.2.1", socket.AF_INET6),
        "connect to ::ffff:192.0.2.1",
    ),
    "connect to any address": (lambda: _connect("0.0.0.0"), "connect to 0.0.0.0"),
    "connect_ex": (_connect_ex, f"connect to {NOWHERE}"),
    "create_connection": (lambda: socket.create_connection((NOWHERE, 9), 0.1), f"connect to {NOWHERE}"),
    "sendto": (_send, f"send to {NOWHERE}"),
    "sendmsg": (_send_message, f"send to {NOWHERE}"),
    "broadcast": (_broadcast, "send to <broadcast>"),
    "another family": (_netlink, "connect by <AddressFamily.AF_NETLINK: 16>"),
    "getaddrinfo": (lambda: socket.getaddrinfo("model.test", 443), "look up model.test"),
    "getaddrinfo of bytes": (lambda: socket.getaddrinfo(b"model.test", 443), "look up model.test"),
    "gethostbyname": (lambda: socket.gethostbyname("model.test"), "look up model.test"),
    "gethostbyname_ex": (lambda: socket.gethostbyname_ex("model.test"), "look up model.test"),
    "gethostbyaddr": (lambda: socket.gethostbyaddr(NOWHERE), f"look up {NOWHERE}"),
    "getnameinfo": (lambda: socket.getnameinfo((NOWHERE, 9), 0), f"look up {NOWHERE}"),
    "asyncio": (lambda: _asyncio(NOWHERE), f"connect to {NOWHERE}"),
    "asyncio, by name": (lambda: _asyncio("model.test"), "look up model.test"),
    "httpx2": (lambda: asyncio.run(_httpx2(NOWHERE)), f"connect to {NOWHERE}"),
    "httpx2, by name": (lambda: asyncio.run(_httpx2("model.test")), "look up model.test"),
    "httpx2 without asyncio": (
        lambda: httpx2.get(f"http://{NOWHERE}/", trust_env=False),
        f"connect to {NOWHERE}",
    ),
    "urllib": (_urllib, f"connect to {NOWHERE}"),
}


# Where connecting raises what is no OSError, the standard library leaves its socket behind, in a frame.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_is_refused_and_named(guard: NetworkGuard, way: str) -> None:
    go, what = WAYS_OUT[way]

    with pytest.raises(Exception) as raised:
        go()

    refused: BaseException = raised.value
    while isinstance(refused, BaseExceptionGroup):  # a library that connects within a group of tasks
        refused = refused.exceptions[0]
    assert isinstance(refused, NetworkRefused)
    assert refused.what == what
    assert str(refused).startswith(f"{what}: refused")
    assert guard.refused == [what]
    clear_frames(refused.__traceback__)


def test_a_thread_is_refused_too(guard: NetworkGuard) -> None:
    seen: list[BaseException] = []

    def go() -> None:
        try:
            _connect(NOWHERE)
        except NetworkRefused as refused:
            seen.append(refused)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()

    assert len(seen) == 1
    assert guard.refused == [f"connect to {NOWHERE}"]


def test_a_child_that_was_forked_is_refused_too(guard: NetworkGuard) -> None:
    code = (
        "import os, sys; sys.path[:0] = sys.argv[1:]\n"
        "from placet.testing.network import NetworkRefused, no_network\n"
        "import socket\n"
        "with no_network():\n"
        "    if os.fork() == 0:\n"
        "        try:\n"
        "            socket.create_connection(('192.0.2.1', 9), 0.1)\n"
        "        except NetworkRefused:\n"
        "            os._exit(7)\n"
        "        os._exit(1)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )

    assert _python(code) == "7\n"


@pytest.mark.parametrize(
    ("family", "host"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "127.9.9.9"),
        (socket.AF_INET, "localhost"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
def test_loopback_is_reached(guard: NetworkGuard, family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as server, socket.socket(family) as client:
        try:
            server.bind(("::" if family == socket.AF_INET6 else "", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        server.listen()
        client.connect((host, server.getsockname()[1]))
        client.sendall(b"x")

        with server.accept()[0] as met:
            assert met.recv(1) == b"x"
    assert guard.refused == []


def test_datagrams_and_unix_sockets_pass(guard: NetworkGuard, tmp_path: Path) -> None:
    with _socket(socket.SOCK_DGRAM) as server, _socket(socket.SOCK_DGRAM) as client:
        server.bind(("127.0.0.1", 0))
        client.sendto(b"to", server.getsockname())
        client.connect(server.getsockname())
        client.sendmsg([b"msg"])
        assert [server.recv(9), server.recv(9)] == [b"to", b"msg"]

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        caller.connect(str(tmp_path / "s"))
    assert guard.refused == []


def test_this_machine_and_numbers_may_be_looked_up(guard: NetworkGuard) -> None:
    assert socket.getaddrinfo("localhost", 80)
    assert socket.getaddrinfo("LOCALHOST", 80)
    assert socket.getaddrinfo(None, 80)
    assert socket.getaddrinfo(NOWHERE, 80), "a number asks nobody"
    assert guard.refused == []


async def test_a_server_is_asked_by_httpx2(guard: NetworkGuard) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://localhost:{port}/")).text == "hi"
    assert guard.refused == []


def test_what_is_named_is_allowed() -> None:
    """In a child without the guard of the run, which would refuse it."""
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from placet.testing.network import NetworkRefused, no_network\n"
        "def told(guard, *hosts):\n"
        "    with guard:\n"
        "        print([guard.reaches(host) for host in hosts])\n"
        "told(no_network(['192.0.2.0/24', '2001:db8::1']),\n"
        "     '192.0.2.9', '::ffff:192.0.2.9', '192.0.3.1', '2001:db8::1', '2001:db8::2', 'model.test')\n"
        "told(no_network(['LOCALHOST']), 'localhost', '127.0.0.1')\n"
    )

    assert _python(code) == "[True, True, False, True, False, False]\n[True, True]\n"


def test_an_inner_guard_opens_nothing() -> None:
    with no_network() as outer, no_network([NOWHERE]) as inner, pytest.raises(NetworkRefused):
        _connect(NOWHERE)

    assert outer.refused == [f"connect to {NOWHERE}"]
    assert inner.refused == []


def test_a_name_that_cannot_be_looked_up_is_told_at_once() -> None:
    """By the guard around it, here; nothing was put on."""
    with no_network() as around, suppress(NetworkRefused), no_network(["model.test"]):
        pytest.fail("it went on")

    assert around.refused == ["look up model.test"]


def test_nothing_is_refused_outside_of_a_guard() -> None:
    """192.0.2.1 answers nobody, so what is seen is that the kernel was asked."""
    code = (
        "import socket, sys; sys.path[:0] = sys.argv[1:]\n"
        "from placet.testing.network import NetworkRefused, no_network\n"
        "def go():\n"
        "    try:\n"
        "        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:\n"
        "            made.sendto(b'x', ('192.0.2.1', 9))\n"
        "    except NetworkRefused:\n"
        "        return 'refused'\n"
        "    except OSError:\n"
        "        pass\n"
        "    return 'asked'\n"
        "seen = [go()]\n"
        "with no_network():\n"
        "    seen.append(go())\n"
        "    with no_network():\n"
        "        pass\n"
        "    seen.append(go())\n"
        "seen.append(go())\n"
        "print(*seen)\n"
    )

    assert _python(code) == "asked refused refused asked\n"


def test_the_run_itself_is_guarded() -> None:
    assert not NETWORK.reaches(NOWHERE)
    with pytest.raises(NetworkRefused):
        _connect(NOWHERE)

    assert NETWORK.refused[-1:] == [f"connect to {NOWHERE}"]
    NETWORK.refused.pop()


def test_a_test_that_swallows_a_refusal_fails(tmp_path: Path) -> None:
    """In a run of its own, with what `tests/conftest.py` holds."""
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import NETWORK, pytest_runtest_call  # noqa: F401\n", encoding="utf-8"
    )
    (tmp_path / "test_it.py").write_text(
        "import socket\n"
        "def test_it():\n"
        "    try:\n"
        "        socket.create_connection(('192.0.2.1', 9), 0.1)\n"
        "    except AssertionError:\n"
        "        pass\n"
        "def test_another():\n"
        "    pass\n",
        encoding="utf-8",
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", "-n", "1", "."],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(_PATHS),
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # What else is installed takes seconds to load.
        },
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert "connect to 192.0.2.1: refused" in done.stdout
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr


_ROOT = Path(__file__).resolve().parents[1]
_PATHS = [str(_ROOT), str(_ROOT / "src")]


def _python(code: str) -> str:
    """What a child prints that nobody guards but itself."""
    done = subprocess.run(
        [sys.executable, "-c", code, *_PATHS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
