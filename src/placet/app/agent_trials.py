"""What agents are tried and built with on the command line, and what compares a question with them.

Keep true: commands of scenarios must be kept in by the kernel, unless the person asks for less.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from placet.agents.registry import AgentEntry
    from placet.agents.report import Report
    from placet.agents.scenarios import Trying
    from placet.app.app import Records
    from placet.app.governance import Question
    from placet.app.options import RunOptions
    from placet.inference.roles import Models
    from placet.redaction import Redactor


class TrialApp(NamedTuple):
    """What scenarios are run with, and what is around it."""

    trying: Trying
    redactor: Redactor
    withheld: dict[str, str]
    """Tools that are not offered, and why."""

    def tools(self) -> dict[str, str]:
        """The tools that an agent could use here, and what each is for."""
        import tempfile

        from placet.sandbox.workspace import Workspace

        with tempfile.TemporaryDirectory() as folder:
            workspace = Workspace(folder)
            try:
                made = self.trying.tools_for(workspace)
                return {each.name: _first_sentence(each.schema.description) for each in made}
            finally:
                workspace.close()


@contextmanager
def open_trials(
    options: RunOptions, *, at_once: int, confirm: Callable[[Question], bool] | None = None
) -> Iterator[TrialApp]:
    """What agents are tried with in this folder; closed afterwards. Nothing of a trial is kept.

    Raises: what `open_app` raises; ModelMissing: no model is set up.
    """
    from placet.agents.scenarios import Trying
    from placet.app.app import open_app
    from placet.app.assistant import model_of

    options = replace(options, isolation=options.isolation or "process")
    with open_app(options, confirm=confirm, binds=False) as app:
        trying = Trying(app.runtime, model_of(app.attached), isolation=app.confined, at_once=at_once)
        yield TrialApp(trying, app.redactor, dict(app.runtime.tools.withheld))


def store_report(records: Records, entry: AgentEntry, report: Report, redactor: Redactor) -> None:
    """Store the test of an agent on all its scenarios, and let the log know."""
    shown = msgspec.convert(redactor.value(msgspec.to_builtins(report)), type(report))
    records.agents.store_report(entry.place.key, entry.id, entry.text, shown)
    records.note(
        "agent_tested",
        data={"agent": entry.id, "k": report.k, "passed": report.passed, "of": len(report.scenarios)},
    )


def embedder_here(model: str | None = None) -> Models | None:
    """What turns texts into vectors here, if anything does."""
    from placet.app.governance import NO_TOOLS, gather
    from placet.app.models import attach

    rules = gather(Path.cwd(), os.environ, tools=NO_TOOLS)
    models = attach(model, rules.own.models, os.environ).models
    return models if models is not None and models.makes_vectors else None


def embed_advice() -> str:
    """What to do to have meanings compared on this machine; empty where nothing is missing, or the settings
    name another model for it."""
    from placet.app.governance import own_settings
    from placet.extras import install_command
    from placet.inference.local.weights import EMBED, is_installed, is_there, megabytes

    settings = own_settings(os.environ).models
    if settings is not None and settings.roles.get("embed"):
        return ""
    steps = []
    if not is_installed(EMBED):
        steps.append(f"install the extra `{EMBED.extra}` with: {install_command(EMBED.extra)}")
    if not is_there(EMBED, os.environ):
        steps.append(f"fetch the model ({megabytes(EMBED.download)}) with: placet model pull {EMBED.name}")
    return "; then ".join(steps)


def _first_sentence(text: str) -> str:
    return text.strip().partition(". ")[0].partition("\n")[0].rstrip(".") + "."
