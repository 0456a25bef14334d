"""The host filter: every spelling of an inner address is the inner address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolError, UsageError
from placet.sandbox.hosts import HostFilter, kind_of, plain_host


class Names:
    """A resolver whose answers are written down; the last answer of a name stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("Name or service not known")
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


LOOPBACK_SPELLINGS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F.1",
    "0177.0.0.1",
    "017700000001",
    "０x7f.1",  # a wide zero
    "127。0。0。1",
    "１２７.0.0.1",
    "①②⑦.0.0.1",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "[::ffff:127.0.0.1]",
    "::FFFF:7f00:1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::",
]


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
def test_loopback_is_refused_however_it_is_spelled(host: str) -> None:
    refusal = HostFilter().refusal_of_name(host, 80)

    assert refusal is not None
    assert "is loopback, not public" in refusal
    assert HostFilter(private=True).refusal_of_name(host, 80) is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("93.184.216.34", "public"),
        ("8.8.8.8", "public"),
        ("2606:4700:4700::1111", "public"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("198.18.0.1", "private"),
        ("192.0.2.1", "private"),
        ("169.254.169.254", "link-local"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "private"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:8.8.8.8", "public"),
        ("::127.0.0.1", "reserved"),
        ("::ffff:0:127.0.0.1", "reserved"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b::808:808", "public"),
        ("64:ff9b:1::808:808", "reserved"),
        ("2002:0a00:0001::1", "private"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),
    ],
)
def test_addresses_are_of_one_kind(address: str, kind: str) -> None:
    assert kind_of(ipaddress.ip_address(address)) == kind


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "a..b",
        "a b",
        "a/b",
        "a@b",
        "a\\b",
        "a%2e",
        "[127.0.0.1]",
        "[::1",
        "256.1.1.1",
        "1.2.3.4.5x ",
        "-a",
        "a-",
        "0x",
        "99999999999",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "bücher.example",
        "a\nb",
        "::1%lo 0",
        "host:80",
    ],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    assert plain_host(host) is None
    assert HostFilter(private=True).refusal_of_name(host, 80) is not None


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port: int) -> None:
    assert HostFilter().refusal_of_name("example.org", port) is not None


@pytest.mark.parametrize(
    ("allow", "deny", "host", "port", "passes"),
    [
        (["*"], [], "example.org", 443, True),
        (["example.org"], [], "EXAMPLE.ORG.", 443, True),
        (["Example.Org."], [], "example.org", 443, True),
        (["example.org"], [], "www.example.org", 443, False),
        (["example.org"], [], "badexample.org", 443, False),
        (["*.example.org"], [], "a.b.example.org", 443, True),
        (["*.example.org"], [], "example.org", 443, False),
        (["*.example.org"], [], "badexample.org", 443, False),
        (["*.example.org"], [], "example.org.evil.net", 443, False),
        (["example.org:8080"], [], "example.org", 8080, True),
        (["example.org:8080"], [], "example.org", 443, False),
        (["*:443"], [], "example.org", 443, True),
        (["*:443"], [], "example.org", 80, False),
        (["*"], ["example.org"], "example.org", 443, False),
        (["example.org"], ["*.org"], "example.org", 443, False),
        (["*"], ["example.org:25"], "example.org", 443, True),
        (["*"], ["8.8.8.8"], "134744072", 443, False),
        (["*"], ["8.8.8.8"], "::ffff:8.8.8.8", 443, False),
        ([], [], "example.org", 443, False),
        (["127.0.0.1:8000"], [], "127.0.0.1", 8000, True),
        (["127.0.0.1:8000"], [], "0x7f.1", 8000, True),
        (["127.0.0.1:8000"], [], "127.0.0.1", 8001, False),
        (["*", "127.0.0.1:8000"], [], "127.0.0.1", 8001, False),
        (["[::1]:8000"], [], "::1", 8000, True),
        (["::1"], [], "[::1]", 8000, True),
        (["169.254.169.254"], [], "169.254.169.254", 80, True),
    ],
)
def test_patterns_mean_exactly_what_is_written(
    allow: list[str], deny: list[str], host: str, port: int, passes: bool
) -> None:
    assert (HostFilter(allow, deny).refusal_of_name(host, port) is None) is passes


@pytest.mark.parametrize(
    "pattern", ["", "a b", "http://a", "*a", "a.*", "*.10.0.0.1", "a:0", "bücher.de", "a:x"]
)
def test_a_pattern_that_is_no_host_is_refused_when_it_is_written(pattern: str) -> None:
    with pytest.raises(UsageError, match="which is no host"):
        HostFilter(deny=[pattern])


def test_one_text_instead_of_a_list_is_refused() -> None:
    with pytest.raises(UsageError, match="Write a list"):
        HostFilter("example.org")


async def test_a_name_that_leads_inside_is_refused() -> None:
    names = Names(evil_example=[["10.0.0.1"]], meta_example=[["169.254.169.254"]], six_example=[["fd00::1"]])

    for name in ("evil.example", "meta.example", "six.example"):
        with pytest.raises(ToolError, match="not public") as refusal:
            await HostFilter().addresses(name, 80, names)
        assert refusal.value.retry is False


async def test_only_the_addresses_that_passed_are_handed_out() -> None:
    names = Names(mixed_example=[["127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "8.8.8.8", "8.8.4.4"]])

    assert await HostFilter().addresses("mixed.example", 80, names) == ["8.8.8.8", "8.8.4.4"]
    assert await HostFilter(deny=["8.8.8.8"]).addresses("mixed.example", 80, names) == ["8.8.4.4"]


async def test_a_name_is_looked_up_once_and_a_number_never() -> None:
    names = Names(a_example=[["8.8.8.8"], ["127.0.0.1"]])
    hosts = HostFilter()

    assert await hosts.addresses("A.example.", 80, names) == ["8.8.8.8"]
    assert await hosts.addresses("134744072", 80, names) == ["8.8.8.8"]
    assert names.asked == ["a.example"]


async def test_a_name_allowed_without_a_star_may_stand_for_a_network_of_ones_own() -> None:
    names = Names(intra_example=[["10.0.0.5"]], meta_example=[["169.254.169.254"]])
    hosts = HostFilter(allow=["*", "intra.example:8000", "meta.example"])

    assert await hosts.addresses("intra.example", 8000, names) == ["10.0.0.5"]
    with pytest.raises(ToolError, match="private, not public"):
        await hosts.addresses("intra.example", 80, names)
    with pytest.raises(ToolError, match="link-local, not public"):
        await hosts.addresses("meta.example", 80, names)


async def test_localhost_is_found_by_the_machine_and_allowed_by_name_only() -> None:
    assert set(await HostFilter(allow=["localhost"]).addresses("localhost", 80)) <= {"127.0.0.1", "::1"}
    with pytest.raises(ToolError, match="loopback"):
        await HostFilter().addresses("LOCALHOST.", 80)


async def test_a_name_that_leads_nowhere_may_be_tried_again() -> None:
    with pytest.raises(ToolError, match=r"No address was found for host 'none\.example'") as failure:
        await HostFilter().addresses("none.example", 80, Names())

    assert failure.value.retry is True


@pytest.mark.parametrize("answer", [[], ["not an address"], ["fe80::1%1"]])
async def test_a_resolver_that_answers_junk_opens_nothing(answer: list[str]) -> None:
    with pytest.raises(ToolError):
        await HostFilter().addresses("a.example", 80, Names(a_example=[answer]))


@given(st.ip_addresses())
def test_an_address_is_judged_the_same_as_a_host_and_as_an_answer(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    hosts = HostFilter()

    by_name = hosts.refusal_of_name(str(address), 80)
    by_answer = hosts.refusal_of_address("a.example", 80, str(address))

    assert (by_name is None) == (by_answer is None) == (kind_of(address) == "public")


@given(st.ip_addresses(v=4), st.sampled_from(["{:d}", "0x{:x}", "0{:o}"]))
def test_numbers_mean_the_same_in_every_base(address: ipaddress.IPv4Address, spelling: str) -> None:
    assert plain_host(spelling.format(int(address))) == str(address)


@given(st.text(max_size=20))
def test_any_text_is_a_plain_host_or_none(text: str) -> None:
    plain = plain_host(text)

    assert plain is None or (plain.isascii() and plain_host(plain) == plain)
