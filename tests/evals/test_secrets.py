"""How many secrets are found and how much harmless text is taken for one, held as figures."""

from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evals.secrets import harmless, measure, secrets
from placet import redaction
from placet.redaction import REDACTED, Redactor

REDACTOR = Redactor()


def test_the_sets_are_as_large_as_they_are_meant_to_be() -> None:
    hidden, plain = secrets(), harmless()

    assert len(hidden) >= 100
    assert len({line.kind for line in hidden}) >= 20
    assert len(plain) >= 300
    assert len({line.kind for line in plain}) >= 8
    assert all(line.secret in line.text for line in hidden)
    assert secrets() == hidden, "they are made from a seed"


def test_as_many_secrets_are_found_with_few_false_alarms() -> None:
    """Before placeholders and references were told from secrets, 140 were found, with 223 false alarms."""
    score = measure()

    assert score.found >= 160, score.missed
    assert score.alarms <= 6, score.alarmed


def test_another_seed_gives_the_same_figures() -> None:
    missed = [line.text for line in secrets(seed=7) if line.secret in REDACTOR.text(line.text)]

    assert not missed


mixed = st.text(string.ascii_letters + string.digits + "!#%+*-_", min_size=8, max_size=60)


@given(
    secret=mixed, line=st.sampled_from(["password={}", 'api_key: "{}"', "--token {}", "postgres://u:{}@db/x"])
)
def test_a_value_with_a_digit_and_both_cases_is_never_taken_for_a_placeholder(secret: str, line: str) -> None:
    assume(secret[0].isalpha() and secret[-1].isalnum())
    assume(any(c.isdigit() for c in secret) and any(c.islower() for c in secret))
    assume(not redaction._EXAMPLE.search(secret))
    # Words with a number, such as `my-Password-1`, are for people to judge.
    assume(max(map(len, redaction._words(secret))) >= 4)
    assume(not set(redaction._words(secret)) <= redaction._WORDS_OF_STAND_INS)

    assert secret not in REDACTOR.text(line.format(secret))


@given(st.sampled_from([line.text for line in harmless()]), st.sampled_from(secrets()))
def test_a_placeholder_beside_a_secret_does_not_save_it(plain: str, hidden: object) -> None:
    text = f"{plain}\n{hidden.text}\n{plain}"  # type: ignore[attr-defined]

    shown = REDACTOR.text(text)

    assert hidden.secret not in shown  # type: ignore[attr-defined]
    assert REDACTOR.text(shown) == shown


@pytest.mark.parametrize(
    "hostile",
    [
        "password=<password=",
        "password=${password=",
        'password="x" ',
        "token=xxx token=",
        "api_key=os.environ[",
        "://a:b@",
        "password=your_password=",
        "--token TOKEN ",
        "password=a(",
    ],
)
def test_the_work_grows_with_the_text_and_no_faster(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in characters of values that are judged, on a text and on one ten times as long."""
    judged: Counter[int] = Counter()
    judge = redaction._is_harmless
    size = 0

    def counting(value: str, *, is_named: bool) -> bool:
        judged[size] += len(value) + 1
        return judge(value, is_named=is_named)

    monkeypatch.setattr(redaction, "_is_harmless", counting)
    for size in (300, 3_000):
        Redactor().text(hostile * size)

    assert judged[3_000] <= 12 * judged[300] + 1_000


def test_a_documented_example_is_shown_and_a_key_beside_it_is_not() -> None:
    example, key = "AK" + "IAIOSFODNN7" + "EXAMPLE", "AK" + "IA" + "Q3ZT5WX7YB2CD4EF"

    assert REDACTOR.text(f"{example} {key}") == f"{example} {REDACTED}"
