"""An agent from one sentence: drafted by a model, tried on its own scenarios, mended from what failed.

Keep true:
1. A draft has passed only if every scenario that it brings has, and it brings one.
2. Whatever a model writes is a draft or an issue; an attempt that brought nothing is one all the same.
3. If none passes, the best draft comes back with its issues: most scenarios passed, the later on a tie.
4. A draft can use no tool but those that it was offered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from placet.agents.report import Report, Trial, summed, tokens_of
from placet.agents.spec import AgentSpec, Scenario, is_id, problems
from placet.errors import DecodeError, ModelError, UsageError
from placet.inference.messages import Assistant, Message, System, User
from placet.inference.model import Intent, Model, Request
from placet.inference.usage import Usage
from placet.ir.codec import decode_json
from placet.ir.json_value import JsonValue, show_json
from placet.safe_text import clean
from placet.truncation import truncate
from placet.turns.spending import generate_within
from placet.turns.stopping import in_time

if TYPE_CHECKING:
    from placet.agents.scenarios import Trying
    from placet.runtime.open_run import OpenRun
    from placet.tools.context import Cancel

MAX_ATTEMPTS = 3
MOST_ATTEMPTS = 20
_TOKENS = 900
_TELLS = 240
"""Characters of an issue that a model is told."""
_MOST_TOLD = 6
_WARMER = 0.3
"""How much warmer each attempt is than the one before: asked the same, a cold model says the same."""
_SLUG = re.compile(r"[^a-z0-9]+")

RULES = """\
You design small agents. An agent is a language model with instructions: it gets a message and answers it.
Write the agent as one JSON object and nothing else:
- "name": two or three words.
- "description": one sentence that says what the agent is for.
- "identity": the instructions. Begin with "You". Say exactly what to do with the message: the rule, the \
formula or the allowed answers. Say in which form to answer, and that nothing else is to be written.
- "tools": names from the list of tools, only those that it cannot do without. Mostly [].
- "scenarios": two or three tests. "input" is a message as a person would write it. "expect" is the shortest \
text that every right answer contains: one word or one number, never a sentence. Upper and lower case are \
the same. Choose the easiest inputs there are, with small or round numbers and common words, whose right \
answer everybody knows; work it out before you write it."""
"""The same for every sentence, so that a model keeps it."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One draft, and what came of it."""

    number: int
    spec: AgentSpec | None = None
    """None where there was nothing that could be read as one."""
    report: Report | None = None
    """None where it was not tried."""
    issues: tuple[str, ...] = ()
    """What is wrong with it."""
    tokens: int | None = None
    """What the draft took, and its scenarios; None where nobody says."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether all its scenarios have."""
        return self.report is not None and self.report.all_passed

    @property
    def worth(self) -> int:
        """How many did; one that could not be tried comes after all that could."""
        return self.report.passed if self.report is not None else -1 if self.spec is not None else -2

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON."""
        data: dict[str, JsonValue] = msgspec.to_builtins(self)
        report = self.report.as_json() if self.report is not None else None
        return data | {"passed": self.passed, "report": report}


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all attempts."""

    sentence: str
    attempts: tuple[Attempt, ...]

    @property
    def best(self) -> Attempt:
        """The draft that passed; else the one of which most scenarios did, the later on a tie."""
        return max(self.attempts, key=lambda each: (each.worth, each.number))

    @property
    def spec(self) -> AgentSpec | None:
        """The agent; None if no attempt brought one."""
        return self.best.spec

    @property
    def passed(self) -> bool:
        """Whether its scenarios all passed."""
        return self.best.passed

    @property
    def issues(self) -> tuple[str, ...]:
        """What is wrong with it."""
        return () if self.passed else self.best.issues

    @property
    def tokens(self) -> int | None:
        """What all attempts took; None where one does not say."""
        return summed([each.tokens for each in self.attempts])

    def as_json(self) -> dict[str, JsonValue]:
        """The same as JSON."""
        return {
            "sentence": self.sentence,
            "passed": self.passed,
            "agent": msgspec.to_builtins(self.spec),
            "issues": list(self.issues),
            "tokens": self.tokens,
            "attempts": [each.as_json() for each in self.attempts],
        }


class Builder:
    """Builds agents with a model, and tries them with the same one or another."""

    def __init__(
        self,
        trying: Trying,
        *,
        tools: Mapping[str, str],
        model: Model | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        k: int = 1,
    ) -> None:
        """`tools` are those that a draft may use, and what each is for. `model` drafts; without one, that of
        `trying`. Scenarios run `k` times.

        Raises:
            UsageError: no attempt could be made.
        """
        if not 1 <= max_attempts <= MOST_ATTEMPTS:
            raise UsageError(f"max_attempts is {max_attempts}; it is from 1 to {MOST_ATTEMPTS}.")
        self._trying = trying
        self._tools = tools
        self._model = model or trying.model
        self._max_attempts = max_attempts
        self._k = k
        self._schema = draft_schema(tools)
        self._telling: Callable[[str], None] = lambda words: None

    async def build(
        self,
        sentence: str,
        *,
        agent_id: str | None = None,
        budget: OpenRun | None = None,
        cancel: Cancel | None = None,
        heard: Callable[[Attempt], None] | None = None,
        telling: Callable[[str], None] | None = None,
    ) -> Built:
        """Draft, try and mend until a draft passes or there are no attempts left. `heard` hears of each
        attempt, `telling` of what is being done meanwhile, in words. Without an `agent_id` the agent's name
        makes one.

        Raises:
            UsageError: the sentence is empty, or the id cannot be one.
            IsolationMissing: this machine enforces less than is required.
        """
        if not sentence.strip():
            raise UsageError("There is no sentence. Say what the agent is to do.")
        if agent_id is not None and not is_id(agent_id):
            raise UsageError(
                f"'{clean(agent_id, 80)}' cannot be the id of an agent: write a-z, 0-9, - and _."
            )
        attempts: list[Attempt] = []
        said = ""
        self._telling = telling or (lambda words: None)
        counted, above = (budget.spending, budget.cancel) if budget else (None, None)
        with in_time(counted, cancel, above) as inner:
            while len(attempts) < self._max_attempts and not inner.requested:
                made, said = await self._attempt(sentence, agent_id, attempts, said, budget, inner)
                attempts.append(made)
                if heard is not None:
                    heard(made)
                if made.passed:
                    break
        if not attempts:
            attempts.append(Attempt(number=1, issues=("it was stopped before the first attempt",)))
        return Built(sentence=sentence, attempts=tuple(attempts))

    async def _attempt(
        self,
        sentence: str,
        agent_id: str | None,
        before: Sequence[Attempt],
        said: str,
        budget: OpenRun | None,
        cancel: Cancel | None,
    ) -> tuple[Attempt, str]:
        """One attempt, and what the model wrote."""
        number, began = len(before) + 1, time.monotonic()
        usage: Usage | None = None
        spec: AgentSpec | None = None
        report: Report | None = None
        which = f"attempt {number} of {self._max_attempts}"
        self._telling(f"{getattr(self._model, 'name', '') or 'the model'} drafts the agent, {which}")
        try:
            request = Request(
                messages=self._messages(sentence, before, said),
                schema=self._schema,
                temperature=min(_WARMER * (number - 1), 0.9),
                max_tokens=_TOKENS,
                intent=Intent(task="code"),
                cancel=cancel,
            )
            answer = await generate_within(self._model, request, budget.spending if budget else None)
        except ModelError as error:
            issues = [f"generation failed: {clean(str(error), 500)}"]
        else:
            usage, said = answer.usage, answer.text
            spec, issues = read_draft(said, sentence, agent_id, self._tools)
        if spec is not None and not issues:
            runs, ended = self._k * len(spec.scenarios), 0
            self._telling(f"trying the draft of {which}, 0 of {runs} runs have ended")

            def heard(name: str, trial: Trial) -> None:
                nonlocal ended
                ended += 1
                self._telling(f"trying the draft of {which}, {ended} of {runs} runs have ended")

            report = await self._trying.try_all(spec, k=self._k, budget=budget, cancel=cancel, heard=heard)
            issues = report.failures
        tokens = summed([tokens_of(usage), report.tokens]) if report is not None else tokens_of(usage)
        seconds = round(time.monotonic() - began, 3)
        return (
            Attempt(
                number=number,
                spec=spec,
                report=report,
                issues=tuple(issues),
                tokens=tokens,
                seconds=seconds,
            ),
            said,
        )

    def _messages(self, sentence: str, before: Sequence[Attempt], said: str) -> list[Message]:
        tools = "\n".join(f"- {name}: {clean(what, 100)}" for name, what in self._tools.items())
        asked = f"Tools:\n{tools or '(none)'}\n\nThe agent that is wanted: {clean(sentence, 2_000)}"
        messages: list[Message] = [System(RULES), User(asked)]
        if before and said:
            # The last draft alone: a small model that is shown all of them mixes them up.
            messages += [Assistant(text=said), User(_feedback(before[-1]))]
        return messages


def _feedback(attempt: Attempt) -> str:
    issues = "\n".join(f"- {clean(each, _TELLS)}" for each in attempt.issues[:_MOST_TOLD])
    if attempt.report is None:
        return f"This cannot be used:\n{issues}\nWrite the whole JSON object again, mended."
    return (
        f"It was tried. This failed:\n{issues}\n"
        "For each: work out the right answer once more. If `expect` was wrong, correct it; if the agent's "
        "answer was wrong, make `identity` more exact, with the rule and a worked example. Write the whole "
        "JSON object again."
    )


def draft_schema(tools: Mapping[str, str]) -> dict[str, JsonValue]:
    """What a draft looks like, for models that can be held to it; lengths keep small ones from rambling."""

    def text(most: int) -> dict[str, JsonValue]:
        return {"type": "string", "minLength": 1, "maxLength": most}

    named: dict[str, JsonValue] = {"type": "string", "enum": list(tools)} if tools else {"type": "string"}
    scenario = {
        "type": "object",
        "properties": {"input": text(200), "expect": text(40)},
        "required": ["input", "expect"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "name": text(40),
            "description": text(160),
            "identity": text(700),
            "tools": {"type": "array", "items": named, "maxItems": 4 if tools else 0},
            "scenarios": {"type": "array", "items": scenario, "minItems": 2, "maxItems": 3},
        },
        "required": ["name", "description", "identity", "tools", "scenarios"],
        "additionalProperties": False,
    }


def read_draft(
    text: str, sentence: str, agent_id: str | None, tools: Mapping[str, str]
) -> tuple[AgentSpec | None, list[str]]:
    """The agent in what a model wrote, and what is wrong with it. The JSON goes from the first `{` to the
    last `}`; tools that nobody offered are dropped.

    >>> read_draft("no", "a greeter", None, {})
    (None, ['there is no JSON object in the answer'])
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None, ["there is no JSON object in the answer"]
    try:
        value = decode_json(text[start : end + 1], "the draft")
    except DecodeError as error:
        return None, [f"the draft is no JSON: {error.problem}, at {error.place}"]
    if not isinstance(value, dict):
        return None, ["the draft is no JSON object"]
    name = clean(_text(value.get("name")), 60)
    named = value.get("tools")
    spec = AgentSpec(
        id=agent_id or _id_from(name or sentence),
        name=name,
        description=clean(_text(value.get("description")) or sentence.strip(), 300),
        identity=_text(value.get("identity")),
        tools=tuple(
            dict.fromkeys(each for each in named if isinstance(each, str) and each in tools)
            if isinstance(named, list)
            else ()
        ),
        standing_goal=_text(value.get("standing_goal")),
        scenarios=_scenarios(value.get("scenarios")),
    )
    issues = [str(problem) for problem in problems(spec)]
    if not spec.scenarios:
        issues.append("there is no scenario with an input and what is expected of the answer")
    return spec, issues


def _scenarios(value: JsonValue) -> tuple[Scenario, ...]:
    found = value if isinstance(value, list) else []
    return tuple(
        Scenario(input=_text(each["input"]), expect=_text(each["expect"]))
        for each in found
        if isinstance(each, dict) and "input" in each and "expect" in each
    )


def _text(value: JsonValue) -> str:
    """A text as it was meant: numbers are often written without quotes."""
    if isinstance(value, str):
        return value.strip()
    return show_json(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _id_from(text: str) -> str:
    """An id made of words: `Celsius converter` is `celsius-converter`."""
    return _SLUG.sub("-", truncate(text, 40).lower()).strip("-") or "agent"
