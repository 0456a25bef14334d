"""Text is redacted before it is cut, and cut in one module alone."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import truncation
from placet.events.parameters import logged_text
from placet.model_text import shortened
from placet.redaction import REDACTED, Redactor
from placet.safe_text import clean, columns, shorten
from placet.truncation import (
    boundary,
    excerpt,
    truncate,
    truncate_bytes,
    truncate_bytes_tail,
    truncate_repr,
    truncate_tail,
)

SOURCE = Path(__file__).resolve().parents[1] / "src" / "placet"
ALLOWED = Path(__file__).with_name("allowed_slices.txt")

PIECE = 6
"""Characters of a secret that must not be left."""

CUTS: dict[str, Callable[[str, int], str]] = {
    "truncate": truncate,
    "truncate with an ellipsis": lambda text, limit: truncate(text, limit, "..."),
    "truncate_tail": truncate_tail,
    "truncate_bytes": lambda text, limit: truncate_bytes(text.encode(), limit).decode(),
    "truncate_bytes of a part": lambda text, limit: truncate_bytes(
        text.encode(), limit, is_partial=True
    ).decode(),
    "truncate_bytes_tail": lambda text, limit: truncate_bytes_tail(text.encode(), limit).decode(),
    "truncate_repr": truncate_repr,
    "excerpt": lambda text, limit: excerpt(text, limit // 2, limit // 2 + limit),
    "boundary": lambda text, limit: text[: boundary(text, limit)],
    "clean": clean,
    "clean with lines": lambda text, limit: clean(text, limit, lines=True, tabs=True),
    "shorten": shorten,
    "logged_text": lambda text, limit: logged_text(text, Redactor, limit),
    "shortened": lambda text, limit: shortened(text, limit, lambda _: "gone"),
}

secrets = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=8, max_size=300)
"""Of characters that what surrounds them does not have."""


def pieces(secret: str) -> set[str]:
    return {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}


@pytest.mark.parametrize("name", CUTS)
@given(
    secret=secrets,
    before=st.integers(0, 700),
    after=st.integers(0, 6_000),
    limit=st.sampled_from([40, 80, 200, 300, 500]),
)
def test_no_cut_leaves_a_part_of_a_registered_secret(
    name: str, secret: str, before: int, after: int, limit: int
) -> None:
    known = Redactor([secret])
    text = "a b " * (before // 4) + "." * (before % 4) + secret + " c d" * (after // 4)

    shown = known.text(CUTS[name](text, limit))

    left = [piece for piece in pieces(secret) if piece in shown]
    assert not left, shown


@pytest.mark.parametrize("size", [8, 30, 300, 9_000])
@pytest.mark.parametrize("name", CUTS)
def test_no_place_of_the_cut_leaves_a_part(name: str, size: int) -> None:
    """Every place of the secret around the limit, from both ends of the text."""
    secret = "".join(chr(ord("A") + (at * 7 + at // 26) % 26) for at in range(size))
    known = Redactor([secret])
    cut, limit = CUTS[name], 200
    step = max(1, size // 60)

    for before in [*range(max(0, limit - size - 5), limit + 5, step), limit // 2 - 3, limit // 2 + limit - 3]:
        for text in (
            "." * before + secret + "." * 20_000,
            "." * 20_000 + secret + "." * before,
            "." * before + secret,
        ):
            if name == "boundary" and size > limit and before == 0:
                continue
            shown = known.text(cut(text, limit))
            assert not any(piece in shown for piece in pieces(secret)), (before, shown)


def test_a_secret_known_by_its_shape_is_not_cut_either() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    for before in range(150, 205):
        shown = truncate("." * (before - 1) + " " + token + " and more" * 900, 200)
        assert token[:PIECE] not in shown


def test_a_text_that_fits_is_returned_as_it_is() -> None:
    secret = "correct horse battery"
    known = Redactor([secret])
    text = f"it is {secret}"

    assert truncate(text, len(text)) is text
    assert clean(text, len(text)) == text
    assert known.text(truncate(text, len(text))) == f"it is {REDACTED}"


@given(st.text(max_size=200), st.integers(1, 60))
def test_the_limit_holds(text: str, limit: int) -> None:
    assert len(truncate(text, limit)) <= limit
    assert len(truncate(text, limit, "…")) <= limit
    assert len(truncate_tail(text, limit)) <= limit
    assert columns(clean(text, limit)) <= limit
    data = text.encode()
    assert len(truncate_bytes(data, limit)) <= limit
    assert len(truncate_bytes_tail(data, limit)) <= limit


@given(st.text("ab .", max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_text_without_secrets_is_cut_as_a_slice_would(text: str, start: int, length: int) -> None:
    end = start + length

    assert truncate(text, length) == text[:length]
    assert truncate_tail(text, length) == text[max(0, len(text) - length) :]
    assert excerpt(text, start, end) == text[start:end]
    assert boundary(text, start) == min(start, len(text))


def test_the_end_of_what_was_read_is_no_beginning_of_a_secret() -> None:
    """A stream that is read no further may end within a secret."""
    secret = "correct horse battery staple"
    known = Redactor([secret])
    data = b"." * 90 + secret[:20].encode()

    shown = truncate_bytes(data, 100, is_partial=True)

    assert shown == b"." * 90
    assert known.text(shown.decode()) == "." * 90


def test_a_redactor_that_is_gone_is_asked_no_more() -> None:
    known = Redactor(["correct horse battery staple"])
    text = "." * 30 + "correct horse battery staple"
    assert truncate(text, 40) == "." * 30 + REDACTED

    del known
    gc.collect()

    assert truncate(text, 40) == text[:40]


def test_the_work_depends_on_the_limit_and_not_on_the_text() -> None:
    """Counted in characters that are redacted."""
    read: list[int] = []

    class Counting:
        def longest_secret(self) -> int:
            return 10

        def without_registered(self, text: str) -> str:
            read.append(len(text))
            return text

        def open_tail(self, text: str) -> int:
            return 0

    counting = Counting()
    truncation.register(counting)
    for size in (10_000, 1_000_000):
        clean("x" * size, 60)
        truncate_tail("x" * size, 60)
        excerpt("x" * size, size // 2, size // 2 + 60)

    assert read[: len(read) // 2] == read[len(read) // 2 :]
    assert max(read) < 20_000


# -- no other module cuts ------------------------------------------------------------------------------------

_LIMIT = re.compile(r"_?[A-Z][A-Z0-9_]+|_?(most|limit|width|room|half|share|longest|shown)|(max|most)_\w+")
_SMALL = 6
"""Below, a slice takes a text apart instead of cutting it."""
_LISTS = (ast.List, ast.ListComp, ast.Tuple)
_GIVE_LISTS = {"sorted", "list", "split", "splitlines", "rsplit", "findall", "values"}
_GIVE_DIGESTS = {"hexdigest"}


def _is_limit(bound: ast.expr | None) -> bool:
    for node in ast.walk(bound) if bound is not None else ():
        match node:
            case ast.Constant(value=int(number)) if not isinstance(number, bool) and number >= _SMALL:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if _LIMIT.fullmatch(name):
                return True
    return False


def _is_list(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _GIVE_LISTS | _GIVE_DIGESTS
    return isinstance(value, _LISTS)


def cuts(source: str) -> Iterator[str]:
    """What in some code looks like cutting a text: a slice up to a limit, or a format with a precision."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper), ctx=context):
                if (_is_limit(lower) or _is_limit(upper)) and not _is_list(value):
                    if not isinstance(context, ast.Store):
                        yield ast.unparse(node)
            case ast.FormattedValue(format_spec=ast.JoinedStr(values=[ast.Constant(value=str(spec)), *_])):
                if re.search(r"\.\d+s?$", spec):
                    yield ast.unparse(node)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()) if re.search(
                r"%[-\d]*\.\d+[sr]", text
            ):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="textwrap"), attr="shorten")):
                yield ast.unparse(node)


def _allowed() -> set[str]:
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


@cache
def _found() -> set[str]:
    return {
        f"{path.relative_to(SOURCE).as_posix()}: {each}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "truncation.py" and "testing" not in path.parts
        for each in cuts(path.read_text(encoding="utf-8"))
    }


def test_no_other_module_cuts_text() -> None:
    new = sorted(_found() - _allowed())

    assert not new, (
        "These look like cutting a text before it is redacted. Use placet.truncation, or clean(text, limit). "
        f"If it is no text, or one that stays inside, add the line to {ALLOWED.name}:\n" + "\n".join(new)
    )


def test_the_list_of_allowed_slices_names_only_what_there_is() -> None:
    assert not sorted(_allowed() - _found())


@pytest.mark.parametrize(
    "code",
    [
        "text[:80]",
        "words[-_TAIL:]",
        "output[: limit * 2]",
        "f'{name:.80}'",
        "f'{name!r:.80}'",
        "'%.80s' % name",
        "'%.80r' % name",
        "textwrap.shorten(text, 80)",
        "self._said[:most]",
    ],
)
def test_a_cut_is_noticed(code: str) -> None:
    assert list(cuts(code))


@pytest.mark.parametrize(
    "code", ["text[1:]", "line[:-1]", "sorted(names)[:20]", "f'{seconds:.2f}'", "text[at:]"]
)
def test_what_is_no_cut_is_not(code: str) -> None:
    assert not list(cuts(code))
