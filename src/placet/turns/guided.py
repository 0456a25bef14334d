"""A small model, guided by the harness: few tools, the named files read beforehand, a reminder of the task.

It stands between the loop and the model, so that the loop is the same for all models: what the harness asks
for is an answer of this model, recorded and replayed as any other.

Keep true:
1. What is sent depends on the conversation and the route alone, and its beginning stays the same from turn to
   turn: rules, tools, task, then results.
2. A call that the harness makes goes through the loop, and so through every gate.
3. An answer is asked for once more at most; whether it is supported is decided elsewhere, from calls.
4. Without tools in a request, it goes on as it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

import msgspec

from placet.errors import ModelError
from placet.events.schema import HARNESS
from placet.inference.messages import Assistant, Message, ToolCall, ToolResult, User
from placet.inference.messages import Text as TextPart
from placet.inference.model import Model, Piece, Request, Result, Words, makes_vectors
from placet.inference.profile import ModelProfile
from placet.inference.usage import Usage
from placet.inference.wrappers.wrapped import Wrapped
from placet.ir.ending import CallKind
from placet.ir.tool_spec import ToolSchema
from placet.truncation import truncate
from placet.turns.basis import Basis, Router
from placet.turns.compound_tools import (
    BY_NAME,
    COMPOUNDS,
    MORE,
    MORE_TOOLS,
    as_compound,
    in_short,
    read_result,
    shown,
    translate,
    usable_compounds,
)
from placet.turns.first_calls import MANY_STEPS, ReadFile, first_calls, nearest_path, next_calls, repaired
from placet.turns.loop import EMPTY
from placet.turns.memory import LOAD_SKILL
from placet.turns.repetition import WARNING
from placet.turns.task_route import Route
from placet.turns.unread import unread

_log = logging.getLogger(__name__)
FEW = 4
"""So many tools are offered as they are."""
_MOST_FAILURES = 3
"""After so many failed calls in a row the model may answer, whatever is missing."""
_MOST_CALLS = 12
"""After so many successful calls the model must answer, whatever is missing."""
_TASK_SHOWN = 600
_OWN_WORDS = frozenset({EMPTY, WARNING})
"""What the loop itself says is no task."""
_STILL: dict[CallKind, str] = {
    "reading": "look with a tool",
    "writing": "make the change with a tool",
    "running": "run the command with a tool",
}


class _Stand(NamedTuple):
    """How far a task has come, as the conversation tells it."""

    task: str
    since: Sequence[Message]
    """The messages after the task."""
    route: Route
    missing: tuple[CallKind, ...]
    failures: int
    """Calls in a row that failed."""
    done: Sequence[str]
    """Tools that succeeded, in order."""
    tools: frozenset[str]
    """Tools that there are."""

    @property
    def untouched(self) -> list[str]:
        """Files that the task names and no call did, where the model goes through many steps by itself."""
        if self.route.steps < MANY_STEPS:
            return []
        calls = [call for each in self.since if isinstance(each, Assistant) for call in each.calls]
        said = " ".join(str(value) for call in calls for value in call.arguments.values())
        return [path for path in self.route.named if path in self.route.names.files and path not in said]

    @property
    def is_first_read(self) -> bool:
        """Whether only what the harness has read for the task is there."""
        return sum(isinstance(each, Assistant) for each in self.since) == 1

    @property
    def next_tool(self) -> str:
        """The tool that the task still needs besides: small models neither calculate nor count well."""
        is_counting = "counting_matches" in self.route.topics and self.route.named
        wanted = [*["calculate"] * ("arithmetic" in self.route.topics), *["grep"] * bool(is_counting)]
        return next((name for name in wanted if name in self.tools and name not in self.done), "")

    @property
    def has_only_a_skill(self) -> bool:
        """Whether a skill was loaded and nothing has been done by it yet."""
        return set(self.done) == {LOAD_SKILL}

    @property
    def is_spent(self) -> bool:
        """Whether so many calls were made that the model must come to an answer."""
        return len(self.done) >= _MOST_CALLS or self.failures >= _MOST_FAILURES


class Guided(Wrapped):
    """A small model around which the harness chooses tools, reads, reminds, repairs and checks."""

    def __init__(self, model: Model, profile: ModelProfile, router: Router | None) -> None:
        super().__init__(model)
        self._profile = profile
        self._router = router
        self._ranked: tuple[str, frozenset[str], dict[str, float]] = ("", frozenset(), {})
        """A task, the names of a person's own tools, and how well each fits the task."""

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer in one piece: it is checked before anybody reads it."""
        result = await self._answer(request)
        if result.text:
            yield Words(result.text)
        yield result

    async def _answer(self, request: Request) -> Result:
        if not request.tools or request.tool_choice == "none":
            return await self.model.generate(request)
        stand = self._stand(request)
        if calls := self._own_calls(stand, request.tools):
            return Result(calls=calls, model=HARNESS, usage=Usage(input=0, output=0), cost=0.0, stop="calls")
        offered, others = await self._offered(stand, request.tools)
        asked = self._asked(request, stand, offered, has_more=bool(others))
        result = await self.model.generate(asked)
        if any(call.name == MORE for call in result.calls):
            more = self._asked(request, stand, [*offered, *others], has_more=False)
            result = _after(result, await self.model.generate(more))
        if self._profile.guides("reminders") and _is_idle(result.calls, stand):
            # It asks again for what it has: only an answer is left to give.
            result = _after(result, await self.model.generate(_closing(asked)))
        if not result.calls and self._profile.guides("checking"):
            doubt = _doubt(result, stand)
            if doubt:
                result = _after(result, await self.model.generate(_again(asked, result, doubt)))
        calls = [_only_new(call, stand) for call in result.calls if call.name != MORE]
        if self._is_mapped(request.tools):
            own = _own_names(request.tools)
            calls = [call if call.name in own else translate(call) for call in calls]
        return msgspec.structs.replace(result, calls=calls)

    def _is_mapped(self, tools: Sequence[ToolSchema]) -> bool:
        """Whether compound tools stand for the built-in ones."""
        return len(tools) > FEW and self._profile.guides("compound") and self._profile.guides("routing")

    # Where the task stands

    def _stand(self, request: Request) -> _Stand:
        at = max((n for n, each in enumerate(request.messages) if _is_task(each)), default=-1)
        task = _text(request.messages[at]) if at >= 0 else ""
        since = request.messages[at + 1 :]
        route = self._router.route if self._router is not None else Route()
        basis, schemas = Basis(), {each.name: each for each in request.tools}
        failures = 0
        for each in since:
            if isinstance(each, ToolResult):
                failures = failures + 1 if each.is_error else 0
                if not each.is_error:
                    basis.take("", each.name, schemas.get(each.name), _exit_code(each))
        done = [each.name for each in since if isinstance(each, ToolResult) and not each.is_error]
        missing = tuple(kind for kind in basis.lacks(route.needs) if kind in _doable(request.tools))
        return _Stand(task, since, route, missing, failures, done, frozenset(schemas))

    def _own_calls(self, stand: _Stand, tools: Sequence[ToolSchema]) -> Sequence[ToolCall]:
        """What the harness asks for itself, before or instead of the model."""
        if not stand.since:
            return first_calls(stand.route, tools) if self._profile.guides("reading") else ()
        if self._profile.guides("reading") and stand.is_first_read:
            read = [found for each in stand.since if (found := _read_file(each)) is not None]
            if calls := next_calls(stand.route, read, tools):
                return calls
        if not self._profile.guides("repairs") or stand.failures != 1:
            return ()
        last = stand.since[-1]
        asked = [call for each in stand.since if isinstance(each, Assistant) for call in each.calls]
        if not isinstance(last, ToolResult) or not asked:
            return ()
        better = repaired(asked[-1], stand.route, tools)
        # Once: a repair that fails as well is the model's to see.
        is_new = better is not None and all(dict(each.arguments) != dict(better.arguments) for each in asked)
        return [better] if better is not None and is_new else ()

    # What the model is offered

    async def _offered(
        self, stand: _Stand, tools: Sequence[ToolSchema]
    ) -> tuple[list[ToolSchema], list[ToolSchema]]:
        """The tools for the next turn, and those behind `more_tools`."""
        if len(tools) <= FEW:
            return [in_short(each) if self._profile.guides("compound") else each for each in tools], []
        if not self._profile.guides("routing"):
            return list(tools), []
        usable = {each.schema.name: each for each in usable_compounds(tools, _own_names(tools))}
        chosen = [name for name in _chosen(stand.route) if name in usable]
        own = await self._fitting([each for each in tools if each.name not in _STANDS_FOR], stand.task)
        if self._is_mapped(tools):
            offered = [BY_NAME[name].schema for name in chosen]
            others = [each.schema for each in usable.values() if each.schema.name not in chosen]
        else:
            wanted = {BY_NAME[name].stands_for for name in chosen}
            offered = [each for each in tools if each.name in wanted]
            others = [each for each in tools if each.name in _STANDS_FOR and each.name not in wanted]
        offered = own[: max(1, FEW - len(offered))] + offered if own else offered
        taken = {each.name for each in offered}
        others += [each for each in tools if each.name not in _STANDS_FOR and each.name not in taken]
        return offered, others

    async def _fitting(self, tools: Sequence[ToolSchema], task: str) -> list[ToolSchema]:
        """A person's own tools, those first that fit the task: by their meaning, if there are embeddings."""
        names = frozenset(each.name for each in tools)
        if self._ranked[:2] != (task, names):
            scores = {each.name: float(_shared_words(each, task)) for each in tools}
            if len(tools) > 1 and task.strip() and makes_vectors(self.model):
                try:
                    of_task, *of_tools = await self.model.embed([task, *map(_about, tools)])
                    scores = {each.name: _cosine(of_task, v) for each, v in zip(tools, of_tools, strict=True)}
                except (ModelError, ValueError) as error:
                    _log.warning("Tools are chosen by their words: %s", error)
            self._ranked = task, names, scores
        return sorted(tools, key=lambda each: -self._ranked[2][each.name])

    def _asked(
        self, request: Request, stand: _Stand, offered: Sequence[ToolSchema], *, has_more: bool
    ) -> Request:
        tools = [*offered, MORE_TOOLS] if has_more else list(offered)
        is_mapped = self._is_mapped(request.tools)
        messages = [_in_short(each) if is_mapped else _in_short_result(each) for each in request.messages]
        if self._profile.guides("reminders") and stand.since:
            messages.append(User(self._reminder(stand)))
        must = self._profile.guides("requiring") and self._must_call(stand, offered)
        return msgspec.structs.replace(
            request, messages=messages, tools=tools, tool_choice="required" if must else request.tool_choice
        )

    def _must_call(self, stand: _Stand, offered: Sequence[ToolSchema]) -> bool:
        if not offered or stand.is_spent:
            return False
        if stand.missing or stand.untouched or stand.has_only_a_skill:
            return True
        return any(_stands_for(each.name) == stand.next_tool for each in offered)

    def _reminder(self, stand: _Stand) -> str:
        task = " ".join(stand.task.split())
        lines = [f"The task again: {truncate(task, _TASK_SHOWN)}"]
        last = stand.since[-1]
        if self._profile.guides("repairs") and isinstance(last, ToolResult) and last.is_error:
            lines.append(_repair_words(stand))
        if stand.has_only_a_skill:
            lines.append("Nothing is done yet: do the first step of the skill, with a tool.")
        elif stand.missing and stand.route.steps >= MANY_STEPS:
            lines.append("Do the next step of it, with a tool.")
        elif stand.missing:
            still = [_STILL[kind] for kind in stand.missing]
            if stand.missing == ("writing",) and stand.route.targets:
                still = [f"write {stand.route.targets[0]} with a tool"]
            lines.append(f"Still to do: {', then '.join(still)}.")
        elif stand.next_tool == "calculate":
            lines.append("Use calculate for the arithmetic, with the numbers of the results.")
        elif stand.next_tool:
            lines.append("Count with a search for the text that is to be counted.")
        elif "calculate" in stand.done and stand.route.fold in ("sum", "average"):
            lines.append("The calculation is done. Answer with its value, a number.")
        elif stand.untouched:
            lines.append(f"Not done yet: {', '.join(stand.untouched[:3])}.")
        elif LOAD_SKILL in stand.done:
            lines.append("Do the next step of the skill, with a tool; if all are done, answer.")
        elif stand.route.steps >= MANY_STEPS:
            lines.append("Do the next step of it; if all are done, answer.")
        else:
            lines.append("You have the results. Give the answer now, exactly what was asked.")
        return "\n".join(line for line in lines if line)


def guided(model: Model, profile: ModelProfile, router: Router | None) -> Model:
    """A model with the guidance that its profile asks for; a large one as it is."""
    return Guided(model, profile, router) if profile.strength == "small" else model


_STANDS_FOR = frozenset({*(each.stands_for for each in COMPOUNDS), "list_dir", "http_get", "sleep"})
"""Built-in tools, which are chosen by the task; any other is the person's own."""


def _own_names(tools: Sequence[ToolSchema]) -> frozenset[str]:
    """The names of a person's own tools."""
    return frozenset(each.name for each in tools if each.name not in _STANDS_FOR)


def _doable(tools: Sequence[ToolSchema]) -> set[CallKind]:
    """What calls of these tools can do."""
    basis = Basis()
    for each in tools:
        basis.take("", each.name, each, msgspec.UNSET)
    return basis.did


def _stands_for(name: str) -> str:
    return BY_NAME[name].stands_for if name in BY_NAME else name


def _chosen(route: Route) -> list[str]:
    """The compound tools for a task, by name."""
    names: list[str] = []
    if "running" in route.needs:
        names.append("run")
    if "writing" in route.needs:
        names += _writing(route)
    if "reading" in route.needs and len(names) < FEW:
        names += ["read_file", "find_lines"] if "writing" in route.needs else []
    if not names or route.needs == ("reading",):
        names += ["read_file", "find_lines", "list_files"]
    if "arithmetic" in route.topics or route.expression:
        names = [*names[: FEW - 1], "calculate"]
    if "date" in route.topics:
        names = [*names[: FEW - 1], "now"]
    if len(names) < 2:
        names.append("read_file")
    return list(dict.fromkeys(names))[:FEW]


def _writing(route: Route) -> list[str]:
    adds = {"append", "add", "insert", "log", "note", "record"} & route.verbs
    replaces = {
        "replace",
        "change",
        "rename",
        "set",
        "update",
        "fix",
        "mend",
        "correct",
        "edit",
    } & route.verbs
    removes = {"remove", "delete", "modify", "swap", "substitute", "bump", "increment"} & route.verbs
    names: list[str] = []
    if replaces or removes:
        names.append("replace_in_file")
    if adds:
        names.append("append_to_file")
    if route.targets or not names or {"write", "create", "save", "copy", "make"} & route.verbs:
        names.append("write_file")
    return names


def _about(tool: ToolSchema) -> str:
    """A tool as a text to compare tasks with."""
    return f"{tool.name.replace('_', ' ')}: {truncate(tool.description, 300)}"


def _shared_words(tool: ToolSchema, task: str) -> int:
    said = set(re.findall(r"[^\W_]{3,}", _about(tool).lower()))
    return len(said.intersection(re.findall(r"\w{3,}", task.lower())))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _only_new(call: ToolCall, stand: _Stand) -> ToolCall:
    """A call that appends, without what the file has: a model that was shown it likes to write all of it."""
    text, path = call.arguments.get("text"), call.arguments.get("path")
    if call.name != "append_to_file" or not isinstance(text, str):
        return call
    for each in stand.since:
        known = _read_file(each)
        if known is not None and known.path == path and known.text.strip():
            body = known.text.rstrip()
            rest = text.removeprefix(body).lstrip("\n")
            if text.startswith(body) and rest:
                return msgspec.structs.replace(call, arguments={**call.arguments, "text": rest})
    return call


def _is_idle(calls: Sequence[ToolCall], stand: _Stand) -> bool:
    """Whether calls only repeat what has succeeded, with nothing missing."""
    if not calls:
        return False
    if len(stand.done) >= _MOST_CALLS:
        return True
    if stand.missing or stand.next_tool or stand.untouched:
        return False
    results = {each.call_id: each for each in stand.since if isinstance(each, ToolResult)}
    done = [
        (call.name, dict(call.arguments))
        for each in stand.since
        if isinstance(each, Assistant)
        for call in each.calls
        if call.id in results and not results[call.id].is_error
    ]
    asked = [translate(call) for call in calls]
    return all((call.name, dict(call.arguments)) in done for call in asked)


def _closing(asked: Request) -> Request:
    return msgspec.structs.replace(asked, tool_choice="none")


def _read_file(message: Message) -> ReadFile | None:
    if not isinstance(message, ToolResult) or message.is_error or message.name != "read_file":
        return None
    found = read_result(message.text)
    return ReadFile(*found) if found is not None else None


def _is_task(message: Message) -> bool:
    return isinstance(message, User) and _text(message) not in _OWN_WORDS


def _text(message: Message) -> str:
    if not isinstance(message, User):
        return ""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def _exit_code(result: ToolResult) -> int | msgspec.UnsetType | None:
    found = re.search(r'"?exit_code"?: ?(-?\d+|null)', truncate(result.text, 500))
    if found is None:
        return msgspec.UNSET
    return None if found[1] == "null" else int(found[1])


def _in_short(message: Message) -> Message:
    """A message with the compound tools' names, and results in few words."""
    match message:
        case Assistant() if message.calls:
            return msgspec.structs.replace(message, calls=tuple(map(as_compound, message.calls)))
        case _:
            return _in_short_result(message)


def _in_short_result(message: Message) -> Message:
    if not isinstance(message, ToolResult) or message.is_error:
        return message
    return msgspec.structs.replace(message, text=shown(message.name, message.text))


def _repair_words(stand: _Stand) -> str:
    asked = [call for each in stand.since if isinstance(each, Assistant) for call in each.calls]
    last = stand.since[-1]
    if isinstance(last, ToolResult) and last.text.startswith("rejected"):
        return "The last call was refused. Go on without it."
    if asked and asked[-1].name == "calculate":
        return "Write the numbers of the results themselves, such as 12 + 30."
    path = asked[-1].arguments.get("path") if asked else None
    near = nearest_path(path, stand.route) if isinstance(path, str) else None
    return f'Use the path "{near}".' if near is not None else "The last call failed. Correct it."


def _unread(answer: str, stand: _Stand) -> list[str]:
    """What an answer says that stands in no result, in no call and not in the task."""
    results = [each for each in stand.since if isinstance(each, ToolResult) and not each.is_error]
    if not results:
        return []
    asked = [call for each in stand.since if isinstance(each, Assistant) for call in each.calls]
    given = [str(value) for call in asked for value in call.arguments.values()]
    read = [text for each in results for text in (each.text, shown(each.name, each.text))]
    return unread(answer, [stand.task, *given, *read])


def _doubt(result: Result, stand: _Stand) -> str:
    """Why an answer is asked for once more; empty if it is not."""
    text = result.text.lstrip()
    is_call = text.startswith("{") and "arguments" in text
    if result.stop == "length" or text[:1] in ("]", "}", ")", ",") or is_call:
        return "That is no answer."
    missing = _unread(result.text, stand)
    return f"{', '.join(missing[:5])} is in no result." if missing else ""


def _again(asked: Request, result: Result, doubt: str) -> Request:
    said = f"{doubt} Answer once more in a few words, with what the results say; call a tool if they do not."
    shown_text = msgspec.structs.replace(result.message, text=truncate(result.text, 200))
    return msgspec.structs.replace(asked, messages=[*asked.messages, shown_text, User(said)])


def _after(first: Result, then: Result) -> Result:
    """The second of two answers, with what both took."""
    usage = then.usage
    if first.usage is not None:
        usage = first.usage if usage is None else first.usage + usage
    cost = None if first.cost is None or then.cost is None else first.cost + then.cost
    return msgspec.structs.replace(then, usage=usage, cost=cost)
