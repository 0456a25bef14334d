"""Runs inside the peers' own environment: one of two other turn loops, at the same job as ours.

The name of the peer is the one argument. Each line on stdin is {"turns", "calls"}; each on stdout the CPU
seconds, of all threads, of one such job on a new agent. Only the standard library and that peer are imported.

Keep true:
1. Each peer has the cheapest of its documented ways to do the job: no model but the scripted one, an async
   tool where it can have one, a short system prompt, nothing printed, nothing sent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

from turns_job import DONE, PROMPT, READ, TASK, WRITTEN, Job

Run = Callable[[int, int], float]


def pydantic_ai() -> Run:
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

    # Not their FunctionModel, which is for tests: it does a little more each turn.
    class Scripted(Model):
        model_name = "scripted"
        system = "scripted"

        def __init__(self, job: Job) -> None:
            super().__init__()
            self.job = job

        async def request(
            self,
            messages: list[ModelMessage],
            model_settings: ModelSettings | None,
            model_request_parameters: ModelRequestParameters,
        ) -> ModelResponse:
            calls = [ToolCallPart("noop", {"x": x}, tool_call_id=f"c{x}") for x in self.job.next_calls()]
            return ModelResponse(
                parts=calls or [TextPart(DONE)],
                usage=RequestUsage(input_tokens=READ, output_tokens=WRITTEN),
                model_name="scripted",
            )

    def run(turns: int, calls: int) -> float:
        job = Job(turns, calls)

        async def noop(x: int) -> int:
            """Do nothing."""
            job.seen.append(x)
            return x

        agent = Agent(Scripted(job), system_prompt=PROMPT, tools=[noop])

        async def timed() -> float:
            gc.collect()
            began = time.process_time()
            result = await agent.run(TASK, usage_limits=UsageLimits(request_limit=None))
            took = time.process_time() - began
            job.check(result.output)
            return took

        return asyncio.run(timed())

    return run


def smolagents() -> Run:
    from smolagents import LogLevel, Tool, ToolCallingAgent
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
        Model,
    )
    from smolagents.monitoring import TokenUsage

    def call(name: str, arguments: dict[str, object], call_id: str) -> ChatMessageToolCall:
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessageToolCall(function=function, id=call_id, type="function")

    class Scripted(Model):
        def __init__(self, job: Job) -> None:
            super().__init__(model_id="scripted")
            self.job = job

        def generate(self, messages: list[ChatMessage], **options: object) -> ChatMessage:
            calls = [call("noop", {"x": x}, f"c{x}") for x in self.job.next_calls()]
            # Here a text alone is no answer: the end is a call of its own.
            return ChatMessage(
                role=MessageRole.ASSISTANT,
                tool_calls=calls or [call("final_answer", {"answer": DONE}, "end")],
                token_usage=TokenUsage(input_tokens=READ, output_tokens=WRITTEN),
            )

    class Noop(Tool):
        name = "noop"
        description = "Do nothing."
        inputs = {"x": {"type": "integer", "description": "A number."}}
        output_type = "integer"

        def __init__(self, job: Job) -> None:
            super().__init__()
            self.job = job

        def forward(self, x: int) -> int:
            self.job.seen.append(x)
            return x

    def run(turns: int, calls: int) -> float:
        job = Job(turns, calls)
        agent = ToolCallingAgent(
            tools=[Noop(job)], model=Scripted(job), max_steps=turns + 1, verbosity_level=LogLevel.OFF
        )
        agent.prompt_templates["system_prompt"] = PROMPT
        gc.collect()
        began = time.process_time()
        answer = agent.run(TASK)
        took = time.process_time() - began
        job.check(answer)
        return took

    return run


PEERS: dict[str, Callable[[], Run]] = {"pydantic-ai-slim": pydantic_ai, "smolagents": smolagents}


def main() -> None:
    run = PEERS[sys.argv[1]]()
    # The first run of a process also imports, compiles patterns and builds schemas.
    run(10, 2)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["turns"], asked["calls"])), flush=True)


if __name__ == "__main__":
    main()
