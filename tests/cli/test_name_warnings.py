"""Names that mean nothing, as `run`, `verify`, `do`, `chat` and `policy` report them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done
from tests.tools.mcp.conftest import HOSTILE

Placet = Callable[..., Done]
Plan = Callable[..., Path]

REFUND = '''
from pathlib import Path

from placet import tool


@tool
def refund(order: str, amount: int = 10) -> str:
    """Give money back."""
    with Path("paid.txt").open("a") as trace:
        trace.write(f"{amount}\\n")
    return "paid"
'''


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """Folders of a person who has set up nothing."""
    return {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def shop(placet: Placet, own: dict[str, str], plan: Plan, tmp_path: Path) -> Placet:
    """A folder with a tool `refund` and a plan that uses it; nothing is kept of runs."""
    (tmp_path / "shop.py").write_text(REFUND)
    plan({"id": "a", "tool": "refund", "parameters": {"order": "o1", "amount": 9000}})

    def run(*arguments: str | Path, **options: Any) -> Done:
        return placet(*arguments, "--tools", "shop.py", **{**own, **options})

    return run


def rule(tool: str, **keys: Any) -> str:
    more = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    kind = "deny_tool_param" if keys else "deny_tool"
    return f'[[rule]]\nname = "large"\nkind = "{kind}"\ntool = "{tool}"\n{more}\n'


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def named(done: Done) -> list[tuple[str, str, str | None]]:
    """What `--json` says of names that mean nothing."""
    return [(w["kind"], w["name"], w["nearest"]) for w in done.json["warnings"]]


RUN = ("run", "plan.json", "--db", "none")
SLIP = [("unknown_tool", "refnud", "refund")]


def test_run_warns_of_a_rule_that_gates_nothing(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / "rules.toml", rule("refnud", param="amount", above=100, unless_approved=True))

    done = shop(*RUN, "--policies", "rules.toml")
    as_json = shop(*RUN, "--policies", "rules.toml", "--json")

    assert (done.code, as_json.code) == (0, 0)
    [line] = [line for line in done.err.splitlines() if "refnud" in line]
    assert line.startswith("Warning: policy 'large'")
    assert "'refund'" in line
    assert "refnud" not in done.out
    assert named(as_json) == SLIP
    assert as_json.json["warnings"][0]["rule"] == "large"


def test_a_rule_that_is_right_is_no_warning(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / "rules.toml", rule("refund", param="amount", above=100))

    done = shop(*RUN, "--policies", "rules.toml", "--json")

    assert done.json["warnings"] == []
    assert "Warning" not in done.err
    assert done.json["results"][0]["status"] == "rejected"


def test_verify_lists_it_among_its_findings(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / "rules.toml", rule("refund", param="amuont", above=100))

    done = shop("verify", "plan.json", "--policies", "rules.toml")
    as_json = shop("verify", "plan.json", "--policies", "rules.toml", "--json")

    assert (done.code, as_json.code) == (0, 0)
    assert "! warning policy 'large': tool 'refund' has no parameter 'amuont'" in done.out
    assert "1 warning" in done.out.splitlines()[0]
    [issue] = as_json.json["issues"]
    assert (issue["severity"], issue["action_id"]) == ("warning", None)


@pytest.mark.parametrize("command", ["check", "explain"])
def test_policy_check_and_explain_say_it(shop: Placet, tmp_path: Path, command: str) -> None:
    write(tmp_path / "rules.toml", rule("refnud"))

    done = shop("policy", command, "plan.json", "--policies", "rules.toml")
    as_json = shop("policy", command, "plan.json", "--policies", "rules.toml", "--json")

    assert done.code == as_json.code == 0
    assert "refnud" in done.out
    assert named(as_json) == SLIP


def test_do_and_chat_say_it(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / "rules.toml", rule("refnud"))
    (tmp_path / "script.json").write_text(json.dumps({"turns": ["Done.", "Done."]}))
    base = ("--model", "scripted:script.json", "--db", "none", "--policies", "rules.toml")

    done = shop("do", "nothing", *base)
    as_json = shop("do", "nothing", *base, "--json")
    chat = shop("chat", *base, stdin="hello\nagain\n")

    assert named(as_json) == SLIP
    for each in (done, chat):
        assert each.code == 0, each.err
        assert len([line for line in each.err.splitlines() if "refnud" in line]) == 1


def test_a_single_call_says_it(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / "rules.toml", rule("refnud"))
    base = ("tools", "call", "refund", "order=o1", "--db", "none", "--policies", "rules.toml")

    assert "refnud" in shop(*base).err
    assert named(shop(*base, "--json")) == SLIP


def test_a_rule_of_the_project_is_looked_at(shop: Placet, tmp_path: Path) -> None:
    write(tmp_path / ".placet" / "policies" / "a.toml", rule("deploy"))

    assert named(shop(*RUN, "--json")) == [("unknown_tool", "deploy", None)]


def test_a_rule_of_the_person_is_a_warning_only_for_a_likely_slip(
    shop: Placet, own: dict[str, str], tmp_path: Path
) -> None:
    """It holds in every folder, and its tool may be one of another project."""
    mine = Path(own["XDG_CONFIG_HOME"]) / "placet" / "policies" / "a.toml"

    write(mine, rule("deploy"))
    assert named(shop(*RUN, "--json")) == []
    assert shop("verify", "plan.json", "--json").json["issues"] == []
    write(mine, rule("refnud"))
    assert named(shop(*RUN, "--json")) == SLIP


def test_a_rule_of_an_outer_project_is_a_warning_only_for_a_likely_slip(shop: Placet, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    write(tmp_path / ".placet" / "policies" / "a.toml", rule("deploy"))
    write(inner / ".placet" / "policies" / "b.toml", rule("refund").replace("large", "inner"))
    (inner / "shop.py").write_text(REFUND)
    (inner / "plan.json").write_text((tmp_path / "plan.json").read_text())

    assert named(shop(*RUN, "--json", cwd=inner)) == []


def test_built_in_tools_are_known_also_where_they_are_not_offered(shop: Placet, tmp_path: Path) -> None:
    text = "".join(
        rule(name).replace("large", name)
        for name in ("shell", "infer", "embed", "apply_patch", "loop_commit")
    )
    write(tmp_path / "rules.toml", text)

    assert named(shop(*RUN, "--policies", "rules.toml", "--json")) == []


def test_tools_of_mcp_servers_are_known_without_a_connection(
    shop: Placet, placet: Placet, own: dict[str, str], tmp_path: Path
) -> None:
    """Those that are on and those that are off, as the server listed them last."""
    placet("mcp", "add", "srv", "--enable", "look", "--", *HOSTILE, "annotated", **own)
    placet("mcp", "add", "other", "--", *HOSTILE, "ok", **own)
    stored = Path(own["XDG_CONFIG_HOME"]) / "placet" / "mcp.json"
    servers = json.loads(stored.read_text())
    del servers["servers"]["other"]["offered"]
    servers["servers"]["srv"]["command"] = ["/nowhere"]
    stored.write_text(json.dumps(servers))
    names = ("srv.look", "srv.wipe", "srv.*", "srv.wi*", "other.whatever", "other.*", "srv.loook", "svr.*")
    text = "".join(rule(name).replace("large", name) for name in names)
    text += rule("srv.look", param="contxt", presence=True)
    write(tmp_path / "rules.toml", text)

    done = shop(*RUN, "--policies", "rules.toml", "--json")

    assert named(done) == [
        ("unknown_tool", "srv.loook", "srv.look"),
        ("unknown_tool", "svr.*", "srv.both"),
        ("unknown_parameter", "contxt", "context"),
    ]


def test_a_tool_that_is_withheld_is_known(shop: Placet, own: dict[str, str], tmp_path: Path) -> None:
    """Under `process` a Python tool is not offered; its name is right all the same."""
    write(tmp_path / "rules.toml", rule("refund", param="whatever", presence=True))

    done = shop("verify", "plan.json", "--policies", "rules.toml", "--isolation", "process", "--json")

    assert [i["severity"] for i in done.json["issues"]] == ["error"]


def test_a_trusted_tool_that_is_not_there_is_told_as_data_too(
    shop: Placet, own: dict[str, str], tmp_path: Path
) -> None:
    write(
        Path(own["XDG_CONFIG_HOME"]) / "placet" / "settings.toml",
        '[isolation]\nrequire = "process"\ntrusted_tools = ["refnud"]\n',
    )

    done = shop(*RUN, "--json")

    assert named(done) == SLIP
    assert done.json["warnings"][0]["rule"] == "trusted_tools"


# Fields of a plan


def test_run_says_which_field_was_taken_for_nothing(shop: Placet, plan: Plan) -> None:
    plan({"id": "a", "tool": "refund", "params": {"order": "o1"}, "note": "x"})

    done = shop(*RUN)
    as_json = shop(*RUN, "--json")

    assert (done.code, as_json.code) == (1, 1)
    assert "Warning: action 'a': unknown field 'params' is ignored; did you mean 'parameters'?" in done.err
    assert named(as_json) == [("unknown_field", "note", None), ("unknown_field", "params", "parameters")]
    assert {w["action_id"] for w in as_json.json["warnings"]} == {"a"}
    assert "'params'" in as_json.json["results"][0]["error"]


def test_many_warnings_are_counted(shop: Placet, plan: Plan) -> None:
    plan(*({"id": f"a{n}", "type": "state_read", "parameters": {"key": "k"}, "x": 1} for n in range(50)))

    done = shop(*RUN)

    lines = [line for line in done.err.splitlines() if line.startswith("Warning: ")]
    assert len(lines) == 21
    assert "30" in lines[-1]
