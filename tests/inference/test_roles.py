"""Several models behind one seam: who answers, who answers instead, and how that is told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from placet.errors import InputError, ModelMissing, ModelUnavailable, QuotaSpent, RequestRefused
from placet.inference import Intent, Models, Request, Result, Scripted, User, Words
from placet.inference.model import Ability, Model, Piece, stream
from placet.inference.passage import reads_passages

ASK = [User("What is it?")]


class Breaks:
    """Says a word, then breaks off."""

    async def generate(self, request: Request) -> Result:
        raise ModelUnavailable("it is down")

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        yield Words("so")
        raise ModelUnavailable("it broke off")


class Vectors:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def generate(self, request: Request) -> Result:
        raise RequestRefused("it only makes vectors")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error is not None:
            raise self.error
        return [[1.0, 0.0] for _ in texts]


def models(**made: Model) -> tuple[Models, list[str]]:
    """Models under the roles that bear their names: `default_2` is the second of `default`."""
    opened: list[str] = []
    roles: dict[str, list[str]] = {}
    for name in made:
        roles.setdefault(name.partition("_")[0], []).append(name)

    def open_one(name: str) -> Model:
        opened.append(name)
        return made[name]

    return Models(roles, open_one), opened  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("intent", "role"),
    [
        (None, "default"),
        (Intent(), "default"),
        (Intent(task="code"), "code"),
        (Intent(task="judge"), "judge"),
        (Intent(task="classify"), "fast"),
        (Intent(task="summarize"), "fast"),
        (Intent(prefer="speed"), "fast"),
        (Intent(task="code", prefer="speed"), "code"),
    ],
)
async def test_the_intent_picks_the_role(intent: Intent | None, role: str) -> None:
    every = {name: Scripted([name]) for name in ("default", "code", "fast", "judge")}
    asked, opened = models(**every)

    result = await asked.generate(Request(messages=ASK, intent=intent))

    assert result.text == role
    assert opened == [role]
    assert result.choice is not None
    assert (result.choice.model, result.choice.role) == (role, role)
    assert f"role {role}" in result.choice.because


async def test_a_role_that_nobody_has_falls_to_the_default_and_says_so() -> None:
    asked, _ = models(default=Scripted(["here"]))

    result = await asked.generate(Request(messages=ASK, intent=Intent(task="judge")))

    assert result.choice is not None
    assert result.choice.because == "role default, because no model has the role judge"


async def test_another_model_answers_where_the_first_gives_no_answer() -> None:
    asked, opened = models(default=Scripted([QuotaSpent("all gone")]), default_2=Scripted(["instead"]))

    result = await asked.generate(Request(messages=ASK))

    assert result.text == "instead"
    assert opened == ["default", "default_2"]
    assert result.choice is not None
    assert result.choice.because == "role default; default gave no answer (model.quota)"


async def test_a_named_model_is_a_hard_choice() -> None:
    asked, opened = models(default=Scripted(["not this"]), code=Scripted([ModelUnavailable("it is down")]))

    with pytest.raises(ModelUnavailable, match="it is down"):
        await asked.generate(Request(messages=ASK, model="code"))

    assert opened == ["code"]


async def test_a_request_that_is_refused_is_refused_by_all() -> None:
    asked, opened = models(default=Scripted([RequestRefused("no")]), default_2=Scripted(["never"]))

    with pytest.raises(RequestRefused):
        await asked.generate(Request(messages=ASK))

    assert opened == ["default"]


async def test_the_last_error_is_the_one_that_is_heard() -> None:
    asked, _ = models(default=Scripted([QuotaSpent("a")]), default_2=Scripted([ModelUnavailable("b")]))

    with pytest.raises(ModelUnavailable, match="b"):
        await asked.generate(Request(messages=ASK))


async def test_a_model_that_cannot_be_opened_is_passed_over() -> None:
    def open_one(name: str) -> Model:
        if name == "first":
            raise QuotaSpent("no key either")
        return Scripted(["second"])

    asked = Models({"default": ["first", "second"]}, open_one)

    assert (await asked.generate(Request(messages=ASK))).text == "second"


async def test_a_stream_falls_back_before_its_first_piece_and_never_after() -> None:
    asked, _ = models(default=Scripted([QuotaSpent("all gone")]), default_2=Scripted(["instead"]))

    pieces = [piece async for piece in stream(asked, Request(messages=ASK))]

    assert "".join(piece.text for piece in pieces if isinstance(piece, Words)) == "instead"
    assert isinstance(pieces[-1], Result)
    assert pieces[-1].choice is not None

    broken, opened = models(default=Breaks(), default_2=Scripted(["never"]))
    heard: list[Piece] = []
    with pytest.raises(ModelUnavailable, match="it broke off"):
        async for piece in stream(broken, Request(messages=ASK)):
            heard.append(piece)
    assert heard == [Words("so")]
    assert opened == ["default"]


async def test_a_model_that_cannot_do_what_is_needed_is_not_asked() -> None:
    can: dict[str, list[Ability] | None] = {
        "blind": ["tools"],
        "sees": ["tools", "images"],
        "who knows": None,
    }
    asked = Models({"default": list(can)}, lambda name: Scripted([name]), abilities=lambda name: can[name])

    picked = asked.pick(Request(messages=ASK, intent=Intent(requires=["images"])))

    assert picked.names == ["sees", "who knows"]
    assert "blind cannot do what is needed" in picked.because


async def test_where_nobody_can_it_says_what_is_missing() -> None:
    asked = Models({"default": ["blind"]}, lambda name: Scripted([name]), abilities=lambda name: ["tools"])

    with pytest.raises(ModelMissing, match=r"\(images\): blind"):
        await asked.generate(Request(messages=ASK, intent=Intent(requires=["images"])))

    with pytest.raises(ModelMissing, match="No model has the role default"):
        await Models({}, lambda name: Scripted([name])).generate(Request(messages=ASK))


async def test_vectors_come_from_the_role_embed() -> None:
    asked, opened = models(default=Scripted([]), embed=Vectors(QuotaSpent("gone")), embed_2=Vectors())

    assert await asked.embed(["a", "b"]) == [[1.0, 0.0], [1.0, 0.0]]
    assert opened == ["embed", "embed_2"]


async def test_without_the_role_embed_it_says_how_to_get_one() -> None:
    asked, _ = models(default=Scripted([]))

    with pytest.raises(ModelMissing, match="placet model pull embed"):
        await asked.embed(["a"])

    wrong, _ = models(embed=Scripted([]))
    with pytest.raises(ModelMissing, match="makes no vectors"):
        await wrong.embed(["a"])


async def test_passages_are_read_where_all_that_may_be_asked_read_them() -> None:
    class Reader(Scripted):
        reads_passages = True

    assert reads_passages(models(default=Reader([]))[0])
    assert not reads_passages(models(default=Reader([]), code=Scripted([]))[0])
    assert reads_passages(models(default=Scripted([]), code=Reader([]))[0])
    assert not reads_passages(models(default=Reader([]), default_2=Scripted([]))[0])

    def broken(name: str) -> Model:
        raise InputError("it is not there")

    assert not reads_passages(Models({"default": ["local"]}, broken))
