"""Ten fixed jobs, each of which takes one tool call: how many does a model get exactly right?

A call is right if it names the tool and every argument that is expected, and no other. The questions, tools
and their order never change, so that two scores can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec

from placet.errors import PlacetError
from placet.inference.local.model import served_local
from placet.inference.local.server_folder import server_folder
from placet.inference.local.shared import Served, is_serving
from placet.inference.messages import System, User
from placet.inference.model import Model, Request, Result
from placet.inference.opening import open_model
from placet.ir.json_value import JsonValue
from placet.ir.tool_spec import ToolSchema
from tests.servers.local_model import model_environment, model_files

Choice = Literal["auto", "required"]
SYSTEM = "You control tools. Answer each request with the one tool call that does it."


def tool(name: str, description: str, **parameters: JsonValue) -> ToolSchema:
    """A tool all of whose parameters are required."""
    return ToolSchema(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": parameters,
            "required": [*parameters],
            "additionalProperties": False,
        },
    )


TEXT: JsonValue = {"type": "string"}
WHOLE: JsonValue = {"type": "integer"}
NUMBER: JsonValue = {"type": "number"}

FILES = (
    tool("read_file", "Read a file.", path=TEXT),
    tool("write_file", "Write a text into a file.", path=TEXT, text=TEXT),
    tool("list_folder", "List what is in a folder.", path=TEXT),
    tool("delete_file", "Delete a file.", path=TEXT),
)
WORLD = (
    tool("get_weather", "The weather in a city now.", city=TEXT),
    tool("add", "Add two numbers.", a=NUMBER, b=NUMBER),
    tool("set_timer", "Ring after some minutes.", minutes=WHOLE),
    tool(
        "translate",
        "Translate a text.",
        text=TEXT,
        language={"enum": ["English", "French", "German"]},
    ),
    tool(
        "set_light",
        "Switch the light of a room.",
        room={"enum": ["kitchen", "bedroom", "hall"]},
        state={"enum": ["on", "off"]},
    ),
    tool("send_mail", "Send a mail.", to=TEXT, subject=TEXT),
)


class Job(NamedTuple):
    """A question, and the one right answer to it."""

    name: str
    tools: tuple[ToolSchema, ...]
    question: str
    call: str
    arguments: Mapping[str, JsonValue]


JOBS = (
    Job("read", FILES, "Show me what is in the file notes.txt.", "read_file", {"path": "notes.txt"}),
    Job(
        "write",
        FILES,
        "Write the text 'hello world' into the file greeting.txt.",
        "write_file",
        {"path": "greeting.txt", "text": "hello world"},
    ),
    Job("list", FILES, "Which files are in the folder /srv/data?", "list_folder", {"path": "/srv/data"}),
    Job("delete", FILES, "Delete the file old/report.csv.", "delete_file", {"path": "old/report.csv"}),
    Job("weather", WORLD, "What is the weather like in Lisbon?", "get_weather", {"city": "Lisbon"}),
    Job("sum", WORLD, "What is 17.5 plus 24?", "add", {"a": 17.5, "b": 24}),
    Job("timer", WORLD, "Set a timer for 25 minutes.", "set_timer", {"minutes": 25}),
    Job(
        "translation",
        WORLD,
        "Translate the text 'good morning' to French.",
        "translate",
        {"text": "good morning", "language": "French"},
    ),
    Job(
        "light",
        WORLD,
        "Turn off the light in the bedroom.",
        "set_light",
        {"room": "bedroom", "state": "off"},
    ),
    Job(
        "mail",
        WORLD,
        "Send a mail to ann@example.com with the subject 'Lunch'.",
        "send_mail",
        {"to": "ann@example.com", "subject": "Lunch"},
    ),
)


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """How one job went."""

    job: str
    is_right: bool
    came: str
    seconds: float
    read: int | None
    cached: int | None
    written: int | None


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How all of them went."""

    model: str
    right: int
    of: int
    load_s: float | None
    """From the first question to a server that answers; None where one ran already, or runs elsewhere."""
    memory_mb: int | None
    """Of the server, at the end."""
    decode_tok_s: float | None
    """Tokens written per second, reading the prompt included."""
    seconds: float
    jobs: list[Answered]


async def measure(name: str, environment: Mapping[str, str], choice: Choice = "auto") -> Score:
    """Ask everything, one after the other. With the choice `auto` the model may also answer in words."""
    model = open_model(name, environment)
    served = served_local(environment) if name == "local" else None
    began = time.monotonic()
    load_s: float | None = None
    if served is not None and not is_serving(served, environment):
        await model.generate(Request(messages=[User("Say yes.")], max_tokens=1))
        load_s = round(time.monotonic() - began, 1)
    jobs: list[Answered] = []
    try:
        for job in JOBS:
            jobs.append(await answer(model, job, choice))
        memory = _memory_mb(served, environment) if served is not None else None
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            await close()
    written = sum(job.written or 0 for job in jobs)
    seconds = sum(job.seconds for job in jobs)
    return Score(
        model=name,
        right=sum(job.is_right for job in jobs),
        of=len(jobs),
        load_s=load_s,
        memory_mb=memory,
        decode_tok_s=round(written / seconds, 1) if written and seconds else None,
        seconds=round(seconds, 1),
        jobs=jobs,
    )


async def answer(model: Model, job: Job, choice: Choice) -> Answered:
    """Ask one question. An error is an answer, and a wrong one."""
    began = time.monotonic()
    request = Request(
        messages=[System(SYSTEM), User(job.question)],
        tools=job.tools,
        tool_choice=choice,
        max_tokens=200,
    )
    try:
        result = await model.generate(request)
    except PlacetError as error:
        result = Result(text=f"{type(error).__name__}: {error}")
    calls = [(call.name, dict(call.arguments)) for call in result.calls]
    shown = json.dumps(calls, ensure_ascii=False) if calls else result.text
    usage = result.usage
    return Answered(
        job=job.name,
        is_right=calls == [(job.call, dict(job.arguments))],
        came=shown[:200],
        seconds=round(time.monotonic() - began, 2),
        read=usage.input if usage else None,
        cached=usage.cached if usage else None,
        written=usage.output if usage else None,
    )


def _memory_mb(served: Served, environment: Mapping[str, str]) -> int | None:
    try:
        note = json.loads((server_folder(served, environment) / "server.json").read_text())
        status = Path(f"/proc/{note['pid']}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1000
    except (OSError, ValueError, LookupError, StopIteration):
        return None


def main(arguments: list[str]) -> int:
    """Measure, and print a table or JSON. Fails only where nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m evals calls", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", default="local", metavar="NAME")
    parser.add_argument("--choice", default="auto", choices=get_args(Choice))
    given = parser.parse_args(arguments)
    try:
        environment = model_files("local") if given.model == "local" else model_environment()
        score = asyncio.run(measure(given.model, environment, given.choice))
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(msgspec.json.encode(score).decode())
        return 0
    for job in score.jobs:
        mark = "right" if job.is_right else "WRONG"
        tokens = f"{job.read} read ({job.cached or 0} cached), {job.written} written"
        print(f"{mark}  {job.job:<12}{job.seconds:>6.2f} s  {tokens}  {job.came}")
    figures = [f"{score.right} of {score.of} right", f"{score.seconds:g} s", f"{score.decode_tok_s} tok/s"]
    figures += [f"load {score.load_s} s"] if score.load_s is not None else []
    figures += [f"memory {score.memory_mb} MB"] if score.memory_mb is not None else []
    print(f"\n{score.model}: {', '.join(figures)}")
    return 0
