"""A run that was recorded replays as it was; what is changed in its file is found, and nothing raises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from placet import Assistant, Runtime
from placet.errors import ContextTooLong, InputError, ModelUnavailable
from placet.inference import Result, Scripted, ToolCall, Usage
from placet.tools import tool
from placet.tools.context import Cancel
from placet.turns.ending import Ending
from placet.turns.limits import TurnLimits
from placet.turns.replay import Replayed, replay
from tests.properties.effort import UNHURRIED, Tally, examples

pytestmark = UNHURRIED

SEEDS = st.integers(0, 2**40)
SOME = 0.02
"""A share of the examples."""
TASKS = ("Tidy up.", "And now the rest.\nAll of it.")


def tools(cancel: Cancel) -> list[Any]:
    """Some that read, at once or side by side, some that act, fail, say much, or have the run stopped."""

    @tool(risk="read_only")
    def look(x: int) -> dict[str, Any]:
        return {"x": x, "seen": "…" * (x % 5)}

    @tool(risk="read_only")
    async def listen(x: int) -> str:
        await asyncio.sleep(0)
        return f"heard {x} [… \x1b[31m"

    @tool(risk="destructive")
    def act(x: int) -> str:
        if x % 3 == 0:
            raise ValueError(f"not {x}")
        return f"done {x}"

    @tool(risk="read_only")
    def tell(x: int) -> str:
        return f"{x} lines\n" * (x * 300)

    @tool(risk="destructive")
    def gated(x: int) -> str:
        return "never"

    @tool(risk="destructive")
    def stop(x: int) -> str:
        cancel.cancel("enough")
        return "stopping"

    @tool(risk="read_only")
    def hidden(x: int) -> str:
        return "never"

    return [look, listen, act, tell, gated, stop, hidden]


def some_call(random: Random) -> ToolCall:
    names = ("look", "look", "listen", "listen", "act", "act", "tell", "gated", "loook", "hidden")
    arguments: list[Any] = [{"x": random.randrange(10)}] * 6 + [{}, {"x": "seven"}]
    name = "stop" if random.random() < 0.04 else random.choice(names)
    return ToolCall(
        name=name, arguments=random.choice(arguments), problem="no JSON" if random.random() < 0.05 else ""
    )


def some_turn(random: Random) -> Result | Exception:
    if random.random() < 0.12:
        return random.choice([ModelUnavailable("not today"), ContextTooLong("too long"), RuntimeError("oh")])
    usage = (
        Usage(input=random.randrange(1, 400), output=random.randrange(50)) if random.random() < 0.5 else None
    )
    text = random.choice(["", "", "I look.", "Ω\x1b[2J"])
    if random.random() < 0.15:
        return Result(text=random.choice(["", " ", "Well."]), usage=usage)
    return Result(text=text, calls=[some_call(random) for _ in range(random.randint(1, 5))], usage=usage)


def some_run(random: Random) -> tuple[Sequence[Any], TurnLimits, int, bool]:
    """A script, limits, how many failures in a row are borne, and whether it is a conversation."""
    again = Result(calls=[ToolCall(name="look", arguments={"x": 1})])
    last: list[Any] = random.choice([["That is all."], ["That is all."], [again] * 7, []])
    limits = TurnLimits(
        turns=random.choice([4, 15, 15]),
        context_tokens=random.choice([None, 1200, 3000]),
        tokens=random.choice([None, None, None, 1500]),
        tool_calls=random.choice([None, None, None, 9]),
    )
    turns = [some_turn(random) for _ in range(random.randrange(9))]
    return [*turns, *last], limits, random.choice([1, 3, 3]), random.random() < 0.4


async def work(
    path: Path, turns: Sequence[Any], limits: TurnLimits, failures: int, is_chat: bool
) -> list[Ending]:
    cancel = Cancel()
    runtime = Runtime(tools(cancel))
    offered = [name for name in runtime.tools.names() if name != "hidden"]
    assistant = Assistant(
        runtime,
        Scripted(turns),
        tools=offered,
        limits=limits,
        failures=failures,
        posture="full_access",
        gated_tools=["gated"],
    )
    if not is_chat:
        return [await assistant.run(TASKS[0], cancel=cancel, record=path)]
    async with assistant.chat(cancel=cancel, record=path) as chat:
        return [await chat.say(task) for task in TASKS]


def record(path: Path, seed: int) -> list[Ending]:
    path.unlink(missing_ok=True)
    return asyncio.run(work(path, *some_run(Random(seed))))


def replayed(path: Path) -> Replayed | InputError:
    try:
        return asyncio.run(replay(path))
    except InputError as error:
        return error


def test_what_was_recorded_replays_as_it_was(tmp_path: Path) -> None:
    tally = Tally()
    path = tmp_path / "run.jsonl"

    @given(seed=SEEDS)
    @examples(120)
    def check(seed: int) -> None:
        endings = record(path, seed)
        found = replayed(path)

        assert isinstance(found, Replayed), found
        assert found.divergence is None, found.divergence.words
        assert not found.is_cut_short
        assert found.ending == endings[-1]
        data, status = path.read_bytes(), endings[-1].status
        tally.add(
            refused=b"rejected: " in data,
            failed=b"failed: " in data,
            unheld=b'"between"' in data,
            **{status: True},
        )

    check()
    tally.require(dict.fromkeys(("refused", "failed", "unheld", "cancelled", "success", "error"), SOME))


# What is changed in the file


def answer_lines(lines: list[dict[str, Any]]) -> list[int]:
    return [at for at, line in enumerate(lines) if line["kind"] == "answer"]


def turn_of(lines: list[dict[str, Any]], at: int) -> int:
    """In which turn the model was asked, for what stands on a line."""
    return sum(is_turn(line) for line in lines[: at + 1])


def is_turn(line: dict[str, Any]) -> bool:
    if line["kind"] == "answer":
        return True
    return line["kind"] == "run" and line["data"]["told"] == "failed" and "is_instead" not in line["data"]


def other_answer(lines: list[dict[str, Any]], random: Random) -> int | None:
    """Change what the model answered; from which turn on that is another run."""
    found = [at for at in answer_lines(lines) if "result" in lines[at]]
    if not found:
        return None
    at = random.choice(found)
    result = lines[at]["result"]
    if result["calls"] and random.random() < 0.5:
        random.choice(result["calls"])["arguments"] = {"x": "changed"}
    else:
        result["text"] += " changed"
    return turn_of(lines, at) + 1


def other_result(lines: list[dict[str, Any]], random: Random) -> int | None:
    found = [
        (at, message)
        for at in answer_lines(lines)
        for message in lines[at]["messages"]
        if message["role"] == "tool"
    ]
    if not found:
        return None
    at, message = random.choice(found)
    message["text"] += "changed"
    return turn_of(lines, at)


def swapped(lines: list[dict[str, Any]], random: Random) -> int | None:
    found = answer_lines(lines)
    if len(found) < 2:
        return None
    first, second = sorted(random.sample(found, 2))
    if "error" in lines[first] and "error" in lines[second]:
        return None  # Of failures that were borne, nothing tells which came first.
    lines[first], lines[second] = lines[second], lines[first]
    return turn_of(lines, second) + 1


def dropped(lines: list[dict[str, Any]], random: Random) -> int | None:
    # What is told between two requests may say no more than the next one does.
    found = [at for at, line in enumerate(lines) if line.get("data", {}).get("told") != "between"]
    at = random.choice(found[1:])
    turn = turn_of(lines, at)
    del lines[at]
    return turn + 1


CHANGES = {"answer": other_answer, "result": other_result, "swapped": swapped, "dropped": dropped}


def test_what_is_changed_in_a_file_is_found_where_it_matters(tmp_path: Path) -> None:
    tally = Tally()
    path = tmp_path / "run.jsonl"

    @given(kind=st.sampled_from(sorted(CHANGES)), seed=SEEDS)
    @examples(150)
    def check(kind: str, seed: int) -> None:
        record(path, seed)
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        turn = CHANGES[kind](lines, Random(seed))
        path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))

        found = replayed(path)

        if turn is None:
            return
        if isinstance(found, Replayed):
            assert not found.same or (kind == "dropped" and found.is_cut_short), lines
            if found.divergence is not None:
                assert found.divergence.turn <= turn, found.divergence.words
                assert "\x1b" not in found.divergence.words + "".join(found.divergence.diff())
        else:
            assert kind == "dropped", found
        tally.add(**{kind: True}, **({} if isinstance(found, InputError) else {kind_of(found): True}))

    check()
    tally.require(dict.fromkeys((*CHANGES, "request", "tool result", "missing", "order", "ending"), SOME))


def kind_of(found: Replayed) -> str:
    return found.divergence.kind if found.divergence is not None else "cut short"


def test_junk_in_a_file_raises_nothing_but_an_input_error(tmp_path: Path) -> None:
    tally = Tally()
    path = tmp_path / "run.jsonl"

    @given(seed=SEEDS, junk=st.binary(max_size=3), is_cut=st.booleans())
    @examples(150)
    def check(seed: int, junk: bytes, is_cut: bool) -> None:
        record(path, seed)
        data = path.read_bytes()
        at = Random(seed).randrange(40, len(data))
        path.write_bytes(data[:at] if is_cut else data[:at] + junk + data[at + len(junk) :])

        found = replayed(path)

        if is_cut and isinstance(found, Replayed):
            assert found.divergence is None, found.divergence.words
            assert found.is_cut_short or at == len(data) - 1
        tally.add(
            unusable=isinstance(found, InputError),
            cut_short=isinstance(found, Replayed) and found.is_cut_short,
            other=isinstance(found, Replayed) and not found.same,
        )

    check()
    tally.require(dict.fromkeys(("unusable", "cut_short", "other"), SOME))
