"""Secrets leave no text and no value; everything else leaves as it came.

Sample tokens are put together here, so that no scanner for secrets trips over this file.
"""

from __future__ import annotations

import base64
import copy
import html
import json
import shlex
from collections.abc import Callable
from itertools import product
from typing import Any
from urllib.parse import quote
from xml.sax import saxutils

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from placet.errors import UsageError
from placet.ir.json_value import JsonValue
from placet.redaction import REDACTED, Redactor
from tests.properties.effort import SOAK

SECRET = "Tr0ub4dor" + "&3/x"
B64 = "a1B2" * 9
JWT = ".".join(["eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0In0", "dBjftJeZ4CVP" + "-mB92K27_uhb"])
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEow" * 10 + "\n-----END RSA " + "PRIVATE KEY-----"

SHAPES = [
    "AKIA" + "IOSFODNN7QWERTYU",
    "ASIA" + "IOSFODNN7QWERTYU",
    *(f"gh{kind}_" + B64 for kind in "pousr"),
    "github_pat_" + "11ABCDEFG0_" + B64,
    "glpat-" + "a1B2-c3D4_e5F6g7H8",
    "sk-" + B64,
    "sk-" + "abcdefghijklmnopqrstuvwxyz",
    "sk-proj-" + "ab_c-" * 4 + B64,
    "sk-ant-" + "api03-" + B64,
    *(f"{kind}_" + "a1B2" * 6 for kind in ("sk_live", "rk_live", "sk_test")),
    "xoxb-" + "123456789012-abcdefABCDEF",
    "xoxp-" + "123456789012-abcdefABCDEF",
    "AIza" + "Sy" + "a1-B2" * 7,
    "ya29." + "a0Af_" * 8,
    "npm_" + B64,
    "pypi-AgEI" + "cHlwaS5vcmc" * 4,
    "hf_" + "abCD" * 9,
    "SG." + "a1B2" * 5 + "." + "c3D4" * 10,
    JWT,
    PEM,
    PEM.replace("\n", "\\n"),
]

IN_TEXT = [
    ("Authorization: Bearer {}", "abc.def-ghi"),
    ("Authorization: {}", "abcdefgh"),
    ("curl -H 'Authorization: Basic {}' https://example.org/a", "dXNlcjpwYXNz"),
    ('{{"Authorization": "Bearer {}", "Accept": "*/*"}}', "abc.def-ghi"),
    ("sent bearer {} to the server", "f00ba4-token-value"),
    ("Proxy-Authorization: Basic {}\nAccept: */*", "dXNlcjpwYXNz"),
    ("Cookie: {}\nAccept: */*", "sid=31d4d96e; theme=dark"),
    ("Set-Cookie: {}\r\nDate: today", "sid=31d4d96e; HttpOnly"),
    ("postgresql://app:{}@db.internal:5432/main", "hunter2"),
    ("postgresql://app:{}@db.internal/main", "hun@ter#2?"),
    ("redis://:{}@cache:6379", "hunter2"),
    ("clone https://me:{}@github.com/a/b.git now", "hunter2"),
    ("https://hooks.slack.com/services/{} is called", "T0A1B2C3D/B4E5F6G7H/" + "Qk3v" * 6),
    ("https://example.org/a?user=me&token={}&page=2", "abc"),
    ("redirect=https%3A%2F%2Fexample.org%3Ftoken%3D{}&page=2", "abcdef"),
    ("Server=db;User Id=sa;Password={};Encrypt=yes", "hunter2"),
    ("Driver=x;PWD={};Encrypt=yes", "{hun;ter2}"),
    ("host=db user=app password={} dbname=main", "hunter,2)x"),
    ("export DB_PASSWORD={}\nexport DB_HOST=db", "hunter2xyz"),
    ("PGPASSWORD={} psql -h db", "hunter2"),
    ("DB_PASS={}", "hunter2"),
    ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"),
    ("AccountName=me;AccountKey={};Suffix=x", "abc/def+ghi=="),
    ("githubToken={}", "abc"),
    ("github_token: {}", "abcdefgh"),
    ("token: {}", "a81fc9d2"),
    ("secret = '{}'", "x"),
    ("the api key: {}", "abcdef"),
    ("password=>{}", "hunter2"),
    ("İstanbul password={} İzmir", "hunter2"),
    ("api_key_2 = {}", "abcdef"),
    ('config["password"] = "{}"', "hunter2"),
    ("deploy --password {} --verbose", "hunter2xyz"),
    ("deploy --db-password='{}' --verbose", "hunter2 xyz"),
    ("deploy --api-key={} --verbose", "hunter2xyz"),
    ("deploy --github-token {}", "hunter2xyz"),
    ('{{"user": "me", "password": "{}", "port": 1}}', "x"),
    ('{{"user": "me", "password": "{}", "port": 1}}', r"a\"b\\"),
    (r"{{\"password\": \"{}\", \"port\": 1}}", r"a\\\"b"),
    ("{{'api_key': '{}', 'port': 1}}", "x"),
    (r"first line\npassword={}\nlast line", "hunter2"),
]

ORDINARY = [
    "",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "0f8fad5bd9cb469fa16570867728950e",
    "2026-01-02T03:04:05.678Z",
    "/home/me/.config/placet/secret/token.txt",
    "C:\\Users\\me\\tokens",
    "task-force-member-of-the-board-2024-edition",
    "risk-assessment-of-the-whole-plant-2024",
    "a sk-learn-contrib thing",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHx",
    "https://example.org:8080/a/@scope/b?page=2",
    "http://localhost:4873/@placet/core",
    "mail me@example.org: it works",
    "max_tokens=100, tokens: 1234567890, token_count=5",
    "cost_per_token=0.00001 next_page_token=abcdef123",
    "Unexpected token: identifier",
    "the secretary: 12345678 authors: 12345678",
    "password: null",
    '{"password": null, "token": true}',
    "if token == expected:",
    "A password is needed. Forgot the password?",
    "Basic understanding of bearer certificates",
    "npm_config_cache and hf_hub_download",
    "idempotency_key=abcdef123456 monkey=abcdef123456",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    REDACTED,
    f"password={REDACTED} --token {REDACTED} and Bearer {REDACTED}",
    f'"password": "{REDACTED}" Authorization: Bearer {REDACTED}',
    f"password=>{REDACTED} secret:={REDACTED}",
]

SECRET_NAMES = """password passwd passphrase pwd secret client_secret clientSecret token access_token
    accesstoken refreshToken id_token auth_token api_key apikey apiKey APIKey x-api-key X-Api-Key access_key
    secret_key private_key privateKey authorization Authorization proxy-authorization cookie Cookie cookies
    set-cookie Set-Cookie credential credentials connection_string ConnectionString otp bearer jwt dsn
    db_password DB_PASSWORD dbPassword githubToken AWS_SECRET_ACCESS_KEY stripe.api_key PGPASSWORD password2
    token_1 smtp_pass _authToken passWord"""

PLAIN_NAMES = """tokens max_tokens token_count tokens_used key keys idempotency_key monkey secretary
    password_policy author authors authorized cookies_enabled session_id signature pin pass passed compass
    cost_per_token time_to_first_token next_page_token public_key value name tool duration_ms"""

REDACTOR = Redactor()


@pytest.mark.parametrize("token", SHAPES, ids=lambda token: token[:8])
def test_a_token_of_known_shape_goes_and_what_surrounds_it_stays(token: str) -> None:
    for around in ("{}", "use {} please", "({})", '"{}",', "x={}", r"a\n{}\nb", "a%3D{}%26", "see:\n{}\n"):
        assert REDACTOR.text(around.format(token)) == around.format(REDACTED)


def test_a_private_key_that_is_cut_off_goes_too() -> None:
    assert REDACTOR.text("key: " + PEM[:60]) == f"key: {REDACTED}"


def test_what_one_rule_keeps_is_not_kept_from_the_others() -> None:
    token = "ghp_" + B64

    assert REDACTOR.text(f"https://{token}:x-oauth@github.com") == f"https://{REDACTED}:{REDACTED}@github.com"
    assert REDACTOR.text(f"--{token}-token abcdef") == f"--{REDACTED} {REDACTED}"


@pytest.mark.parametrize(("around", "secret"), IN_TEXT)
def test_a_text_says_what_is_secret_and_the_rest_stays(around: str, secret: str) -> None:
    assert REDACTOR.text(around.format(secret)) == around.format(REDACTED)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_and_is_the_same_object(text: str) -> None:
    assert Redactor().text(text) is text


@pytest.mark.parametrize("held", ["x", "", 5, 1.5, ["a"], {"b": 1}])
def test_what_stands_under_the_name_of_a_secret_goes_as_a_whole(held: JsonValue) -> None:
    for name in SECRET_NAMES.split():
        assert REDACTOR.value({"a": [{name: held, "b": 1}]}) == {"a": [{name: REDACTED, "b": 1}]}


@pytest.mark.parametrize("held", [None, True, False, REDACTED])
def test_null_and_booleans_are_no_secrets(held: JsonValue) -> None:
    value = {"password": held}

    assert REDACTOR.value(value) is value


def test_a_name_that_only_resembles_one_hides_nothing() -> None:
    for name in PLAIN_NAMES.split():
        value = {name: "x", "other": {name: 5}}
        assert REDACTOR.value(value) is value


def test_further_names_hide_their_values_and_count_in_texts() -> None:
    redactor = Redactor(names=["Badge-Number", "pin4"])

    shown = redactor.value({"badgeNumber": 7, "my_pin4": 1, "pin": 2, "log": "badge_number=81 pin=2"})

    assert shown == {
        "badgeNumber": REDACTED,
        "my_pin4": REDACTED,
        "pin": 2,
        "log": f"badge_number={REDACTED} pin=2",
    }


def test_a_further_name_may_be_one_that_is_harmless_otherwise() -> None:
    assert Redactor(names=["page_token"]).value({"page_token": "x"}) == {"page_token": REDACTED}


def test_an_entry_of_name_and_value_is_hidden_by_its_name() -> None:
    value = [
        {"name": "DB_PASSWORD", "value": "x"},
        {"key": "api_token", "value": 5},
        {"name": "a", "value": "x"},
    ]

    shown = REDACTOR.value(value)

    assert shown == [
        {"name": "DB_PASSWORD", "value": REDACTED},
        {"key": "api_token", "value": REDACTED},
        {"name": "a", "value": "x"},
    ]


def test_a_command_as_a_list_loses_its_password() -> None:
    value = ["deploy", "--password", "hunter2", "--token", "--verbose", "now"]

    shown = REDACTOR.value(value)

    assert shown == ["deploy", "--password", REDACTED, "--token", "--verbose", "now"]


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower().replace("tr0", "Tr0"),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        SECRET.replace("/", "\\/"),
    ],
)
def test_a_registered_secret_goes_however_it_is_written(written: str) -> None:
    redactor = Redactor([SECRET])

    assert redactor.text(f"before {written} after") == f"before {REDACTED} after"


def test_a_registered_secret_with_quotes_goes_when_escaped_once_or_twice() -> None:
    secret = 'quo"te\\and é'
    redactor = Redactor([secret])
    once = json.dumps({"a": secret})

    assert redactor.text(once) == json.dumps({"a": REDACTED})
    assert redactor.text(json.dumps({"b": once})) == json.dumps({"b": json.dumps({"a": REDACTED})})


SPECIAL = [
    "Zq9-'\"k\\w7X-tail",
    "it's-a-single",
    'a-"double"-one',
    "back\\'slash-quote",
    "pässwort-geheim-1",
    "tok\x1ben\tand\x7fcontrol",
    "<tag>&amp;it's-9",
    "emoji-\U0001f600-secret",
    "slash/and+plus?>>",
]


def _html(text: str) -> str:
    return html.escape(text).replace("&#x27;", "&#39;")


WRITERS: dict[str, Callable[[str], str]] = {
    "repr": repr,
    "repr in the other quotes": lambda text: repr(f"{text}'\""),
    "ascii": ascii,
    "ascii in the other quotes": lambda text: ascii(f"{text}'\""),
    "bytes": lambda text: repr(text.encode()),
    "bytes in the other quotes": lambda text: repr(f"{text}'\"".encode()),
    "a KeyError": lambda text: repr(str(KeyError(text))),
    "JSON in repr": lambda text: repr(json.dumps({"a": text})),
    "repr in JSON": lambda text: json.dumps({"a": repr(text)}),
    "bytes in JSON": lambda text: json.dumps({"a": repr(text.encode())}),
    "JSON for HTML": lambda text: (
        json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    ),
    "HTML": html.escape,
    "HTML text": lambda text: html.escape(text, quote=False),
    "HTML of templates": _html,
    "XML": lambda text: saxutils.escape(text, {'"': "&quot;", "'": "&apos;"}),
    "a command line": shlex.quote,
}


@pytest.mark.parametrize("secret", SPECIAL)
def test_a_registered_secret_goes_however_it_was_escaped(secret: str) -> None:
    for name, written in WRITERS.items():
        redactor = Redactor([secret])
        text = written(f"(head) {secret} (tail)")

        shown = redactor.text(text)

        assert shown.partition("(head) ")[2].partition(" (tail)")[0] == REDACTED, name
        assert redactor.longest_secret() >= len(text.partition("(head) ")[2].partition(" (tail)")[0]), name


@pytest.mark.parametrize("secret", SPECIAL)
def test_a_registered_secret_goes_in_hex(secret: str) -> None:
    in_hex = f"(head) {secret} (tail)".encode().hex()

    for text in (in_hex, in_hex.upper()):
        shown = bytes.fromhex(Redactor([secret]).text(text).replace(REDACTED, b"<>".hex()))
        assert shown == b"(head) <> (tail)"


@pytest.mark.parametrize("secret", [SECRET, "hunter", *SPECIAL])
def test_a_registered_secret_goes_wherever_it_stands_in_what_was_encoded(secret: str) -> None:
    raw = secret.encode()
    redactor = Redactor([secret])

    for before, after, encode in product(
        (b"", b"u", b"u:", b"usr", b"user:"),
        (b"", b"\xff", b"\xff?", b"\xff??"),
        (base64.b64encode, base64.urlsafe_b64encode),
    ):
        encoded = encode(before + raw + after).decode()
        # Characters that have bits of something else stay.
        left = encoded[: -(-len(before) * 8 // 6)]
        right = encoded[len(before + raw) * 8 // 6 :] if after else ""
        assert redactor.text(f"Basic: {encoded}") == f"Basic: {left}{REDACTED}{right}", (before, after)


def test_of_two_secrets_that_begin_alike_the_longer_one_leaves_nothing() -> None:
    assert Redactor(["abcdef", "abcdefghij"]).text("x abcdefghij abcdef") == f"x {REDACTED} {REDACTED}"


def test_each_long_line_of_a_secret_is_one_but_not_its_frame() -> None:
    redactor = Redactor(["-----BEGIN THING-----\nfirst-long-line-1\nshort\n-----END THING-----\n"])

    assert redactor.text("a first-long-line-1 b") == f"a {REDACTED} b"
    assert redactor.text("short -----BEGIN THING-----") == "short -----BEGIN THING-----"


def test_white_space_around_a_secret_does_not_count() -> None:
    assert Redactor(["  hunter2xyz\n"]).text("it is hunter2xyz.") == f"it is {REDACTED}."


def test_a_secret_added_later_counts_for_texts_seen_before() -> None:
    redactor = Redactor()
    value = {"hunter2xyz": "hunter2xyz"}
    assert redactor.value(value) is value

    redactor.add_secret("hunter2xyz")

    assert redactor.value(value) == {REDACTED: REDACTED}


@pytest.mark.parametrize(
    "secret", ["", "abc", "abcde", "  abcde  ", "redacted", REDACTED, None, 1234567, b"abcdefgh"]
)
def test_a_secret_that_would_black_out_ordinary_text_is_refused(secret: Any) -> None:
    with pytest.raises(UsageError, match=r"at least 6 characters.*Use a longer one, or keep it under a key"):
        Redactor([secret])


def test_a_refusal_does_not_repeat_the_secret() -> None:
    with pytest.raises(UsageError) as caught:
        Redactor().add_secret("zq9!x")

    assert "zq9!x" not in str(caught.value)


def test_two_secrets_that_were_keys_remain_two_entries() -> None:
    redactor = Redactor(["hunter2aaa", "hunter2bbb"])

    shown = redactor.value({"hunter2aaa": 1, "hunter2bbb": 2, REDACTED: 3, "d": 4})

    assert shown == {REDACTED: 1, f"{REDACTED} 2": 2, f"{REDACTED} 3": 3, "d": 4}


def test_a_key_that_names_a_secret_only_once_it_is_redacted_hides_its_value_at_once() -> None:
    assert Redactor(["HUNTERXYZ"]).value({"HUNTERXYZtoken": "x"}) == {f"{REDACTED}token": REDACTED}


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}])
def test_a_value_may_be_a_hundred_deep(wrap: Any) -> None:
    clean, secret, shown = "x", SECRET, REDACTED
    for _ in range(100):
        clean, secret, shown = wrap(clean), wrap(secret), wrap(shown)
    redactor = Redactor([SECRET])

    assert redactor.value(clean) is clean
    assert redactor.value(secret) == shown


def test_what_is_too_deep_to_be_looked_at_is_not_shown() -> None:
    value: JsonValue = SECRET
    for _ in range(5000):
        value = [value]

    assert SECRET not in json.dumps(Redactor([SECRET]).value(value))


HARD = """ghp_ sk- sk-a -eyJ eyJ eyJaaaaaaaaa. -----BEGIN§PRIVATE§KEY----- -----BEGIN§PRIVATE§KEY ://a: ://
    :@ -- --a --password --password§ password password= password={ token: token:§ bearer§ SG. \\ cookie: xox
    SG.aaaaaaaaaaaaaaaaaaaa password:"\\ password:\\" AKIA %3Dsk- [redacted] password=[redacted] pass_
    per_token= a§"""


LONG = 200_000 if SOAK else 50_000


@pytest.mark.parametrize("part", [part.replace("§", " ") for part in HARD.split()])
def test_a_text_made_to_be_slow_is_done_all_the_same(part: str) -> None:
    """Returning is the claim: with a rule that goes back over what it has read, this would take minutes for
    each text, and hours in a soak, and the test would run out of its time."""
    for before in ("", "://a:", 'password="', "-----BEGIN PRIVATE KEY-----"):
        shown = REDACTOR.text(before + part * (LONG // len(part)))

        assert REDACTOR.text(shown) == shown, before


PIECES = st.sampled_from(
    [
        *(around.format(secret) for around, secret in IN_TEXT),
        *SHAPES,
        *ORDINARY,
        *(
            "password",
            "token",
            "secret",
            "--",
            "--token ",
            "=",
            ": ",
            " ",
            '"',
            "'",
            "\\",
            '\\"',
            "\n",
            ",",
            "&",
            ";",
        ),
        *(
            "Bearer ",
            "Cookie: ",
            "://u:",
            "@",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "{",
            "}",
        ),
        *(
            "eyJ",
            "sk-",
            "ghp_",
            "a",
            "1",
            "n",
            "_",
            "-",
            ".",
            "per_",
            "null",
            "[",
            "]",
            "%3D",
            "İ",
            "é",
            SECRET,
            "hunter2XYZ",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join)
KEYS = st.sampled_from([*SECRET_NAMES.split(), *PLAIN_NAMES.split()]) | TEXTS
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
HARMLESS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(ORDINARY),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(PLAIN_NAMES.split()), inner, max_size=4)
    ),
    max_leaves=12,
)
SECRETS = st.text(st.sampled_from("abcXYZ019 +/=&%#@!'\\é\n\t漢"), min_size=6, max_size=40)


def texts_in(value: JsonValue) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts_in(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


@given(VALUES)
def test_redacting_twice_is_redacting_once(value: JsonValue) -> None:
    redactor = Redactor([SECRET, "hunter2XYZ"], names=["badge"])

    shown = redactor.value(value)

    assert redactor.value(shown) is shown


@given(VALUES)
def test_the_given_value_is_never_changed(value: JsonValue) -> None:
    before = copy.deepcopy(value)

    Redactor([SECRET]).value(value)

    assert value == before


@given(HARMLESS)
def test_a_value_without_secrets_is_returned_itself(value: JsonValue) -> None:
    assert Redactor([SECRET]).value(value) is value


@given(secret=SECRETS, before=TEXTS, after=TEXTS, value=VALUES, data=st.data())
def test_a_registered_secret_is_nowhere_in_what_is_shown(
    secret: str, before: str, after: str, value: JsonValue, data: st.DataObject
) -> None:
    assume(len(secret.strip()) >= 6)
    raw = secret.strip().encode()
    written = data.draw(
        st.sampled_from(
            [
                secret,
                quote(raw, safe=""),
                base64.b64encode(raw).decode(),
                base64.urlsafe_b64encode(raw).decode(),
            ]
        )
    )
    text = before + written + after
    given_value = {"a": [value, text, {"b": {text: [text]}}], text: value}

    shown = Redactor([secret]).value(given_value)

    for found in texts_in(shown):
        assert written.strip() not in found
    assert json.dumps(secret.strip())[1:-1] not in json.dumps(shown)
    assert json.dumps(secret.strip(), ensure_ascii=False)[1:-1] not in json.dumps(shown, ensure_ascii=False)


def test_every_text_in_a_secret_answer_is_a_secret() -> None:
    redactor = Redactor()

    redactor.add_secrets_in({"user": "ann", "token": "a-token-of-value", "more": ["key-of-the-house", 5]})

    shown = redactor.value({"log": "ann used a-token-of-value and key-of-the-house", "user": "ann"})
    assert shown == {"log": f"ann used {REDACTED} and {REDACTED}", "user": "ann"}


def test_what_a_rule_is_called_says_nothing_of_its_reason() -> None:
    redactor = Redactor()
    redactor.add_secret("hunter2-of-ann")

    assert redactor.text("policy 'no-secrets': its parameters") == "policy 'no-secrets': its parameters"
    assert (
        redactor.text("policy 'token': needs token: abcdefgh1") == f"policy 'token': needs token: {REDACTED}"
    )
    assert redactor.text("policy 'x': hunter2-of-ann") == f"policy 'x': {REDACTED}"
    assert redactor.text("policy 'hunter2-of-ann': no") == f"policy '{REDACTED}': no"


@given(
    filler=st.integers(0, 6000),
    secrets=st.lists(st.integers(6, 3000), min_size=1, max_size=4),
    limit=st.integers(1, 400),
)
def test_cutting_a_text_shows_the_beginning_of_what_redacting_it_whole_shows(
    filler: int, secrets: list[int], limit: int
) -> None:
    """However much goes: secrets that are longer than what is left make room for what comes after them."""
    known = [f"{n}-{'kz' * length}"[:length] for n, length in enumerate(secrets)]
    text = "x " * (filler // 2) + " ".join(known) + " y" * 6000
    redactor = Redactor(known)

    assert redactor.cut(text, limit) == redactor.text(text)[:limit]
    assert redactor.cut(text[:limit], limit) == redactor.text(text[:limit])
