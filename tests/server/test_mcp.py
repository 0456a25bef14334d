"""A real client of the official SDK against `placet mcp serve`, a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from mcp.client.stdio import stdio_client

from tests.cli.conftest import environment
from tests.server.serving import Place, Served, until, words
from tests.warm import Warm

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder to serve from."""
    return Place(tmp_path)


@pytest.fixture
def warm_place(tmp_path: Path, warm: Warm) -> Place:
    """As `place`, for tests to which neither the process nor its end matters: only what is said."""
    return Place(tmp_path, warm.command)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that nothing special is asked of; starting one takes longer than most tests."""
    served = Served(Place(tmp_path_factory.mktemp("shared")), "--as", "helper", DEPLOY_TOKEN=SECRET)
    yield served
    served.close()


@pytest.fixture
def served(shared: Served) -> Served:
    """The shared server, as if it had just begun."""
    shared.place.forget()
    for left in (*shared.place.folder.glob("[ab].*"), shared.place.folder / "signed"):
        left.unlink(missing_ok=True)
    return shared


async def test_a_client_finds_every_tool_with_schema_and_hints(served: Served) -> None:
    tools = {tool.name: tool for tool in (await served.ask(served.client.list_tools())).tools}

    look = tools["look"]
    assert look.description == "Look something up."
    assert look.input_schema["properties"]["what"]["description"] == "The thing to look for."
    assert look.annotations is not None
    assert (look.annotations.read_only_hint, look.annotations.destructive_hint) == (True, False)
    mark = tools["mark"].annotations
    assert mark is not None
    assert (mark.read_only_hint, mark.destructive_hint, mark.idempotent_hint) == (False, True, False)
    assert {"verify_plan", "execute_plan", "resume_run"} < set(tools)


async def test_a_call_is_a_run_like_any_other(served: Served) -> None:
    text = await served.call("look", {"what": "$call.output"})
    data = await served.call("count", {"words": ["a", "b", "a"]})

    # What looks like a reference is a text: a client has no earlier results to refer to.
    assert (text.is_error, words(text), text.structured_content) == (False, "found $call.output", None)
    assert data.structured_content == {"a": 2, "b": 1}
    assert json.loads(words(data)) == {"a": 2, "b": 1}
    assert [status for _, status in served.place.runs()] == ["succeeded", "succeeded"]
    assert [e["data"]["source"] for e in served.place.events("proposal_received")] == ["mcp", "mcp"]
    assert [e["data"]["tool"] for e in served.place.events("action_executing")] == ["look", "count"]


async def test_bad_parameters_unknown_names_and_failures_are_errors_that_a_model_can_read(
    served: Served,
) -> None:
    bad = await served.call("look", {"what": 3})
    unknown = await served.call("lok", {})
    near_ours = await served.call("verify_plam", {})
    far = await served.call("xylophone", {})
    failed = await served.call("fail", {"text": "the disk is full"})

    assert (bad.is_error, words(bad)) == (True, "rejected: parameter 'what': 3 is not of type \"string\"")
    assert (unknown.is_error, words(unknown)) == (True, "unknown tool 'lok': did you mean 'look'?")
    assert words(near_ours) == "unknown tool 'verify_plam': did you mean 'verify_plan'?"
    assert words(far) == "unknown tool 'xylophone': tools/list gives the known ones"
    assert (failed.is_error, words(failed)) == (True, "failed: the disk is full")
    assert [status for _, status in served.place.runs()] == ["aborted"] * 5


async def test_what_a_rule_denies_reaches_no_tool(served: Served) -> None:
    denied = await served.call("forbidden")

    assert denied.is_error
    assert "traces stay" in words(denied)
    assert not (served.place.folder / "forbidden").exists()
    assert [e["action_id"] for e in served.place.events("policy_violation")] == ["call"]
    assert served.place.events("action_executing") == []


async def test_rules_over_what_has_run_see_all_calls_of_a_client(served: Served) -> None:
    early = await served.call("deploy")
    await served.call("test")
    late = await served.call("deploy")

    assert early.is_error
    assert "test first" in words(early)
    assert not late.is_error
    assert (served.place.folder / "deployed").read_text() == "marked\n"


async def test_what_needs_an_approval_goes_on_once_it_is_given(served: Served) -> None:
    place = served.place

    asked = await served.call("sign")
    run_id = asked.structured_content["run_id"]
    [wait] = asked.structured_content["waiting"]
    too_early = await served.call("resume_run", {"run_id": run_id})
    was_signed = (place.folder / "signed").exists()
    await approve(place, wait["approval"])
    done = await served.call("resume_run", {"run_id": run_id})
    again = await served.call("resume_run", {"run_id": run_id})

    assert asked.is_error
    assert f"placet approvals approve {wait['approval']} --db {place.db}" in words(asked)
    assert "a name is a name" in words(asked)
    assert run_id in words(asked)
    assert too_early.structured_content["outcome"] == "waiting"
    assert not was_signed
    assert (done.is_error, words(done)) == (False, "marked")
    assert (again.is_error, words(again)) == (False, "marked")
    assert (place.folder / "signed").read_text() == "marked\n"  # Once.
    assert place.runs() == [(run_id, "succeeded")]
    assert len(place.events("approval_requested")) == 1


async def test_a_person_can_go_on_with_what_a_client_began(served: Served) -> None:
    place = served.place
    asked = await served.call("sign")
    run_id = asked.structured_content["run_id"]
    await approve(place, asked.structured_content["waiting"][0]["approval"])

    await placet(place, "resume", run_id)

    assert (place.folder / "signed").read_text() == "marked\n"
    assert place.runs() == [(run_id, "succeeded")]


async def test_with_wait_the_call_itself_waits(warm_place: Place) -> None:
    place = warm_place
    async with place.client("--wait") as client:
        calling = asyncio.ensure_future(client.call_tool("sign", {}))
        while not (asked := await pending(place)):
            continue  # Each look is a process of its own, and takes its time.
        await approve(place, asked[0])
        done = await calling

    assert (done.is_error, words(done)) == (False, "marked")
    assert [status for _, status in place.runs()] == ["succeeded"]


async def test_a_client_cannot_resume_what_others_began(served: Served) -> None:
    place = served.place
    plan = place.folder / "plan.json"
    plan.write_text(
        json.dumps({"actions": [{"tool": "sign"}, {"tool": "mark", "parameters": {"file": "t"}}]})
    )
    await placet(place, "run", plan, "--run-id", "theirs", *place.inputs, code=4)

    theirs = await served.call("resume_run", {"run_id": "theirs"})
    unknown = await served.call("resume_run", {"run_id": "nobodys"})

    assert theirs.is_error
    assert "was not begun by this client" in words(theirs)
    assert not (place.folder / "t").exists()
    assert unknown.is_error
    assert "nobodys" in words(unknown)


async def test_a_call_that_the_client_takes_back_stops_in_the_tool(served: Served) -> None:
    calling = asyncio.ensure_future(served.call("hold", {"name": "a"}))
    await until(served.place.folder / "a.begun")
    calling.cancel()  # The SDK tells the server.
    await until(served.place.folder / "a.stopped")
    after = await served.call("look", {})

    assert (served.place.folder / "a.stopped").read_text() == "the client took the call back"
    assert words(after) == "found x"
    assert [status for _, status in served.place.runs()] == ["canceled", "succeeded"]
    assert len(served.place.events("action_failed")) == 1


async def test_progress_arrives_before_the_answer(served: Served) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    done = await served.call("climb", {"steps": 3}, progress_callback=hear)
    of_call = list(heard)
    heard.clear()
    plan = {"actions": [{"id": "up", "tool": "climb", "parameters": {"steps": 2}}]}
    await served.call("execute_plan", {"plan": plan}, progress_callback=hear)

    assert words(done) == "up"
    assert of_call == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
    # Actions of a plan count for themselves; to the client it is one call, so the reports are counted.
    assert heard == [(0, None, "up: step 1"), (1, None, "up: step 2")]


async def test_a_tool_that_prints_and_reads_does_not_touch_the_protocol(served: Served) -> None:
    loud = await served.call("loud", {})
    after = await served.call("look", {})

    assert (loud.is_error, words(loud)) == (False, "read ''")
    assert words(after) == "found x"
    for said in ("loading the tools", "python speaks", "the descriptor speaks", "a child speaks"):
        assert said in served.place.talk


async def test_two_calls_run_at_once(served: Served) -> None:
    first = asyncio.ensure_future(served.call("hold", {"name": "a"}))
    second = asyncio.ensure_future(served.call("hold", {"name": "b"}))
    await until(served.place.folder / "a.begun")
    await until(served.place.folder / "b.begun")
    (served.place.folder / "b.go").touch()
    answers = [words(await second)]
    (served.place.folder / "a.go").touch()
    answers.append(words(await first))

    assert answers == ["b went on", "a went on"]


async def test_plans_are_verified_and_executed_whole(served: Served) -> None:
    refused = {
        "actions": [
            {"id": "a", "tool": "mark", "parameters": {"file": "trace"}, "dependencies": ["b"]},
            {"id": "b", "tool": "look", "dependencies": ["a"]},
        ]
    }
    aborted = {
        "source": "somebody else",
        "actions": [
            {"id": "a", "tool": "mark", "parameters": {"file": "trace"}},
            {"id": "b", "tool": "fail", "dependencies": ["a"]},
            {"id": "c", "tool": "mark", "parameters": {"file": "never"}, "dependencies": ["b"]},
        ],
    }
    good = {
        "actions": [
            {"id": "a", "tool": "to_do"},
            {"id": "b", "tool": "look", "parameters": {"what": "$a.output"}, "dependencies": ["a"]},
        ]
    }

    checked = await served.call("verify_plan", {"plan": refused})
    fine = await served.call("verify_plan", {"plan": good})
    not_run = await served.call("execute_plan", {"plan": refused})
    undone = await served.call("execute_plan", {"plan": aborted})
    done = await served.call("execute_plan", {"plan": good})
    no_plan = await served.call("execute_plan", {"plan": "mark everything"})
    misshapen = await served.call("verify_plan", {"plan": {"actions": 7}})

    assert not checked.is_error  # It was checked, as asked.
    assert checked.structured_content["valid"] is False
    assert checked.structured_content["issues"]
    assert fine.structured_content["valid"] is True
    assert (not_run.is_error, not_run.structured_content["outcome"]) == (True, "refused")
    assert (undone.is_error, undone.structured_content["outcome"]) == (True, "aborted")
    assert undone.structured_content["irreversible"] == ["a"]
    assert not (served.place.folder / "never").exists()
    assert (done.is_error, done.structured_content["results"][1]["output"]) == (False, "found everything")
    assert no_plan.is_error
    assert "must be an object" in words(no_plan)
    assert misshapen.is_error
    assert "$.actions" in words(misshapen)
    assert {e["data"]["source"] for e in served.place.events("proposal_received")} == {"mcp"}


async def test_our_own_tools_take_nothing_that_their_schemas_do_not(served: Served) -> None:
    plan = {"actions": [{"tool": "mark", "parameters": {"file": "more"}}]}

    for tool, arguments in (
        ("verify_plan", {"plan": plan, "dry_run": True}),
        ("execute_plan", {"plan": plan, "dry_run": True}),
        ("resume_run", {"run_id": "r", "dry_run": True}),
    ):
        refused = await served.call(tool, arguments)
        assert refused.is_error
        assert "'dry_run' is unknown" in words(refused)
    assert not (served.place.folder / "more").exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("x" * 100_000, {}),
        ("resume_run", {"run_id": "x" * 100_000}),
        ("execute_plan", {"x" * 100_000: 1}),
        ("execute_plan", {"plan": {"actions": [{"tool": "x" * 100_000}]}}),
    ],
    ids=["name", "run id", "key", "plan"],
)
async def test_a_refusal_is_no_longer_than_a_model_may_see(
    served: Served, tool: str, arguments: dict[str, Any]
) -> None:
    refused = await served.call(tool, arguments)

    assert refused.is_error
    assert len(refused.model_dump_json()) < 40_000
    assert len(words(refused).encode()) <= 16 * 1024


async def test_a_client_that_goes_away_stops_what_runs_and_it_can_be_resumed(place: Place) -> None:
    async with place.client() as client:
        calling = asyncio.ensure_future(client.call_tool("hold", {"name": "a"}))
        await until(place.folder / "a.begun")
        # Leaving closes the server's stdin.
    with pytest.raises(Exception, match="closed"):
        await calling

    [(run, status)] = place.runs()
    assert status == "canceled"
    assert (place.folder / "a.stopped").read_text() == "the client closed the connection"
    (place.folder / "a.go").touch()
    async with place.client() as client:
        done = await client.call_tool("resume_run", {"run_id": run})
    assert (done.is_error, words(done)) == (False, "a went on")
    assert place.runs() == [(run, "succeeded")]


async def test_secrets_stay_here(served: Served) -> None:
    result = await served.call("leak", {})
    echoed = await served.call(f"no-such-{SECRET}", {})

    assert not result.is_error
    assert SECRET not in words(result)
    assert SECRET not in str(result.structured_content)
    assert SECRET not in words(echoed)


async def test_a_long_answer_is_cut_and_kept(served: Served) -> None:
    result = await served.call("long", {"lines": 10_000})

    told = words(result)
    assert len(told.encode()) <= 16 * 1024
    kept = told.partition("all of it is in ")[2].partition(" …]")[0]
    assert await asyncio.to_thread(Path(kept).read_text) == "a line of words\n" * 10_000


async def test_a_name_that_mcp_does_not_permit_is_mapped_and_told(served: Served) -> None:
    names = [tool.name for tool in (await served.ask(served.client.list_tools())).tools]
    result = await served.call("to_do", {})

    assert "to_do" in names
    assert "to do" not in names
    assert words(result) == "everything"
    assert "'to do'" in served.place.talk
    assert "'to_do'" in served.place.talk


async def test_only_tools_are_offered_and_calls_run_on_behalf_of_the_agent(served: Served) -> None:
    with pytest.raises(Exception, match="Method not found"):
        await served.ask(served.client.list_prompts())
    await served.call("look")

    offered = served.client.server_capabilities
    assert offered == types.ServerCapabilities(tools=types.ToolsCapability(list_changed=False))
    assert [e["data"] for e in served.place.events("session_scope")] == [{"caller_id": "helper"}]


async def test_a_client_of_the_newest_protocol_is_served_alike(warm_place: Place) -> None:
    place = warm_place
    heard: list[float] = []

    async def hear(progress: float, _: float | None, __: str | None) -> None:
        heard.append(progress)

    async with Client(stdio_client(place.parameters())) as client:
        spoken = client.protocol_version
        done = await client.call_tool("climb", {"steps": 2}, progress_callback=hear)
        unknown = await client.call_tool("lok", {})

    assert spoken == "2026-07-28"
    assert words(done) == "up"
    assert heard == [1, 2]
    assert unknown.is_error
    assert [status for _, status in place.runs()] == ["succeeded", "aborted"]


async def approve(place: Place, approval: str) -> None:
    """As a person does, in another process."""
    await placet(place, "approvals", "approve", approval)


async def pending(place: Place) -> list[str]:
    """What waits for an answer."""
    listed = await placet(place, "approvals", "list", "--json")
    return [approval["id"] for approval in json.loads(listed)["approvals"]]


async def placet(place: Place, *arguments: str | Path, code: int = 0) -> str:
    """Run another command on the same database."""
    done = await asyncio.to_thread(
        subprocess.run,
        [*place.program, *map(str, arguments), "--db", str(place.db)],
        cwd=place.folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return str(done.stdout)
