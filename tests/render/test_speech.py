"""A model's words in pieces: shown once, as they come, without what steers a terminal and without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.redaction import Redactor
from placet.render.speech import Speech
from placet.safe_text import clean
from tests.properties.effort import examples

SECRET = "tr0ub4dor-and-3"
LETTERS = st.text(alphabet="ab \n\t\r\x1b\u202e\u2764\ufe0f字.:", max_size=40)


def said(*pieces: str, secrets: tuple[str, ...] = ()) -> str:
    shown: list[str] = []
    redactor = Redactor(secrets)
    speech = Speech(shown.append, redactor.text, redactor.open_tail)
    for piece in pieces:
        speech.say(piece)
    speech.end()
    return "".join(shown)


@examples(100)
@given(st.lists(LETTERS, max_size=8))
def test_the_pieces_are_shown_as_the_whole_would_be(pieces: list[str]) -> None:
    whole = "".join(pieces)

    shown = said(*pieces)

    expected = clean(whole, lines=True, tabs=True)
    assert shown == (expected if not expected or expected.endswith("\n") else f"{expected}\n")


@examples(50)
@given(st.integers(1, 14), st.sampled_from(["", " ", "\n", "x: ", "字"]))
def test_a_secret_in_two_pieces_is_not_shown(cut: int, before: str) -> None:
    shown = said(f"{before}{SECRET[:cut]}", f"{SECRET[cut:]} it is", secrets=(SECRET,))

    assert shown == f"{before}[redacted] it is\n"


def test_a_secret_is_known_by_the_words_before_it() -> None:
    assert said("The password: ", "hun", "ter2 and more") == "The password: [redacted] and more\n"


def test_a_key_over_several_lines_is_not_shown() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nAAAA\n-----END PRIVATE KEY-----"

    shown = said("Here:\n", *(f"{line}\n" for line in key.split("\n")), "That was it.")

    assert "MIIE" not in shown
    assert shown.endswith("That was it.\n")


def test_words_are_shown_before_the_line_is_over() -> None:
    shown: list[str] = []
    speech = Speech(shown.append)

    speech.say("one two thr")

    assert "".join(shown) == "one two "
    assert speech.is_mid_line


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    shown: list[str] = []
    speech = Speech(shown.append)

    for _ in range(100):
        speech.say("a" * 100)

    assert len("".join(shown)) > 4_000


@pytest.mark.parametrize(
    "secret", ["correct horse battery staple", "pässwörtgeheim99", "first line\nsecond one"]
)
@pytest.mark.parametrize("before", ["", "it is ", "z" * 3_990, "word " * 798, "c p f "])
def test_a_known_secret_is_not_shown_wherever_it_is_cut(secret: str, before: str) -> None:
    whole = said(f"{before}{secret} it is", secrets=(secret,))

    assert whole == f"{before}[redacted] it is\n"
    for cut in range(1, len(secret)):
        assert said(f"{before}{secret[:cut]}", f"{secret[cut:]} it is", secrets=(secret,)) == whole
    assert said(before, *secret, " it", " is", secrets=(secret,)) == whole


@pytest.mark.parametrize("length", range(3_960, 4_010, 5))
def test_what_names_a_secret_stays_with_it_in_a_long_line(length: int) -> None:
    text = f"{'word ' * (length // 5)}the password: hunter2hunter2 and more words"

    shown = said(*(text[at : at + 7] for at in range(0, len(text), 7)))

    assert shown == text.replace("hunter2hunter2", "[redacted]") + "\n"


@examples(100)
@given(
    st.lists(st.sampled_from(["ab", " ", "s3cr3t", " val", "ue 9", "\n", "s3", "password: ", "x" * 1_500]))
)
def test_pieces_show_no_known_secret_and_lose_nothing(pieces: list[str]) -> None:
    secret = "s3cr3t value 9"

    shown = said(*pieces, secrets=(secret,))

    assert secret not in shown
    assert shown.count("ab") == "".join(pieces).replace(secret, "").count("ab") or "password: " in pieces
