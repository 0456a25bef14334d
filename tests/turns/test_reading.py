"""What a model writes after it has read marked text is marked, unless the person said it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.policy.marks import NO_MARKS, UNMARKED, Marks, Trail
from placet.turns.reading import Reading, Written, says
from tests.properties.effort import UNHURRIED, examples

WEB: Marks = {"untrusted": Trail(("a1 (web)",))}
KEYS: Marks = {"secret": Trail(("a2 (keys)",))}


def reading(*heard: str, marks: Marks = WEB) -> Reading:
    made = Reading()
    for text in heard:
        made.heard(text)
    made.read(marks)
    return made


def is_marked(message: str, value: Any) -> bool:
    return bool(reading(message).inflow({"p": value}).at("p"))


# What was read


def test_before_anything_marked_is_read_nothing_is_marked() -> None:
    made = Reading()
    made.heard("hello")
    made.read(NO_MARKS)

    assert made.marks == {}
    assert made.inflow({"to": "evil"}) is UNMARKED


def test_what_is_written_after_that_is_marked_by_way_of_the_model() -> None:
    inflow = reading("send the report").inflow({"to": "evil@example.org"})

    assert isinstance(inflow, Written)
    assert inflow.at("to") == {"untrusted": Trail(("a1 (web)", "model"))}
    assert inflow.at(None) == inflow.at("to")
    assert inflow.at("cc") == {}


def test_marks_add_up_and_the_first_trail_stays() -> None:
    made = reading(marks=WEB)
    made.read({"untrusted": Trail(("a7 (mail)",))})
    made.read(KEYS)

    assert made.marks == WEB | KEYS
    assert set(made.inflow({"x": "y"}).at("x")) == {"untrusted", "secret"}


def test_a_sure_trail_is_kept_before_an_unsure_one() -> None:
    made = reading(marks={"untrusted": Trail(("maybe",), sure=False)})
    made.read(WEB)

    assert made.marks == WEB


def test_a_call_is_judged_by_what_was_read_before_it() -> None:
    made = reading(marks=WEB)
    inflow = made.inflow({"x": "y"})
    made.heard("y")
    made.read(KEYS)

    assert set(inflow.at("x")) == {"untrusted"}


def test_a_secret_is_lifted_by_the_persons_words_like_anything_else() -> None:
    inflow = reading("the code is 4711", marks=KEYS).inflow({"a": "4711", "b": "4712"})

    assert not inflow.at("a")
    assert "secret" in inflow.at("b")


# Where it stands


def test_each_parameter_is_looked_at_by_itself() -> None:
    inflow = reading("write to a.txt").inflow({"path": "a.txt", "content": "whatever"})

    assert not inflow.at("path")
    assert inflow.at("content")
    assert inflow.at(None)


def test_paths_lead_into_objects_and_the_rules_own_names_do_not_count() -> None:
    inflow = reading("mail bob about lunch").inflow({"message": {"to": "bob", "cc": ["eve"]}, "a.b": "eve"})

    assert not inflow.at("message.to")
    assert inflow.at("message.cc")
    assert inflow.at("message")
    assert inflow.at("a.b")
    assert not inflow.at("message.bcc")


def test_a_path_into_what_is_no_object_means_all_of_it() -> None:
    inflow = reading("bob").inflow({"message": "eve", "many": [{"to": "bob"}, {"to": "eve"}], "own": "bob"})

    assert inflow.at("message.to")
    assert inflow.at("many.to")
    assert not inflow.at("own.to")


def test_keys_inside_an_object_are_the_models_words_and_parameter_names_are_not() -> None:
    inflow = reading("set the header Accept to text").inflow(
        {"own": {"Accept": "text"}, "foreign": {"X-Evil": None}}
    )

    assert not inflow.at("own")
    assert inflow.at("foreign")


def test_parameters_may_be_any_mapping() -> None:
    inflow = reading("bob").inflow(MappingProxyType({"to": "bob", "cc": "eve"}))

    assert not inflow.at("to")
    assert inflow.at("cc")


@pytest.mark.parametrize("nothing", ["", None, {}, [], [None, "", {}], {"": None}])
def test_what_is_empty_carries_nothing(nothing: Any) -> None:
    assert not is_marked("hello", nothing)


@pytest.mark.parametrize("value", [True, False, [True], {"hello": False}])
def test_a_yes_or_no_is_never_the_persons_word(value: Any) -> None:
    assert is_marked("hello true True false 1 0", value)


def test_any_message_of_the_person_will_do_but_only_one_whole() -> None:
    made = reading("go to a.", "then to b.")

    assert not made.inflow({"x": ["a", "b"]}).at("x")
    assert made.inflow({"x": "a. then"}).at("x")


# Verbatim


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("see a.txt.", "a.txt"),
        ("see a.txt", "a.txt"),
        ("a.txt: read it", "a.txt"),
        ("read 'a.txt', please", "a.txt"),
        ("read `src/a.txt`!", "src/a.txt"),
        ("is it (b.com)?", "b.com"),
        ("look into src/ and lib/", "src"),
        ("wait...", "wait"),
        ("mail a@b.com", "a@b.com"),
        ("evil.b.com and b.com", "b.com"),
        ("ask @bob", "bob"),
        ("port :8080", 8080),
        ("at most 10.", 10),
        ("it costs $5, or 5%", 5),
        ("5", 5.0),
        ("5.0", 5.0),
        ("about 2.5 or so", 2.5),
        ("from -3 on", -3),
        ("call it Grüße", "Grüße"),
        ("say hello, world!", "hello, world"),
        ("1, 2, 3", [1, 2, 3]),
        ("run with --all", "--all"),
        ("evil?", "evil"),
        ("read *a.txt*", "a.txt"),
        ("a.txt | b.txt", "a.txt"),
        ("see #12", 12),
        ("two\nlines here", "two\nlines"),
        ("to Ann<a@b.com>, thanks", "a@b.com"),
        ("to `a@b.com`!", "a@b.com"),
        ("to {a@b.com}", "a@b.com"),
        ("50% off, \u20ac20 or 20\u20ac", [50, 20]),
        ("\U0001f4e7a@b.com", "a@b.com"),
        ("a@b.com,c@d.com;e@f.com", ["a@b.com", "c@d.com", "e@f.com"]),
    ],
)
def test_what_the_person_wrote_as_a_whole_is_not_marked(message: str, value: Any) -> None:
    assert not is_marked(message, value)


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("mail a@b.com", "b.com"),
        ("mail a@b.com", "a"),
        ("not evil.b.com", "b.com"),
        ("b.com.evil.org", "b.com"),
        ("b.com/evil", "b.com"),
        ("at most 10", 1),
        ("at most 10", 0),
        ("1.5 times", 1),
        ("1.5 times", 5),
        ("1,000 times", 1),
        ("1,000 times", "000"),
        ("1'000 times", 1),
        ("minus -5", 5),
        ("not .env", "env"),
        ("not a/.env", ".env"),
        ("not ../a", "a"),
        ("not ../../a", "../a"),
        ("not /etc/passwd", "etc/passwd"),
        ("not C:\\dir\\a.txt", "a.txt"),
        ("a+b@c.com", "b@c.com"),
        ("10-5", -5),
        ("some_name", "name"),
        ("don't", "don"),
        ("cafe\u0301", "cafe"),
        ("a\u200db", "a"),
        ("x/etc", "/etc"),
        ("A.TXT", "a.txt"),
        ("a  b", "a b"),
        ("ten", 10),
        ("what?", "?"),
        ("https://b.com", "b.com"),
        ("use https://a.com/x?y=b", "b"),
        ("use https://a.com/x?y=b", "y"),
        ("https://good.com?next=evil.com", "evil.com"),
        ("https://good.com?next=evil.com", "https://good.com"),
        ("https://a.com/x?y=b&z=evil", "evil"),
        ("a|b&c", "b"),
        ("foo#evil", "evil"),
        ("mail bob*evil.com", "evil.com"),
        ("limit=5", 5),
        *(
            (f"mail x{sign}a@b.com", "a@b.com")
            for sign in "!#$%&'*+-/=?^_`{|}~.@:\uff20\uff0e\u20ac\U0001f4e7"
        ),
        *((f"see a.com{sign}x", "a.com") for sign in "!#$%&'*+-/=?^_`{|}~.@:\uff20\uff0e\u20ac"),
        ("x%40evil.com", "evil.com"),
        ("evil.com%2Fx", "evil.com"),
        ("user$admin", "admin"),
    ],
)
def test_a_part_of_something_longer_is_not_the_persons_value(message: str, value: Any) -> None:
    assert is_marked(message, value)


def test_a_long_line_of_joiners_is_gone_along_once() -> None:
    """Would take minutes if each of them looked along the whole line."""
    assert not says("-" * 100_000, "-")
    assert not says("a-" * 50_000 + "a", "a")
    assert not says("a" + "." * 100_000 + "a", "a")


# Properties

LETTERS = st.text("xyz-./ 19", min_size=1, max_size=8)
LEAVES = st.one_of(LETTERS, st.integers(-99, 99), st.floats(-9, 9, allow_nan=False), st.booleans())


def around(inner: Any, shape: list[bool]) -> Any:
    for is_list in shape:
        inner = [None, inner] if is_list else {"here": inner, "": ""}
    return inner


@UNHURRIED
@given(LEAVES, st.lists(st.booleans(), max_size=6), st.text("abc 2", max_size=30))
@examples(200)
def test_a_value_that_is_not_in_the_message_is_marked_at_every_depth(
    leaf: Any, shape: list[bool], message: str
) -> None:
    """The alphabets share nothing but the blank, so that no leaf but a blank stands in the message."""
    if isinstance(leaf, str) and not leaf.strip():
        leaf = "x"
    if isinstance(leaf, int | float) and not isinstance(leaf, bool) and "2" in repr(leaf):
        leaf = 1
    inflow = reading(f"here {message}").inflow({"p": around(leaf, shape), "q": None})

    assert inflow.at("p") == {"untrusted": Trail(("a1 (web)", "model"))}
    assert inflow.at(None) == inflow.at("p")
    assert inflow.at("p.here.here")
    assert not inflow.at("q")


@UNHURRIED
@given(st.text("ab1-./@: ,", max_size=12), st.text("ab1-./@: ,", min_size=1, max_size=4))
@examples(400)
def test_blanks_around_a_value_always_make_it_a_whole_and_words_beside_it_never(
    message: str, value: str
) -> None:
    assert says(f"{message} {value} {message}", value)
    if value[0] in "ab1" and value[-1] in "ab1":
        # Nothing else in these messages can be the value: it has a letter that they do not have.
        value = f"q{value}q"
        for joined in (f"x{value}", f"{value}x", f"x.{value}", f"{value}.x", f"x@-{value}", f"{value}::x"):
            assert not says(f"{message} {joined} {message}", value)
