"""Secrets taken out of whatever is logged, exported or shown.

A secret is known in three ways: it was registered, it stands under a name that says so (`githubToken`,
`--api-key`), or it has a shape that only secrets have. What surrounds it stays, so that people can read on.

Keep true:
1. A given value is never changed, and is itself the answer if nothing had to go: this runs on every event.
2. Redacting twice is redacting once. A text is cut at the marks of earlier redactions, no rule looks across
   one, and rules apply until nothing changes: what one keeps may hold what another takes. Two or three
   rounds do if a rule (a) has no condition on what follows that a cut could lift, (b) never takes what it
   meant to keep, hence the possessive and atomic groups, and (c) goes on to the end of the word.
3. Rules are linear: none rescans a stretch that an earlier start has scanned in vain, but for the short ones
   of values that stand in for a secret.
4. No error message repeats a secret.
5. A text is redacted before it is cut: the beginning of a secret is not recognised any more.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from heapq import merge
from itertools import islice, repeat
from operator import is_
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from placet import truncation
from placet.errors import UsageError
from placet.ir.json_value import MAX_DEPTH, JsonValue
from placet.truncation import REDACTED as REDACTED

_SHORTEST, _SHORTEST_LINE = 6, 12
_LEAST, _MOST, _MOST_TEXTS = 8, 4096, 50
"""Of what a tool answers as a secret: how long a text must and may be to be blacked out, and how many are."""
_POLICY = re.compile(
    r"(?:^|(?<=; )|(?<=rejected: )|(?<=compensation: )|(?<=approval: ))(policy '[^'\n]{1,200}': )"
)
"""How our own words about rules begin, and nothing else does by accident."""
_DEEPEST = MAX_DEPTH + 20
"""A value and what it is wrapped in. What lies deeper is not looked at, so it is not shown either."""
_CACHED_LENGTH, _CACHED = 64, 4096
"""Short texts found clean are remembered, that many at a time: names of tools and statuses come again."""
_SAFE_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""As many writers of JSON escape these."""
_NO_TEXT = frozenset({int, float, bool, type(None)})

_SURE = """password passwords passwd passphrase pwd authorization api_key api_keys access_key secret_key
    private_key signing_key encryption_key master_key account_key client_key_data connection_string
    basic_auth"""
_LIKELY = "secret secrets token credential credentials cookie cookies bearer jwt otp pw dsn"
"""Words of ordinary prose too: in a text, `token: expected` is none, while `token: a81fc9d2` is one."""
_PASS = "db smtp mail user admin root"
"""Before `pass`, which alone counts tests."""
_ENDINGS = ("password", "passwd", "passphrase", "apikey", "authtoken", "accesstoken", "clientsecret")
"""No other word ends like this, so `PGPASSWORD` needs no boundary before it."""
_HARMLESS = ("per", "page", "next", "first", "last", "stop", "eos", "bos", "pad", "idempotency")
"""Before `token`: counts, places in a listing, marks of a vocabulary, as in `cost_per_token`."""

# Not inside a word; but right after an escape such as \n or %3D, whose last letter is no part of the word.
_ESCAPE = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"
_START = rf"(?:(?<![A-Za-z0-9])|{_ESCAPE})"
_START_NAME = rf"(?:(?<![A-Za-z])|(?-i:(?<=[a-z])(?=[A-Z]))|{_ESCAPE})"
_IN_NAME = r"(?:(?<=[A-Za-z0-9][_-])|(?-i:(?<=[a-z])(?=[A-Z])))"
_SPACE = r"[ \t]{0,8}+"
_SEPARATOR = rf"(?:[_-]?[0-9]{{1,2}})?+(?:\\{{0,3}}[\"']\]?)?+{_SPACE}(?>:=?|=>?|%3[Dd]){_SPACE}"
_SCHEME = r"(?:(?i:bearer|basic|token|bot|negotiate)[ \t]{1,4}+)?+"
_QUOTED = (
    rf'"{_SCHEME}((?:[^"\\\n]|\\.)+)'
    rf"|'{_SCHEME}((?:[^'\\\n]|\\.)+)"
    # JSON within JSON: an inner quotation mark has three backslashes, the closing one has one.
    rf'|\\"{_SCHEME}((?:[^"\\\n]|\\{{4}}|\\{{3}}"|\\{{2}}[^"\\\n])+)'
)
_NOTHING = r"(?!(?i:null|none|true|false)(?:[\s,;&)}\]]|$))"
_MORE = r"""(?:[^\s"'&;,\\]|,[^\s"'&;,\\]|\\[^\s"'\\nrt])"""
_BARE = rf"""{_NOTHING}(?:\{{[^\s{{}}"']+\}}|[^\s"'&;,\\={{\[]{_MORE}*)"""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_PEM_END = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = r"[\w+/=\s\\:,.()-]*"

_SHAPES = {
    rf"(-----BEGIN {_PEM_END}(?:{_PEM_BODY}?-----END {_PEM_END}[\w-]*|{_PEM_BODY}))": "-----begin",
    r"""://[^\s/:@"'<>]*:([^\s/"'<>]+)(?=@)""": "://",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{8,})": "hooks.slack.com/",
    # Unlike the others it is searched to the end of the word, so only a whole word may start it.
    rf"(?:(?<![\w-])|{_ESCAPE})(eyJ[\w-]{{8,}}+(?:\.[\w-]++){{2,4}}+)": "eyj",
    rf"{_START}(?i:bearer)[ \t]{{1,4}}((?=[\w.~+/-]{{0,60}}[0-9])[\w.~+/=-]{{8,}})": "bearer",
    rf"{_START}(A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{{16}}[\w-]*)": "akia asia abia acca",
    rf"{_START}((?:gh[pousr]|npm|hf)_[A-Za-z0-9]{{20,}}[\w-]*)": "ghp_ gho_ ghu_ ghs_ ghr_ npm_ hf_",
    rf"{_START}([sr]k_(?:live|test)_[A-Za-z0-9]{{8,}}[\w-]*)": "sk_live_ sk_test_ rk_live_ rk_test_",
    rf"{_START}((?:github_pat_|gl[a-z]{{1,4}}-)[\w-]{{16,}})": "github_pat_ glpat- gldt- glrt- glptt-",
    rf"{_START}((?:ya29\.|pypi-AgEI|AIza|x(?:ox[a-z]|app)-)[\w-]{{10,}})": "ya29. pypi-agei aiza xox xapp-",
    rf"{_START}(SG\.[\w-]{{16,}}\.[\w-]{{16,}})": "sg.",
    rf"{_START}((?:dop_v1_|hvs\.|gsk_|dckr_pat_|shpat_|lin_api_)[\w-]{{20,}})": (
        "dop_v1_ hvs. gsk_ dckr_pat_ shpat_ lin_api_"
    ),
    rf"{_START}(dapi[0-9a-f]{{32}}[\w-]*)": "dapi",
    r"(?<=[0-9]{8}):(AA[\w-]{33})(?![\w-])": ":aa",  # Of a bot of Telegram, behind its number.
    # Words with hyphens begin like this too; keys have digits, or no hyphen for a long time.
    rf"{_START}(sk-(?:(?=[A-Za-z_-]{{0,60}}[0-9])[\w-]{{20,}}|[A-Za-z0-9]{{20,}}[\w-]*))": "sk-",
}
"""Rules whose group must go, each with what a match begins with, in small letters."""

_URL = "://"
_LONGEST_STAND_IN = 200
"""Of a longer value it is not asked whether it stands in for a secret, so that rules stay linear."""
_SUBJECT = urlsafe_b64encode(b'{"sub":"1234567890"').decode().rstrip("=")
"""In the token that is shown wherever JSON web tokens are explained."""
_EXAMPLE = re.compile(
    r"EXAMPLE|x{6}|X{6}|\*{4}|\.{3}|0{8}|1234567890abc|0123456789abc|[Yy]our[-_]|YOUR[-_]"
    rf"|{_SUBJECT[:-1]}"
)
"""What examples in documentation have and no generated key has, but by an accident that never happens."""
_ROOTS = """os|process|env|environ|settings|config|conf|self|this|vars?|locals?|module|data|args|opts|options
    |params|props|state|request|req|ctx|context|secrets|app|credentials|account|std|System|ENV|Rails|import"""
_STAND_IN = re.compile(
    # Of a shell, a template, a pipeline, a format.
    r"\$\{\{?[^{}]*\}{0,2}|\$[A-Za-z_]\w*|\$env:\w+|\$\([^()]*\)?"
    r"|%\(\w+\)[sdr]|%[sdr]|%[A-Z_]+%|\{\{.*|\#\{.*|\{[A-Za-z_.]*\}"
    # <your-key>, <%= ENV['KEY'] %>; covered, or left out.
    r"|<[A-Za-z _./%='\"\[-]*>?|[xX*.\#?_•…-]{3,}"
    # Where it is kept.
    r"|!(?:Ref|Sub|GetAtt|ImportValue|vault)|@Value\(?|(?:vault:|op://|ref\+|file:|env:)[\w./#:-]*"
    # Code: os.environ[, settings.SECRET_KEY, getpass.getpass(), varchar(255)
    rf"|(?:{''.join(_ROOTS.split())})(?:\.|->|::|\[)[A-Za-z_.:>\[\]()-]*"
    r"|[A-Za-z_][A-Za-z_.:]{2,}\((?:[^()]*\))?|[A-Za-z_$][A-Za-z_.$]*\[[A-Za-z]*|[fbru]{1,2}",
    re.ASCII,
)
"""A value that is not the secret: a reference to where it is, or a mark that one belongs there."""
_VOCABULARY = """
    a access accesstoken account actual add admin an and api apikey app at auth authtoken be bearer
    bytes change changeme char characters charfield choose client cookie credential credentials database
    db digit dummy empty enter example fake fill forgot form get here hidden id in insert invalid is it
    key keys least masked me missing must my name new next nil none not null of old on optional or other
    pass passphrase passwd password passwords passwort placeholder please put real redacted replace
    required sample secret secrets secretstr set short some str string tbd text the this to todo token
    tokens too type undefined unset use user username valid value varchar with you your
"""
_WORDS_OF_STAND_INS = frozenset(_VOCABULARY.split())
"""A value of such words alone says what belongs in its place."""
_TELLING = frozenset(
    (
        "password",
        "passwort",
        "passphrase",
        "token",
        "secret",
        "key",
        "required",
        "must",
        "please",
        "enter",
        "your",
    )
)
"""A sentence with one of these is about a secret."""
_PUNCTUATION = ";,)]}>|.?!: "


def _stands_in(value: str) -> bool:
    """Whether a value under the name of a secret is no secret: a placeholder, a reference, a piece of code.

    >>> [_stands_in(each) for each in ("<your-key>", "os.environ[", "YOUR_TOKEN_HERE", "hunter2")]
    [True, True, True, False]
    """
    if len(value) > _LONGEST_STAND_IN:
        return False
    plain = value.rstrip(_PUNCTUATION) or value
    if _STAND_IN.fullmatch(plain) or _STAND_IN.fullmatch(value):
        return True
    words = _words(plain)
    if not words or any(word.isdigit() for word in words):
        return False
    if all(word in _WORDS_OF_STAND_INS for word in words):
        return True
    return (
        " " in plain
        and plain.replace(" ", "").rstrip(_PUNCTUATION).isalpha()
        and not _TELLING.isdisjoint(words)
    )


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name).replace("_", "[_. -]?") for name in sorted(names, key=len, reverse=True))


class _Rule(NamedTuple):
    begin: str
    """Text with which a match begins, in small letters."""
    pattern: re.Pattern[str]
    is_named: bool
    """Whether only what stands before a value says that it is a secret."""


@lru_cache(maxsize=16)
def _rules(names: tuple[str, ...]) -> list[_Rule]:
    """Every rule beside each text with which a match of it begins."""
    sure, likely = (*_SURE.split(), *names), _LIKELY.split()
    every = (*sure, *likely, *_ENDINGS, "pass")
    passes = "|".join(rf"(?<={word}[_-])" for word in _PASS.split())
    harmless = "".join(rf"(?<!{word}[_-])" for word in _HARMLESS)
    word = rf"{harmless}(?:{_any_of(likely)})"
    name = rf"{'|'.join(_ENDINGS)}|(?:{passes})pass|{_START_NAME}(?:{_any_of(sure)})|{_IN_NAME}{word}"
    flag = rf"(?<![\w-])--[\w-]{{0,60}}?(?:{_any_of((*sure, *likely))})"
    digits = r"(?:(?<==)|(?<=%3[Dd])|(?=\S{0,60}[0-9])(?=\S{8}))"
    cookie = rf"""(?:set-)?cookie(?:\\?["'])?+{_SPACE}:{_SPACE}([^\s"'\\{{\[][^\r\n"'\\]*)"""
    named = {
        rf"(?i:{_START_NAME}{cookie})": "set-cookie cookie",
        rf"(?i:{name}){_SEPARATOR}(?:{_QUOTED}|{_SCHEME}({_BARE}))": _begins(every),
        rf"(?i:{_START_NAME}{word}){_SEPARATOR}(?:{_QUOTED}|{digits}{_SCHEME}({_BARE}))": _begins(likely),
        rf"(?i:{flag})[ \t]{{1,8}}+(?:{_QUOTED}|(?=[^\s-]\S{{3}})({_BARE}))": "--",
    }
    return [
        _Rule(begin, re.compile(rule, re.ASCII), rule in named or begin == _URL)
        for rule, begins in {**_SHAPES, **named}.items()
        for begin in begins.split()
    ]


def _begins(names: Iterable[str]) -> str:
    first = {name.partition("_")[0] for name in names}
    return " ".join(word for word in sorted(first) if not word.startswith(tuple(first - {word})))


def _apply(rules: list[_Rule], text: str) -> str:
    small = text.replace("İ", "I").lower()  # The one letter that grows when made small: places would shift.
    near = [rule for rule in rules if rule.begin in small]
    if not near:
        return text
    parts, done = [""], 0
    # One after the other as they stand in the text; of those at one place the earlier rule.
    found = [re.finditer(re.escape(rule.begin), small) for rule in near]
    places = [zip(map(re.Match.start, each), repeat(rank)) for rank, each in enumerate(found)]
    for at, rank in merge(*places):
        if at >= done and (match := near[rank].pattern.match(text, at)):
            start, end = match.span(match.lastindex or 0)
            if _is_harmless(text[start:end], is_named=near[rank].is_named):
                continue
            parts += text[done:start], REDACTED
            done = end
    return "".join([*parts, text[done:]])


def _is_harmless(value: str, *, is_named: bool) -> bool:
    if len(value) > _LONGEST_STAND_IN:
        return False
    return _EXAMPLE.search(value) is not None or (is_named and _stands_in(value))


def _words(name: str) -> list[str]:
    """The words of a name, in small letters: `x`, `api`, `key` for `X-Api-Key` and for `xApiKey`."""
    return _WORD.findall(_HUMP.sub("_", name[-200:]).lower())


def _forms(secret: str) -> Iterator[str]:
    """The ways in which a secret is written inside other texts."""
    raw = secret.encode("utf-8", "surrogatepass")
    for percent in (secret, quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield from (percent, re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), percent))
    yield from _in_base64(raw)
    yield from (raw.hex(), raw.hex().upper())
    yield from _in_markup(secret)
    for once in _escaped(secret, raw):
        yield once
        # An error message inside a JSON document, or a JSON document inside an error message.
        yield from (json.dumps(once, ensure_ascii=False)[1:-1], *_in_quotes(once, repr))


def _escaped(secret: str, raw: bytes) -> Iterator[str]:
    """The secret inside a literal of JSON or of Python."""
    for ascii_only in (False, True):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escaped.replace("/", "\\/"), escaped.translate(_SAFE_IN_HTML))
    yield from _in_quotes(secret, repr)
    yield from _in_quotes(secret, ascii)
    # Each byte stands for itself as a character of Latin-1; what is not ASCII is escaped.
    yield from _in_quotes(raw.decode("latin-1"), lambda part: repr(part.encode("latin-1"))[1:])


def _in_quotes(text: str, literal: Callable[[str], str]) -> Iterator[str]:
    """A text inside a longer literal of Python. Its other characters decide whether `'` is escaped."""
    parts = [literal(part)[1:-1] for part in text.split("'")]
    yield from ("'".join(parts), "\\'".join(parts))


def _in_markup(secret: str) -> Iterator[str]:
    """The secret in HTML or XML, and in a command line in quotes."""
    text = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield text
    for double, single in (
        ("&quot;", "&#x27;"),
        ("&#34;", "&#39;"),
        ("&quot;", "&#39;"),
        ("&quot;", "&apos;"),
    ):
        yield text.replace('"', double).replace("'", single)
    yield from (secret.replace("'", "'\"'\"'"), secret.replace("'", "'\\''"))


def _in_base64(raw: bytes) -> Iterator[str]:
    """The secret as a part of something in base64, such as `user:secret`: at the end of it, or before more.

    A character has 6 bits. One with bits of the secret and of what stands beside it is not removed.
    """
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        padded = bytes(before) + raw
        whole = len(padded) * 8 // 6
        for encoded in (b64encode(padded).decode(), urlsafe_b64encode(padded).decode()):
            yield from (encoded[shared:], encoded[shared:].rstrip("="), encoded[shared:whole])


class Redactor:
    """Removes secrets from texts and JSON values: registered ones, values that look like secrets, and values
    under names such as `password`.

    >>> Redactor(["hunter2hunter2"]).value({"note": "it is hunter2hunter2", "apiKey": 5, "tokens": 12})
    {'note': 'it is [redacted]', 'apiKey': '[redacted]', 'tokens': 12}
    """

    def __init__(self, secrets: Iterable[str] = (), *, names: Iterable[str] = ()) -> None:
        """Create a redactor.

        Args:
            secrets: Secrets to remove wherever they occur.
            names: Further names whose values are secrets.

        Raises:
            UsageError: a secret is too short.
        """
        own = [words for name in names if (words := _words(name))]
        self._rules = _rules(tuple(sorted({"_".join(words) for words in own})))
        self._own = frozenset("".join(words) for words in own)
        known = (*_SURE.split(), *_LIKELY.split(), *(f"{word}pass" for word in _PASS.split()))
        self._names = self._own.union(name.replace("_", "") for name in known)
        self._longest = max([3, *map(len, own)])
        self._known: set[str] = set()
        self._is_sorted = True
        self._secrets: list[str] = []
        self._secret = re.compile("")
        self._clean: set[str] = set()
        self._plain: set[str] = set()
        """Keys that hold no secret and name none."""
        if own:
            truncation.register(self)
        for secret in secrets:
            self.add_secret(secret)

    def add_secret(self, value: str) -> None:
        """Register a secret. It is removed wherever it is, also percent-encoded, in base64, hex or escapes.

        White space around it is ignored. Of a secret of several lines, each long line is a secret of its own.

        Args:
            value: The secret.

        Raises:
            UsageError: it is not a text, or so short that ordinary text would be removed.
        """
        given: object = value
        secret = given.strip() if isinstance(given, str) else ""
        if len(secret) < _SHORTEST or secret in REDACTED:
            raise UsageError(
                f"A secret to register is a text of at least {_SHORTEST} characters, and no part of "
                f"{REDACTED!r}: this one would black out ordinary text. Use a longer one, or keep it under a "
                "key such as 'password', which is redacted by its name."
            )
        lines = [line.strip() for line in secret.splitlines()]
        long = [line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("-----")]
        found = {form for part in (secret, *long) for form in _forms(part)}
        if found.issubset(self._known):
            return
        self._known |= found
        truncation.register(self)
        # Put in order when a text is looked at next: many may come at once.
        self._is_sorted = False
        self._clean.clear()
        self._plain.clear()

    def _sort(self) -> None:
        # Longest first: of two that begin alike, nothing of the longer one may remain.
        self._secrets = sorted(self._known, key=len, reverse=True)
        self._secret = re.compile("|".join(map(re.escape, self._secrets)))
        self._is_sorted = True

    def add_secrets_in(self, value: JsonValue) -> None:
        """From now on every text in `value` is a secret, except what is too short, or too long, to be one."""
        for text in islice(_texts(value), _MOST_TEXTS):
            if _LEAST <= len(text.strip()) <= _MOST and text.strip() not in REDACTED:
                self.add_secret(text)

    def text(self, text: str) -> str:
        """Return a text without secrets; the same object if it holds none.

        >>> Redactor().text("postgresql://app:hunter2@db/main?sslmode=require&password=hunter2")
        'postgresql://app:[redacted]@db/main?sslmode=require&password=[redacted]'

        Args:
            text: The text.
        """
        if not self._is_sorted:
            self._sort()
        if text in self._clean:
            return text
        if "policy '" in text:
            # Our own words: what a rule is called says nothing of what follows.
            pieces = _POLICY.split(text)
            if len(pieces) > 1:
                names = [f"policy '{self.text(piece[8:-3])}': " for piece in pieces[1::2]]
                others = [self.text(piece) for piece in pieces[::2]]
                return "".join(part for both in zip(others, [*names, ""], strict=True) for part in both)
        shown, before = self._without_registered(text), ""
        # Inside a plain word, an id or a digest none of the rules applies.
        while shown != before and not (shown.isalnum() and shown.isascii() and shown[0] != "A"):
            before = shown
            shown = REDACTED.join(_apply(self._rules, piece) for piece in shown.split(REDACTED))
        if shown != text:
            return shown
        _remember(text, self._clean)
        return text

    def cut(self, text: str, limit: int) -> str:
        """Redact a text, then cut it: a secret that lies across the cut leaves no beginning behind.

        Of a long text only the part that can matter is redacted.

        Args:
            text: The text.
            limit: Most characters of the result.

        >>> Redactor(["hunter2hunter2"]).cut("it is hunter2hunter2", 13)
        'it is [redact'
        """
        if len(text) > limit:
            truncation.register(self)
            text = truncation.redacted_head(text, limit)
        return self.text(text)[:limit]

    def longest_secret(self) -> int:
        """Characters of the longest registered secret, in whichever form it is longest."""
        if not self._is_sorted:
            self._sort()
        return len(self._secrets[0]) if self._secrets else 0

    def without_registered(self, text: str) -> str:
        """Return a text without registered secrets, and without values under names given to this redactor.

        Args:
            text: The text.
        """
        if self._own:
            return self.text(text)
        if not self._is_sorted:
            self._sort()
        return self._without_registered(text)

    def _without_registered(self, text: str) -> str:
        if any(secret in text for secret in self._secrets):
            return REDACTED.join(self._secret.sub(REDACTED, piece) for piece in text.split(REDACTED))
        return text

    def open_tail(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a registered secret.

        >>> Redactor(["correct horse"]).open_tail("it is correct h")
        9
        """
        if not self._is_sorted:
            self._sort()
        most = 0
        for secret in self._secrets:
            tail = text[-(len(secret) - 1) :]
            at = tail.find(secret[0])
            while at >= 0 and not secret.startswith(tail[at:]):
                at = tail.find(secret[0], at + 1)
            if at >= 0:
                most = max(most, len(tail) - at)
        return most

    def value(self, value: JsonValue) -> JsonValue:
        """Return a JSON value without secrets: the same object if it holds none, otherwise a copy.

        A value under the name of a secret is removed as a whole, unless it is null, true or false.

        Args:
            value: The value.
        """
        return self._walk(value, _DEEPEST)

    def _walk(self, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._walk_object(value, depth) if depth else REDACTED
        if isinstance(value, list | tuple):
            return self._walk_list(value, depth) if depth else REDACTED
        return value

    def _walk_object(self, given: dict[str, JsonValue], depth: int) -> dict[str, JsonValue]:
        plain, clean = self._plain, self._clean
        copied: dict[str, JsonValue] | None = None
        for place, (key, item) in enumerate(given.items()):
            shown_key, hide, kind = key, False, type(item)
            if key not in plain:
                shown_key, hide = self.text(key), self._names_secret(key)
                if shown_key is key and not hide:
                    _remember(key, plain)
            if hide or (key == "value" and self._names_secret(given.get("name", given.get("key")))):
                shown = _hidden(item)
            elif kind in _NO_TEXT or (kind is str and item in clean):
                shown = item
            else:
                shown = self._walk(item, depth - 1)
            if copied is None:
                if shown is item and shown_key is key:
                    continue
                copied = dict(islice(given.items(), place))
            base, number = shown_key, len(copied)
            while shown_key in copied:  # Two secrets that were keys are still two entries.
                number += 1
                shown_key = f"{base} {number}"
            copied[shown_key] = shown
        return given if copied is None else copied

    def _walk_list(self, given: list[JsonValue] | tuple[JsonValue, ...], depth: int) -> JsonValue:
        shown: list[JsonValue] = []
        after_flag = False
        for item in given:
            new = self._walk(item, depth - 1)
            # A command as a list: what follows `--password` is one.
            shown.append(_hidden(item) if after_flag and isinstance(new, str) and new[:1] != "-" else new)
            after_flag = isinstance(item, str) and item[:2] == "--" and self._names_secret(item)
        return given if all(map(is_, given, shown)) else shown

    def _names_secret(self, name: JsonValue) -> bool:
        if not isinstance(name, str) or name in self._plain:
            return False
        # Also as it will be shown: `[redacted]token` names one, whatever stood before.
        spellings = {name, self.text(name)}
        return any(map(self._is_secret, (*spellings, *(each.rstrip("0123456789") for each in spellings))))

    def _is_secret(self, name: str) -> bool:
        words = _words(name)
        ends = {"".join(words[-count:]) for count in range(1, self._longest + 1)}
        if words[-1:] == ["token"] and not set(words[-2:-1]).isdisjoint(_HARMLESS):
            return not self._own.isdisjoint(ends)
        return not self._names.isdisjoint(ends) or "".join(words[-1:]).endswith(_ENDINGS)


def _hidden(item: JsonValue) -> JsonValue:
    return item if item is None or isinstance(item, bool) or item == REDACTED else REDACTED


def _remember(text: str, known: set[str]) -> None:
    if len(text) <= _CACHED_LENGTH:
        if len(known) >= _CACHED:
            known.clear()
        known.add(text)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


truncation.register_rules(Redactor().text)
