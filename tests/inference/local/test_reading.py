"""A line is read with a server of llama.cpp: the questions as it takes them, the answers as it gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from placet.errors import AnswerUnreadable, RequestRefused, UnknownModel
from placet.inference.http import HttpModel
from placet.inference.local.model import PROVIDER
from placet.inference.local.reading import MOST_QUESTIONS, QWEN, ReadingModel
from placet.inference.model import Request, Result
from placet.inference.passage import Beside, Doubt, Passage, doubts_in, reads_passages
from placet.inference.providers import Endpoint
from placet.inference.wire.openai import OpenAiChat
from placet.inference.wrappers.wrapped import Wrapped
from tests.inference.wire_server import Answer, WireServer, reply

LINE = "    whole -= price"
PASSAGE = Passage(
    path="prices.py",
    before="def total(prices):\n    whole = 0\n    for price in prices:\n",
    line=LINE,
    after="\n    return whole\n",
    beside=[Beside(path="test_prices.py", text="assert total([1, 2]) == 3")],
)
PROMPT = (
    "<|repo_name|>program\n<|file_sep|>test_prices.py\nassert total([1, 2]) == 3\n<|file_sep|>prices.py\n"
    f"<|fim_prefix|>{PASSAGE.before}<|fim_suffix|>{PASSAGE.after}<|fim_middle|>"
)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as made:
        yield made


@pytest.fixture
def model(server: WireServer) -> ReadingModel:
    http = HttpModel(Endpoint(provider=PROVIDER, model="local", url=server.url, key="k"), OpenAiChat())
    return ReadingModel(http, http, QWEN)


def pieces(*words: str) -> Answer:
    return reply({"tokens": [{"id": n, "piece": word} for n, word in enumerate(words)]})


def written(*words: tuple[str, float, dict[str, float]], cached: int = 0) -> Answer:
    """What the model wrote: words with their likelihood, and that of other words."""
    told = [
        {
            "id": 1,
            "token": word,
            "bytes": list(word.encode()),
            "logprob": likely,
            "top_logprobs": [{"id": 2, "token": t, "bytes": [], "logprob": p} for t, p in others.items()],
        }
        for word, likely, others in words
    ]
    return reply(
        {
            "content": "".join(word for word, _, _ in words),
            "completion_probabilities": told,
            "tokens_evaluated": 50,
            "tokens_predicted": len(words) + 1,
            "timings": {"cache_n": cached, "prompt_n": 50 - cached},
            "stop_type": "word",
        }
    )


def sure(word: str) -> tuple[str, float, dict[str, float]]:
    return word, -0.1, {word: -0.1}


async def read(model: ReadingModel, passage: Passage = PASSAGE) -> tuple[list[Doubt], Result]:
    result = await model.generate(Request(messages=(), passage=passage))
    return doubts_in(result.text), result


async def test_where_the_model_goes_another_way_is_a_doubt(server: WireServer, model: ReadingModel) -> None:
    server.answers(
        pieces("    ", "whole", " -=", " price"),
        written(
            sure("    "), sure("whole"), (" +=", -0.5, {" +=": -0.5, " -=": -3.5}), sure(" price"), cached=7
        ),
        written(sure(" price")),
    )

    doubts, result = await read(model)

    assert doubts == [Doubt(at=9, instead="    whole += price", surprise=3.0)]
    assert result.usage is not None
    assert (result.usage.input, result.usage.cached, result.usage.output) == (50, 7, 7)
    assert (result.cost, result.model) == (0.0, "local")
    tokenize, first, second = server.seen
    assert (tokenize.path, tokenize.json["content"]) == ("/tokenize", LINE)
    assert (first.path, first.json["prompt"], first.json["temperature"]) == ("/completion", PROMPT, 0.0)
    # What is doubted is taken as it is, and read on behind it.
    assert second.json["prompt"] == f"{PROMPT}    whole -="
    assert {each.headers["authorization"] for each in server.seen} == {"Bearer k"}


async def test_what_it_would_also_have_taken_comes_after_its_doubts(
    server: WireServer, model: ReadingModel
) -> None:
    also = {" -=": -0.5, " +=": -1.5, " -": -2.0, " *=": -9.0, " -=\n": -0.6, "": -0.7}
    server.answers(
        pieces("    ", "whole", " -=", " price"),
        written(sure("    "), sure("whole"), (" -=", -0.5, also), (" prices", -0.5, {" price": -1.0})),
        written(),
    )
    assert (await read(model))[0] == [
        Doubt(at=12, instead="    whole -= prices", surprise=0.5),
        Doubt(at=9, instead="    whole += price", surprise=-1.0),
        Doubt(at=9, instead="    whole - price", surprise=-1.5),
    ]


async def test_a_line_that_the_model_would_write_too_has_no_doubts(
    server: WireServer, model: ReadingModel
) -> None:
    server.answers(pieces("    whole", " -=", " price"), written(sure("    whole"), sure(" -= price")))
    assert (await read(model))[0] == []


async def test_what_is_not_among_the_likely_is_less_likely_than_they_are(
    server: WireServer, model: ReadingModel
) -> None:
    server.answers(pieces(LINE, " # so"), written(("    pass", -0.25, {"    pass": -0.25, "    go": -4.0})))
    doubts, _ = await read(model, Passage(path="x.py", before="", line=LINE + " # so", after=""))
    assert doubts[0].surprise == 4.75


async def test_a_line_that_should_end_or_go_on(server: WireServer, model: ReadingModel) -> None:
    passage = Passage(path="x.py", before="", line="a = b", after="\n")
    server.answers(
        pieces("a", " =", " b"), written(sure("a"), sure(" ="), sure(" b"), (" + 1", -0.5, {"\n": -2.5}))
    )
    assert (await read(model, passage))[0] == [Doubt(at=5, instead="a = b + 1", surprise=2.0)]
    server.answers(pieces("a", " =", " b"), written(sure("a")), written(sure(" b")))
    doubts, _ = await read(model, passage)
    assert [(each.at, each.instead) for each in doubts] == [(1, "a")]


async def test_what_is_only_begun_is_gone_on_with(server: WireServer, model: ReadingModel) -> None:
    server.answers(
        pieces("   ", " if"),
        written(sure("   "), (" return", -0.5, {" if": -2.5}), sure(" x")),
        written((" not", -0.5, {"\n": -6.5}), sure(" x:")),
        written(sure(" not x:\n        return 0")),
    )
    doubts, _ = await read(model, Passage(path="x.py", before="def f(x):\n", line="    if", after="\n"))
    assert [(each.at, each.instead) for each in doubts] == [
        (3, "    return x"),
        (6, "    if not x:\n        return 0"),
    ]


async def test_a_line_that_begins_otherwise_comes_with_what_is_below_it(
    server: WireServer, model: ReadingModel
) -> None:
    server.answers(
        pieces("    ", "return", " x"),
        written(sure("    "), ("if", -0.5, {"return": -1.5}), sure(" not x:")),
        written(sure("    if not x:\n        "), sure("return 0\n\t    odd\n    y = 1")),
        written(sure(" x")),
    )
    doubts, _ = await read(model, Passage(path="x.py", before="def f(x):\n", line="    return x", after="\n"))
    assert doubts == [Doubt(at=4, instead="    if not x:\n        return 0\n\t    odd", surprise=1.0)]
    assert server.seen[2].json["stop"] == ["\n\n"]


async def test_questions_about_a_line_have_an_end(server: WireServer, model: ReadingModel) -> None:
    server.answers(pieces(*(f" w{n}" for n in range(50))), written(("no", -1.0, {})))
    doubts, _ = await read(model)
    assert len(doubts) <= MOST_QUESTIONS
    assert len(server.seen) <= MOST_QUESTIONS + 2


@pytest.mark.parametrize("field", ["before", "line", "after"])
async def test_a_text_with_a_mark_in_it_is_not_read(
    server: WireServer, model: ReadingModel, field: str
) -> None:
    fields: dict[str, Any] = {"path": "x.py", "before": "", "line": "x", "after": "", field: "<|fim_middle|>"}
    assert (await read(model, Passage(**fields)))[0] == []
    assert server.seen == []


async def test_a_file_beside_it_with_a_mark_in_it_is_left_out(
    server: WireServer, model: ReadingModel
) -> None:
    server.answers(pieces("x"), written(sure("x")))
    beside = [Beside(path="a.py", text="<|fim_middle|>"), Beside(path="b.py", text="fine")]
    await read(model, Passage(path="x.py", before="", line="x", after="", beside=beside))
    assert server.seen[1].json["prompt"].startswith("<|repo_name|>program\n<|file_sep|>b.py\nfine\n")


async def test_another_model_that_is_named_is_not_this_one(server: WireServer, model: ReadingModel) -> None:
    with pytest.raises(UnknownModel):
        await model.generate(Request(messages=(), passage=PASSAGE, model="anthropic:x"))
    assert server.seen == []


async def test_what_is_not_counted_is_not_nothing(server: WireServer, model: ReadingModel) -> None:
    server.answers(pieces("x", "y"), reply({"content": "\ud800", "timings": {}}))
    doubts, result = await read(model, Passage(path="x.py", before="", line="xy", after=""))
    assert doubts[0].instead == "\ufffd"
    assert result.usage is not None
    assert (result.usage.input, result.usage.output, result.usage.cached) == (None, None, None)
    assert result.latency_ms > 0
    server.answers(pieces("x"), reply({"content": "z", "tokens_evaluated": -5}))
    with pytest.raises(AnswerUnreadable):
        await read(model)


async def test_numbers_beyond_all_bounds(server: WireServer, model: ReadingModel) -> None:
    server.answers(pieces("x"), written(("z", 1e308, {"x": -1e308})))
    assert (await read(model, Passage(path="x.py", before="", line="x", after="")))[0][0].surprise == 5.0


async def test_a_word_that_is_no_text_is_not_read(server: WireServer, model: ReadingModel) -> None:
    server.answers(reply({"tokens": [{"id": 1, "piece": "x"}, {"id": 2, "piece": [195]}]}))
    assert (await read(model))[0] == []


@pytest.mark.parametrize("odd", [{"tokens": 3}, {"tokens": [{"id": 1}]}, [], "no"])
async def test_another_answer_is_an_error(server: WireServer, model: ReadingModel, odd: object) -> None:
    server.answers(reply(odd))
    with pytest.raises(AnswerUnreadable, match="local"):
        await read(model)


async def test_without_a_passage_it_is_the_model_inside(server: WireServer, model: ReadingModel) -> None:
    server.answers(reply({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}))
    from placet.inference.messages import User

    assert (await model.generate(Request(messages=[User("hi")]))).text == "hello"
    assert server.seen[0].path == "/chat/completions"


async def test_who_reads_no_passages_says_so(server: WireServer) -> None:
    http = HttpModel(Endpoint(provider=PROVIDER, model="m", url=server.url, key="k"), OpenAiChat())
    assert not reads_passages(http)
    assert not reads_passages(Wrapped(http))
    with pytest.raises(RequestRefused, match="reads no passages"):
        await http.generate(Request(messages=(), passage=PASSAGE))
    assert server.seen == []
