"""A model answers with the help of a tool: `python examples/models/ask.py [--model NAME] [QUESTION]`.

Without `--model` it is a script that answers, so that there is something to see without a key. With one it is
any model: `--model anthropic:claude-sonnet-5-5`, `--model ollama:qwen3`, `--model local`.

The model only proposes: what it asks for becomes a plan, and the runtime decides whether it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from placet import PlacetError, Runtime, tool
from placet.inference import (
    Assistant,
    Limited,
    Message,
    Model,
    Request,
    Result,
    Scripted,
    System,
    ToolCall,
    ToolResult,
    Usage,
    User,
    open_model,
)
from placet.safe_text import clean

QUESTION = "Shall I take an umbrella to Zurich tomorrow?"
MOST_TURNS = 5

SCRIPT = [
    Result(
        calls=[ToolCall(id="call_1", name="forecast", arguments={"city": "Zurich"})],
        usage=Usage(input=96, output=18),
        cost=0.0,
        stop="calls",
    ),
    Result(
        text="Yes: it will rain in Zurich tomorrow, and be 9 degrees.",
        usage=Usage(input=131, output=17),
        cost=0.0,
    ),
]


@tool(risk="read_only")
def forecast(city: str) -> dict[str, str | int]:
    """Tomorrow's weather.

    Args:
        city: Where.
    """
    return {"city": city, "sky": "rain", "degrees": 9}


async def converse(model: Model, runtime: Runtime, question: str) -> list[Result]:
    """Ask, do what the model asks for, and go on until it has no more to ask for. Returns the answers."""
    answers: list[Result] = []
    messages: list[Message] = [
        System("Answer in one sentence. Use the tools; do not guess."),
        User(question),
    ]
    for turn in range(MOST_TURNS):
        request = Request(
            messages=messages,
            tools=runtime.tools.schemas(),
            # A small model would rather guess: the first turn has to be a call.
            tool_choice="auto" if turn else "required",
            max_tokens=500,
        )
        result = await model.generate(request)
        answers.append(result)
        # A model's words are somebody else's: what steers a terminal is spelled out.
        print(f"  {clean(result.model)}: {clean(result.text, lines=True) or '(no words)'}")
        messages.append(Assistant(text=result.text, calls=result.calls, carried=result.carried))
        if not result.calls:
            return answers
        for call in result.calls:
            messages.append(await called(runtime, call))
    print(f"  It asked for tools {MOST_TURNS} times; that is enough.")
    return answers


async def called(runtime: Runtime, call: ToolCall) -> ToolResult:
    """What comes of one call: a plan of one action, with all that the runtime does for plans."""
    if call.problem:
        return ToolResult(call_id=call.id, name=call.name, text=call.problem, is_error=True)
    outcome = await runtime.execute(
        {"actions": [{"id": "call", "tool": call.name, "parameters": dict(call.arguments)}]}
    )
    done = outcome["call"]
    text = json.dumps(done.output) if done.error is None else done.error
    print(f"  {clean(call.name)}({json.dumps(dict(call.arguments))}): {done.status}: {clean(text)}")
    return ToolResult(call_id=call.id, name=call.name, text=text, is_error=done.error is not None)


def bill(answers: list[Result]) -> str:
    """What it took. What nobody has told is not known, and is not taken for nothing."""
    usages = [each.usage for each in answers if each.usage is not None]
    costs = [each.cost for each in answers if each.cost is not None]
    tokens = "not told" if len(usages) < len(answers) else f"{sum(each.total for each in usages):,}"
    cost = "not known" if len(costs) < len(answers) else f"${sum(costs):.6f}"
    return f"calls: {len(answers)}, tokens: {tokens}, cost: {cost}"


async def main() -> int:
    """Ask once; the exit code is 2 where there is no answer."""
    parser = argparse.ArgumentParser(description="Ask a model something that takes a tool.")
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model", help="provider:name, local, replay:FILE or scripted:FILE")
    options = parser.parse_args()
    try:
        opened = open_model(options.model, os.environ) if options.model else Scripted(SCRIPT)
        model = Limited(opened, total_s=300)
        print(f"{options.question}\n")
        answers = await converse(model, Runtime(tools=[forecast]), options.question)
        print(f"\n{bill(answers)}")
        await model.close()
    except PlacetError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
