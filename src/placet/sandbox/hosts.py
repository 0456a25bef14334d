"""Which hosts may be spoken to: by name, and by the addresses that a name stands for.

Deciding is pure (`HostFilter.refusal_of_name`, `.refusal_of_address`); `HostFilter.addresses` looks a name up
once and hands out only addresses that passed. Whoever connects uses those and never looks the name up again:
between two lookups a name can move to the inside of the network.

Keep true:
1. Every spelling of a host is judged as what it means: 0x7f.1 and [::ffff:127.0.0.1] are 127.0.0.1.
2. An address that is not public is refused unless the person named it, or let all of them in with `private`.
3. Denying wins over allowing. What cannot be read is refused.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from placet.errors import ToolError, UsageError
from placet.truncation import truncate

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
Resolve: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"
"""From a name and a port to addresses, as text. Raises OSError when there are none."""

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER_LIKE = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Behind it stands an IPv4 address, in the last 32 bits."""
_NETWORKS_OF_ONES_OWN = frozenset({"loopback", "private"})


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class _Pattern(msgspec.Struct, frozen=True):
    host: str
    """A host in its plain spelling; or, for a family, what follows the star."""
    is_family: bool
    port: int | None

    def fits(self, host: str, port: int) -> bool:
        if self.port not in (None, port):
            return False
        return host.endswith(self.host) if self.is_family else host == self.host


class HostFilter:
    """Decides which hosts may be contacted.

    A pattern is a host (`example.org`, `10.0.0.5`, `[::1]`), a family of names (`*.example.org`, which does
    not include `example.org`), or `*`; each may end in a port (`localhost:8000`). Addresses that are not
    public (loopback, private networks, link-local and others) are refused, unless `private` is set or `allow`
    names them without a star: a number allows that address, a name allows loopback and private networks for
    that name.

    >>> hosts = HostFilter(allow=["*.example.org", "localhost:8000"])
    >>> hosts.refusal_of_name("docs.example.org", 443) is None
    True
    >>> hosts.refusal_of_name("example.com", 443)
    "host 'example.com:443' is none of the allowed ones"
    """

    def __init__(
        self, allow: Sequence[str] = ("*",), deny: Sequence[str] = (), private: bool = False
    ) -> None:
        """Create a filter.

        Args:
            allow: Patterns of hosts that may be contacted.
            deny: Patterns of hosts that may not; they win over `allow`.
            private: Also allow addresses that are not public.

        Raises:
            UsageError: a pattern is malformed.
        """
        self.private = private
        self._allow = _patterns(allow, "allow")
        self.allowed: tuple[str, ...] = tuple(allow)
        """The patterns that allow, as they were written."""
        self._deny = _patterns(deny, "deny")

    def refusal_of_name(self, host: str, port: int) -> str | None:
        """Why this host may not be spoken to, as far as its name or number tells; None if it may."""
        plain = plain_host(host)
        if plain is None:
            return f"{truncate(host, 100)!r} is not spelled as a host is"
        if not 0 < port < 65536:
            return f"port {port} of host '{plain}' is none; they go from 1 to 65535"
        if any(pattern.fits(plain, port) for pattern in self._deny):
            return f"host '{plain}:{port}' is denied"
        if not any(pattern.fits(plain, port) for pattern in self._allow):
            return f"host '{plain}:{port}' is none of the allowed ones"
        number = _number(plain)
        return None if number is None else self._refusal_of_number(plain, port, number)

    def refusal_of_address(self, host: str, port: int, address: str) -> str | None:
        """Why `host` may not be spoken to at `address`, which is where its name led; None if it may."""
        plain = plain_host(host) or ""
        number = _number(address)
        if number is None:
            return f"host '{plain}' leads to {truncate(address, 60)!r}, which is no address"
        return self._refusal_of_number(plain, port, number)

    def loopback_of_its_own(self) -> list[str]:
        """The names of loopback that are a command's own: those that no pattern says mean this machine."""
        return [name for name in _LOOPBACK if not any(pattern.host == name for pattern in self._allow)]

    def names_port(self, host: str, port: int) -> bool:
        """Whether a pattern lets a host in with this very port, and not only with any."""
        return any(pattern.port == port and pattern.fits(host, port) for pattern in self._allow)

    async def addresses(self, host: str, port: int, resolve: Resolve | None = None) -> list[str]:
        """Where to connect to for `host`: at least one address, each of them checked.

        Raises:
            ToolError: the host or all its addresses are refused, or the name leads nowhere.
        """
        if not 0 < port < 65536:
            # Nobody can allow this one.
            raise ToolError(
                f"Not connected: {self.refusal_of_name(host, port)}. Correct the port, or leave it out.",
                retry=False,
            )
        if refusal := self.refusal_of_name(host, port):
            raise refused(refusal)
        plain = plain_host(host) or ""
        if _number(plain) is not None:
            return [plain]
        try:
            found = await (resolve or look_up)(plain, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"No address was found for host '{plain}' ({error}). Check the name.") from None
        refusals: list[str] = []
        passed: list[str] = []
        for address in dict.fromkeys(found):
            refusal = self.refusal_of_address(plain, port, address)
            if refusal is None:
                passed.append(address)
            else:
                refusals.append(refusal)
        if not passed:
            raise refused(refusals[0] if refusals else f"host '{plain}' has no address")
        return passed

    def _refusal_of_number(self, host: str, port: int, number: Address) -> str | None:
        shown = str(number)
        what = f"address {shown}" if host == shown else f"host '{host}' leads to {shown}, which"
        if any(pattern.fits(shown, port) for pattern in self._deny):
            return f"{what} is denied"
        kind = kind_of(number)
        if kind == "public" or self.private:
            return None
        exact = {
            pattern.host
            for pattern in self._allow
            if not pattern.is_family and pattern.fits(pattern.host, port)
        }
        if shown in exact or (host in exact and kind in _NETWORKS_OF_ONES_OWN):
            return None
        return f"{what} is {kind}, not public"


class HostRefused(ToolError):
    """A host that may not be spoken to; `why` has no words about who could allow it."""

    def __init__(self, why: str, fix: str) -> None:
        self.why = why
        super().__init__(f"Not connected: {why}. {fix}", retry=False)


def refused(why: str) -> ToolError:
    """The failure of a tool that was about to speak to a host it may not speak to."""
    fix = (
        "Only the person who set up the tools can allow it: [http] (for commands: [isolation]) in "
        "settings.toml, or HostFilter."
    )
    return HostRefused(why, fix)


def plain_host(host: str) -> str | None:
    """The one spelling that a host is judged and looked up by; None if it cannot be a host.

    >>> plain_host("EXAMPLE.org."), plain_host("0x7f.1"), plain_host("[::FFFF:10.0.0.1]"), plain_host("a b")
    ('example.org', '127.0.0.1', '10.0.0.1', None)
    """
    # Wide digits and the dots of other scripts mean plain ones to whatever resolves them later.
    text = unicodedata.normalize("NFKC", host).replace("。", ".").lower()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
        if ":" not in text:
            return None
    number = _number(text)
    if number is not None:
        return str(number)
    text = text.removesuffix(".")
    if _NUMBER_LIKE.fullmatch(text):
        # As the C library reads them: octal with a leading 0, hexadecimal with 0x, parts left out.
        try:
            return str(ipaddress.IPv4Address(socket.inet_aton(text)))
        except OSError:
            return None
    return text if len(text) <= 253 and _NAME.fullmatch(text) else None


def kind_of(address: Address) -> str:
    """public, loopback, private, link-local, multicast, unspecified or reserved."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inside(address)
        if inner is not None:
            return kind_of(inner)
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_reserved:
        return "reserved"
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        return "private"
    # Neither global nor private: the addresses that providers share among their customers.
    return "public" if address.is_global else "private"


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that is really spoken to, where an IPv6 one only wraps it."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the machine's own resolver tells them."""
    import asyncio

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _number(text: str) -> Address | None:
    if "%" in text:
        # An interface after the number: only ever inside a network, and another spelling to be judged.
        return None
    try:
        number = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
        return number.ipv4_mapped
    return number


def _patterns(given: Sequence[str], what: str) -> tuple[_Pattern, ...]:
    if isinstance(given, str):
        raise UsageError(f"HostFilter: {what} is the text {given!r}. Write a list: [{given!r}].")
    return tuple(_pattern(text, what) for text in given)


def _pattern(text: str, what: str) -> _Pattern:
    host, port = text.strip(), None
    # An IPv6 number has colons of its own; its port comes after a bracket.
    parts = re.fullmatch(r"(\[.*\]|[^:]*):([0-9]{1,5})", host)
    if parts:
        host, port = parts[1], int(parts[2])
    if host == "*":
        return _Pattern("", True, port)
    is_family = host.startswith("*.")
    plain = plain_host(host.removeprefix("*."))
    if plain is None or (is_family and _number(plain) is not None) or port == 0:
        raise UsageError(
            f"HostFilter: {what} has {text!r}, which is no host. Write 'example.org', '*.example.org', "
            "'localhost:8000', '10.0.0.5', '[::1]:443' or '*', and names of other scripts as xn--...."
        )
    return _Pattern(f".{plain}" if is_family else plain, is_family, port)
