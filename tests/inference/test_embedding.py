"""Texts as vectors: pieces are those of the reference tokenizer, and the real model tells meanings apart."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ModelMissing, RequestRefused
from placet.extras import install_command
from placet.inference.embedding.minilm import WIDTH, MiniLm
from placet.inference.embedding.wordpiece import MOST_TOKENS, WordPiece
from placet.inference.local.weights import EMBED, path_of
from placet.inference.model import Embedder, Request
from tests.properties.effort import examples
from tests.servers.local_model import model_files

BEGIN, END, UNKNOWN = 101, 102, 100

# Made with the package `tokenizers` 0.23.3 and the model's own tokenizer.json.
CASES = [
    ("", "101 102"),
    ("hello world", "101 7592 2088 102"),
    (
        "\xc9clair \xe0 la cr\xe8me, \xe7a va?",
        "101 14925 19771 2099 1037 2474 13675 21382 1010 6187 12436 1029 102",
    ),
    (
        "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 mixed with \u4e2d\u6587",
        "101 1864 1876 1950 1671 30239 30227 30233 30240 3816 2007 1746 1861 102",
    ),
    (
        "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3 \u039f\u0394\u039f\u03a3",
        "101 1173 18199 29733 29735 29736 29730 29733 1169 29722 29730 29733 102",
    ),
    ("stra\xdfe \ufb01anc\xe9", "101 2358 27807 1984 6651 102"),
    ("don't stop--now!!!", "101 2123 1005 1056 2644 1011 1011 2085 999 999 999 102"),
    ("tab\tnew\nline\rcr", "101 21628 2047 2240 13675 102"),
    (
        "nul\x00 zero\u200bwidth\u200d joiner \ufeffbom",
        "101 16371 2140 5717 9148 11927 2232 3693 2121 8945 2213 102",
    ),
    (
        "\u202eright-to-left\u202c \u0639\u0631\u0628\u0649 \u05e2\u05d1\u05e8\u05d9\u05ea",
        "101 2157 1011 2000 1011 2187 1288 17149 29816 29837 1259 29789 29811 29796 29813 102",
    ),
    (
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u0928\u092e\u0938\u094d\u0924\u0947",
        "101 1339 29877 29863 29861 29878 1327 29867 29874 29859 102",
    ),
    ("\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "101 100 102"),
    (
        "\ud55c\uad6d\uc5b4 \uc548\ub155\ud558\uc138\uc694",
        "101 1469 30006 30021 29991 30014 30020 29999 30008 1463 30006 30021 29992 30010 30025 "
        "30005 30006 29997 30009 29999 30013 102",
    ),
    ("\u0130stanbul \u01c5 \u2167 \u2460", "101 9960 100 100 100 102"),
    (
        "$100 + 5% = \u20ac99 ~^`|<>",
        "101 1002 2531 1009 1019 1003 1027 1574 2683 2683 1066 1034 1036 1064 1026 1028 102",
    ),
    (
        "\xa0nbsp\u3000ideographic\u2028ls\x0bvt\x0cff\x1cfs\x85nel end",
        "101 1050 5910 2361 8909 8780 14773 1048 2015 2615 24475 21807 11877 2203 102",
    ),
    (
        "snake_case CamelCase foo.bar(baz[0])",
        "101 7488 1035 2553 19130 18382 29379 1012 3347 1006 8670 2480 1031 1014 1033 1007 102",
    ),
    ("unknown \U0001d56c\U0001d587 \U00013000 \ua66e \ue000 \ufffd", "101 4242 100 100 100 102"),
    ("\xe0 combining a\u0300 n\u0303", "101 1037 11566 1037 1050 102"),
    (
        "\xbfQu\xe9? \xabguillemets\xbb \u201equotes\u201c \u2026 \u2013 \u2014",
        "101 1094 10861 1029 1077 26458 6216 11368 2015 1090 1525 16614 1523 1529 1516 1517 102",
    ),
    (
        "http://example.com/path?x=1&y=2",
        "101 8299 1024 1013 1013 2742 1012 4012 1013 4130 1029 1060 1027 1015 1004 1061 1027 1016 102",
    ),
    (
        "def f(x): return x**2  # comment",
        "101 13366 1042 1006 1060 1007 1024 2709 1060 1008 1008 1016 1001 7615 102",
    ),
    ("Vi\u1ec7t Nam Ti\u1ebfng", "101 19710 15125 5495 3070 102"),
    (
        "\ufdfa \uff46\uff55\uff4c\uff4c\uff57\uff49\uff44\uff54\uff48 \uff11\uff12\uff13",
        "101 100 100 100 102",
    ),
    ("\U0001f1e9\U0001f1ea flag", "101 100 5210 102"),
    ("soft\xadhyphen", "101 3730 10536 8458 2368 102"),
    ("[CLSx] [ SEP ]", "101 1031 18856 2015 2595 1033 1031 19802 1033 102"),
]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return model_files("embed")


@pytest.fixture(scope="module")
def pieces(environment: dict[str, str]) -> WordPiece:
    return WordPiece(path_of(EMBED.files[1], environment).read_text(encoding="utf-8").split("\n"))


# --- Pieces ---


@pytest.mark.parametrize(("text", "ids"), CASES, ids=lambda value: ascii(value)[:24])
def test_pieces_are_those_of_the_reference(pieces: WordPiece, text: str, ids: str) -> None:
    assert pieces.ids(text) == [int(each) for each in ids.split()]


def test_a_long_text_is_cut_and_still_has_its_end(pieces: WordPiece) -> None:
    found = pieces.ids("word " * 100_000)

    assert len(found) == MOST_TOKENS
    assert (found[0], found[-1]) == (BEGIN, END)
    assert set(found[1:-1]) == {2773}


def test_a_word_of_more_than_a_hundred_letters_is_unknown(pieces: WordPiece) -> None:
    assert pieces.ids("a" * 101) == [BEGIN, UNKNOWN, END]
    assert UNKNOWN not in pieces.ids("a" * 100)


def test_a_text_cannot_spell_the_signs_of_the_model(pieces: WordPiece) -> None:
    found = pieces.ids("[CLS] [SEP] [PAD] [MASK]")

    assert not {BEGIN, END, 0, 103} & set(found[1:-1])


@examples(200)
@given(text=st.text(st.characters(), max_size=300))
def test_any_text_has_pieces_within_the_limit(pieces: WordPiece, text: str) -> None:
    found = pieces.ids(text)

    assert (found[0], found[-1]) == (BEGIN, END)
    assert len(found) <= MOST_TOKENS


def test_a_vocabulary_without_its_signs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lacks \[CLS\] and \[SEP\]"):
        WordPiece(["[UNK]", "word"])


# --- Vectors ---

TEXTS = (
    "How do I get my money back?",
    "Refunds are paid within ten days.",
    "The cat sleeps on the sofa.",
    "",
    "日本語のテキスト",
    "word " * 5000,
    "def add(a, b): return a + b",
    "\ud800 half a character",
)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_each_text_has_a_vector_of_length_one_whatever_is_asked_beside_it(
    environment: dict[str, str],
) -> None:
    model = MiniLm(environment)

    together = await model.embed(TEXTS)
    alone = [(await MiniLm(environment).embed([text]))[0] for text in TEXTS]
    many = await model.embed([*TEXTS[:5]] * 9)

    assert isinstance(model, Embedder)
    for vector, same in zip(together, alone, strict=True):
        assert len(vector) == WIDTH
        assert math.isclose(math.hypot(*vector), 1.0, abs_tol=1e-5)
        assert cosine(vector, same) > 0.99999
    for place, vector in enumerate(many):
        assert cosine(vector, together[place % 5]) > 0.99999
    assert await model.embed([]) == []


async def test_texts_that_mean_the_same_are_nearer_than_others(environment: dict[str, str]) -> None:
    pairs = (
        ("How do I get my money back?", "Refunds are paid within ten days."),
        ("The server does not answer any more.", "Our machine stopped responding."),
        ("She plays the violin every evening.", "At night she makes music on her fiddle."),
        ("Delete the file for good.", "Remove this document permanently."),
    )
    flat = [text for pair in pairs for text in pair]

    vectors = await MiniLm(environment).embed(flat)

    for place in range(len(flat)):
        others = [n for n in range(len(flat)) if n != place]
        nearest = max(others, key=lambda n: cosine(vectors[n], vectors[place]))
        assert nearest == place ^ 1, flat[place]


async def test_the_loop_goes_on_meanwhile(environment: dict[str, str]) -> None:
    working = asyncio.create_task(MiniLm(environment).embed([TEXTS[0], TEXTS[5]]))
    turns = 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 5
    assert len(await working) == 2


# --- What is missing ---


async def test_what_is_missing_is_told_with_the_command_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MiniLm({"PLACET_MODELS": str(tmp_path)})

    with pytest.raises(ModelMissing, match="placet model pull embed"):
        await model.embed(["x"])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelMissing, match=re.escape(install_command("embed"))):
        await model.embed(["x"])


@pytest.fixture
def damaged(tmp_path: Path) -> dict[str, str]:
    environment = {"PLACET_MODELS": str(tmp_path)}
    for file in EMBED.files:
        with open(path_of(file, environment), "wb") as empty:
            empty.truncate(file.size)
    return environment


async def test_files_that_are_damaged_are_told(damaged: dict[str, str]) -> None:

    with pytest.raises(ModelMissing, match="placet model rm embed"):
        await MiniLm(damaged).embed(["x"])


async def test_it_answers_no_questions(tmp_path: Path) -> None:
    with pytest.raises(RequestRefused, match="turns texts into vectors"):
        await MiniLm({}).generate(Request(messages=[]))
