"""What a model can do with skills: load one that it was offered, run a script of it, ask to approve one.

Keep true:
1. Only what the run was offered is loaded; what a file says comes back as it is, never followed.
2. A script runs as a tool call: through the gate, in the sandbox, never on being read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from placet.errors import StorageError, ToolError, UsageError
from placet.ir.json_value import JsonValue
from placet.memory.skills.document import write_folder
from placet.policy.case import Rule
from placet.policy.rule import DenyTool
from placet.safe_text import clean
from placet.thread_work import finish_in_thread
from placet.tools.context import ToolContext
from placet.tools.tool import Tool, tool

if TYPE_CHECKING:
    from placet.memory.memory import Memory
    from placet.memory.skills.skill import Skill
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.workspace import Workspace

LOAD, TRUST, SCRIPT = "load_skill", "skill.trust", "run_skill_script"
_NEXT = "Nothing has been done yet. Do the task now, by these instructions, with your tools."
"""Small models take reading the instructions for having followed them."""
_MOST_SHOWN = 100_000
"""Characters of one file."""


def skill_rules() -> list[tuple[str, Rule]]:
    """Rules that must hold where skills are attached."""
    reason = "a skill made from untrusted text is offered only when a person has approved it"
    return [(TRUST, DenyTool(tool=TRUST, reason=reason, unless_approved=True))]


def skill_tools(memory: Memory) -> list[Tool]:
    """The tools that use the skills of a memory."""
    made = [_load(memory), _trust(memory)]
    for each in made:
        each.trusted = True
    return made


def _load(memory: Memory) -> Tool:
    @tool(name=LOAD, risk="read_only", labels=["memory"])
    async def load_skill(name: str, context: ToolContext, file: str = "SKILL.md") -> dict[str, JsonValue]:
        """Read a skill that was offered to you, before you follow it.

        Args:
            name: Name of the skill.
            file: A file of it, such as references/api.md. Leave it out for the instructions.
        """
        try:
            skill = await memory.skills.load(name, context.run_id, tenant=context.tenant)
        except UsageError as error:
            raise ToolError(str(error), retry=False) from None
        except StorageError as error:
            raise ToolError(str(error), retry=True) from None
        if file == "SKILL.md":
            others = [path for path in skill.files if path.upper() != "SKILL.MD"]
            answer: dict[str, JsonValue] = {"name": name, "instructions": skill.document.body, "next": _NEXT}
            return answer | ({"files": list(others)} if others else {})
        if file not in skill.files:
            raise ToolError(f"Skill '{name}' has no file '{clean(file, 80)}'.", retry=False)
        try:
            text = skill.files[file].decode()
        except UnicodeDecodeError:
            raise ToolError(f"'{file}' of skill '{name}' is no text.", retry=False) from None
        if len(text) > _MOST_SHOWN:
            raise ToolError(f"'{file}' of skill '{name}' is too long to be read.", retry=False)
        return {"name": name, "file": file, "text": text}

    return load_skill


def _trust(memory: Memory) -> Tool:
    @tool(name=TRUST, risk="destructive", reversibility="irreversible", labels=["memory"])
    async def trust(name: str, version: int, context: ToolContext) -> dict[str, JsonValue]:
        """Approve a skill that was made from untrusted text. A person is always asked first.

        Args:
            name: Name of the skill.
            version: Its newest version, which the person is shown.
        """
        try:
            changed = await memory.skills.trust(name, version=version, tenant=context.tenant)
        except UsageError as error:
            raise ToolError(str(error), retry=False) from None
        return {"name": name, "version": version, "changed": changed}

    def explain(parameters: Mapping[str, JsonValue], tenant: str | None) -> str:
        name, version = str(parameters.get("name")), parameters.get("version")
        versions = memory.skills.store.listed(memory.skills.tenant(tenant), name)
        skill = next((each for each in versions if each.version == version), None)
        if skill is None:
            return f"There is no version {version} of a skill '{name}'."
        return f"{skill.title}: {skill.description}\nsource: {skill.source}\n\n{skill.document.body}"

    trust.explain = explain
    return trust


def _laid_out(skill: Skill, temporary: str) -> Path:
    folder = Path(os.path.realpath(temporary)) / skill.name
    write_folder(skill.files, folder)
    return folder


def script_tools(memory: Memory, workspace: Workspace, isolation: Isolation | None = None) -> list[Tool]:
    """`run_skill_script`: runs a script of a skill in the sandbox, with the workspace as its folder."""
    from placet.sandbox.command import ending, run_command
    from placet.sandbox.confinement import Isolation
    from placet.sandbox.finished import account
    from placet.sandbox.limits import Limits

    confined = Isolation() if isolation is None else isolation
    limits = Limits()

    @tool(name=SCRIPT, risk="destructive", labels=["confined"] if confined.is_certain else [])
    async def run_skill_script(
        name: str,
        script: str,
        context: ToolContext,
        arguments: Annotated[list[str], msgspec.Meta(max_length=50)] = [],  # noqa: B006
    ) -> dict[str, JsonValue]:
        """Run a script of a skill that was offered to you, in the workspace folder.

        Args:
            name: Name of the skill.
            script: Path of the script, such as scripts/check.py.
            arguments: Arguments of the script.
        """
        try:
            skill = await memory.skills.load(name, context.run_id, tenant=context.tenant)
        except UsageError as error:
            raise ToolError(str(error), retry=False) from None
        if script not in skill.scripts:
            raise ToolError(f"Skill '{name}' has no script '{clean(script, 80)}'.", retry=False)
        if not skill.files[script].startswith(b"#!"):
            raise ToolError(f"'{script}' names no program in its first line, such as #!/bin/sh.", retry=False)
        with tempfile.TemporaryDirectory(prefix="placet-skill-") as temporary:
            folder = await finish_in_thread(partial(_laid_out, skill, temporary))
            finished = await run_command(
                [str(folder / script), *arguments],
                folder=workspace.fd,
                limits=limits,
                sandbox=await confined.sandbox(workspace),
                readable=[str(folder)],
            )
        if context.on_command is not None:
            context.on_command(account(finished, script))
        answer: dict[str, JsonValue] = {
            "exit_code": finished.exit_code,
            "stdout": finished.stdout.decode(errors="replace"),
            "stderr": finished.stderr.decode(errors="replace"),
            "isolation": finished.facts.isolation,
        }
        return answer | ({"note": note} if (note := ending(finished, limits)) else {})

    run_skill_script.confinement = lambda: confined.confinement(workspace)
    return [run_skill_script]
