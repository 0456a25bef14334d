"""What a model thought, apart from what it said."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.inference.messages import ToolCall, User
from placet.inference.model import Piece, Request, Result, Thought, Words
from placet.inference.wrappers.reasoning import ReasoningApart, split
from tests.properties.effort import UNHURRIED, Tally, examples

REQUEST = Request(messages=[User("Hello")])


class Cut:
    """Says a text, cut as it is told."""

    name = "cut"

    def __init__(self, parts: Sequence[str], reasoning: str = "") -> None:
        self.parts = parts
        self.whole = Result(text="".join(parts), reasoning=reasoning)

    async def generate(self, request: Request) -> Result:
        return self.whole

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        if self.whole.reasoning:
            yield Thought(self.whole.reasoning)
        for part in self.parts:
            yield Words(part)
        yield self.whole


async def streamed(model: ReasoningApart) -> tuple[str, str, Result]:
    """Words, thoughts and the result of a stream."""
    words, thoughts, results = "", "", []
    async for piece in model.stream(REQUEST):
        match piece:
            case Words(text):
                words += text
            case Thought(text):
                thoughts += text
            case Result():
                results.append(piece)
    assert len(results) == 1
    return words, thoughts, results[0]


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("Four.", "Four.", ""),
        ("<think>\nTwo and two.\n</think>\n\nFour.", "Four.", "Two and two."),
        ("\n <thinking>a</thinking>Four.", "Four.", "a"),
        ("<think>a</think>\n<think>b</think>\nFour.", "Four.", "a\n\nb"),
        ("<think></think>Four.", "Four.", ""),
        ("<think>I am never done", "", "I am never done"),
        ("<think>a</thinking>b", "", "a</thinking>b"),
        ("<think>a</thi", "", "a</thi"),
        ("<thinker>a</thinker>", "<thinker>a</thinker>", ""),
        ("<thin", "<thin", ""),
        ("  \n", "  \n", ""),
        ("  spaced", "  spaced", ""),
        ("<THINK>a</THINK>", "<THINK>a</THINK>", ""),
        ("Write `<think>x</think>` there.", "Write `<think>x</think>` there.", ""),
        ("<think>a</think>See <think>x</think>.", "See <think>x</think>.", "a"),
        ("So it goes.\n</think>\n\nFour.", "So it goes.\n</think>\n\nFour.", ""),
        ("</think>\nFour.", "</think>\nFour.", ""),
        ("Close it with </think> and go on.", "Close it with </think> and go on.", ""),
        ("See:\n<think>\nx\n</think>\nso.", "See:\n<think>\nx\n</think>\nso.", ""),
    ],
)
async def test_reasoning_is_taken_from_the_beginning_of_the_text(text: str, said: str, thought: str) -> None:
    result = await ReasoningApart(Cut([text])).generate(REQUEST)

    assert (result.text, result.reasoning) == (said, thought)


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("So it goes.\n</think>\n\nFour.", "Four.", "So it goes."),
        ("</think>\nFour.", "Four.", ""),
        ("So it goes.\n</thinking>", "", "So it goes."),
        ("<think>a</think>\nFour.", "Four.", "a"),
        ("Close it with </think> and go on.", "Close it with </think> and go on.", ""),
        ("See:\n<think>\nx\n</think>\nso.", "See:\n<think>\nx\n</think>\nso.", ""),
    ],
)
async def test_an_opening_that_the_template_writes_is_missed_where_that_may_be(
    text: str, said: str, thought: str
) -> None:
    result = await ReasoningApart(Cut([text]), swallows_opening=True).generate(REQUEST)

    assert (result.text, result.reasoning) == (said, thought)


ABOUT_TAGS = ["Templates end with\n</thi", "nk>\nas a line."]


async def test_an_answer_about_tags_is_whole_and_leaves_the_next_stream_alone() -> None:
    inside = Cut(ABOUT_TAGS)
    model = ReasoningApart(inside)

    first = await streamed(model)
    inside.whole, inside.parts = Result(text="Hello there."), ["Hello ", "there."]
    second = [piece async for piece in model.stream(REQUEST)]

    assert first == ("".join(ABOUT_TAGS), "", Result(text="".join(ABOUT_TAGS)))
    assert second == [Words("Hello "), Words("there."), Result(text="Hello there.")]


async def test_reasoning_that_is_there_is_kept_and_all_else_untouched() -> None:
    call = ToolCall(id="1", name="read")

    class Calling(Cut):
        async def generate(self, request: Request) -> Result:
            return Result(
                text="<think>more</think>Four.", reasoning="first", calls=[call], model="m", stop="calls"
            )

    assert await ReasoningApart(Calling([])).generate(REQUEST) == Result(
        text="Four.", reasoning="first\n\nmore", calls=[call], model="m", stop="calls"
    )


async def test_a_text_without_reasoning_is_the_same_result() -> None:
    model = Cut(["Four."])

    assert await ReasoningApart(model).generate(REQUEST) is model.whole
    assert ReasoningApart(model).name == "cut"


async def test_thoughts_are_handed_out_as_they_come() -> None:
    model = ReasoningApart(Cut(["<thi", "nk>Two", " and two.", "</", "think>\n", "\nFo", "ur."], "first"))

    seen = [piece async for piece in model.stream(REQUEST)]

    assert seen == [
        Thought("first"),
        Thought("Two"),
        Thought(" and two."),
        Words("Fo"),
        Words("ur."),
        Result(text="Four.", reasoning="first\n\nTwo and two."),
    ]


async def test_a_block_that_the_template_opened_is_apart_in_the_result_and_from_then_on_in_the_stream() -> (
    None
):
    parts = ["So it ", "goes.\n</th", "ink>\n\nFour."]
    model = ReasoningApart(Cut(parts), swallows_opening=True)

    first = await streamed(model)
    second = await streamed(model)

    assert first[2] == second[2] == Result(text="Four.", reasoning="So it goes.")
    assert second[:2] == ("Four.", "So it goes.\n")


async def test_a_model_that_once_began_inside_and_now_does_not_think_still_says_its_words() -> None:
    inside = Cut(["So.\n</think>\nFour."])
    model = ReasoningApart(inside, swallows_opening=True)
    await model.generate(REQUEST)
    inside.whole, inside.parts = Result(text="Just five."), ["Just ", "five."]

    words, _, result = await streamed(model)
    later = await streamed(model)

    assert result == Result(text="Just five.")
    assert words == "Just five."
    assert later == ("Just five.", "", result)


_tally = Tally()
_PARTS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<thinking>",
        "</thinking>",
        "<th",
        "ink>",
        "</",
        "\n",
        " ",
        "a",
        "<",
        "So.",
        "`x`",
    ]
)


@UNHURRIED
@given(st.lists(_PARTS, max_size=12), st.booleans(), st.data())
@examples(400)
async def test_any_cut_of_a_stream_gives_what_generate_gives(
    parts: list[str], swallows: bool, data: st.DataObject
) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=len(text)), label="cuts"))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    whole = await ReasoningApart(Cut([text]), swallows_opening=swallows).generate(REQUEST)
    words, thoughts, result = await streamed(ReasoningApart(Cut(pieces), swallows_opening=swallows))

    assert result == whole
    assert (result.text, result.reasoning) == split(text, swallows_opening=swallows)
    begins_inside = (
        swallows and not text.lstrip().startswith(("<think>", "<thinking>")) and whole.text != text
    )
    if not begins_inside:
        assert (words, thoughts.strip()) == (whole.text, whole.reasoning)
    _tally.add(apart=bool(whole.reasoning), inside=begins_inside, cut=len(pieces) > 1)


def test_the_cut_streams_were_worth_looking_at() -> None:
    if _tally.total:
        _tally.require({"apart": 0.03, "cut": 0.3})


async def test_a_long_beginning_of_blanks_takes_no_more_than_its_length() -> None:
    """Each piece is looked at once: what is held back is not read again and again."""
    words, _, result = await streamed(ReasoningApart(Cut([" "] * 50_000 + ["x"])))

    assert words == result.text == " " * 50_000 + "x"
