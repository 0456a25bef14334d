"""The options of a run: parsed once, passed whole, stored with the run as they are, and read back on resume.

Keep true:
1. The stored form means the same in any folder of this machine: paths are absolute.
2. Rows of earlier releases are read: the stored form renames no field, and a new one has a default.
3. What a folder brings (rules, settings, tools) is no option: it is found and judged anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from placet.sandbox.isolation import Level

if TYPE_CHECKING:
    from placet.durable.sql import RunSummary
    from placet.runtime.journal import RunRecord

_STORED_NAMES = {"isolation": "asked_isolation", "required": "isolation", "expires_s": "expire"}
_PATHS = ("tools", "policies", "state", "plan", "workspace", "record")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_STORED_NAMES):
    """How a run is set up. Everything has a default: that of the settings, or none."""

    folder: str | None = None
    """Where the run begins; the rules and settings of that folder hold. Default: the working directory."""
    tools: str | None = None
    """A file of tools that goes before the project's."""
    policies: str | None = None
    """More rules: a file or a folder."""
    permissions: str | None = None
    """A posture in the place of that of the settings."""
    yes_to: str | None = None
    """The tier up to which a model's calls are made without asking."""
    model: str | None = None
    """The model that answers."""
    isolation: Level | None = None
    """The least isolation that the person asks for."""
    workspace: str | None = None
    """The folder that tools work in. Default: the project's."""
    schedule: Literal["levels", "dataflow"] = "levels"
    state: str | None = None
    """A JSON file of state to begin with."""
    plan: str | None = None
    """The file of the plan."""
    expires_s: float | None = None
    """How long an approval can be given."""
    record: str | None = None
    """A file that keeps every answer of the model."""
    turns: int | None = None
    """How often a model is asked."""
    tokens: int | None = None
    cost_usd: float | None = None
    time_s: float | None = None
    iterations: int | None = None
    """How often a coding session begins anew."""
    style: str | None = None
    """How a coding session leads its model."""

    # Known once the run is set up
    traceparent: str | None = None
    """W3C trace context of whoever submitted the run."""
    required: Level | None = None
    """The isolation that the run had to have when it began."""
    tools_sha256: str | None = None
    """Digest of the file of tools when the run began."""
    policies_sha256: str | None = None
    """Digest of all rules that held when the run began, those of the folder and the person included."""

    def settled(self, *, required: Level | None, policies_sha256: str | None) -> RunOptions:
        """The options as they are stored with a run that is set up now."""
        paths: dict[str, Any] = {
            name: str(Path(path).absolute()) for name in _PATHS if (path := getattr(self, name)) is not None
        }
        return msgspec.structs.replace(
            self,
            **paths,
            folder=str(Path(self.folder or ".").absolute()),
            model=None if self.model is None else from_anywhere(self.model),
            required=required,
            tools_sha256=None if self.tools is None else digest_of(self.tools),
            policies_sha256=policies_sha256,
        )

    @property
    def files(self) -> list[str]:
        """Files that the run is started with; no tool may write them."""
        named = (self.tools, self.policies, self.state, self.plan, self.record, model_file(self.model))
        return [each for each in named if each is not None]


def options_of(summary: RunSummary) -> RunOptions | None:
    """The options that a run began with; None if a program began it.

    Raises:
        UsageError: they cannot be read.
    """
    from placet.errors import UsageError

    if "folder" not in summary.context:
        return None
    try:
        return msgspec.convert(summary.context, RunOptions)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"The options that run '{summary.run_id}' began with cannot be read: {error}. If a newer release "
            "of Placet began it, resume it with that one."
        ) from None


def resume_options(
    summary: RunSummary,
    named: RunOptions | None = None,
    *,
    say: Callable[[str], None] = lambda text: None,
    db: str | None,
) -> RunOptions:
    """The options to resume a run with: those it began with, and before them what is `named` anew. `say` is
    told what is gone: its folder, or its recording.

    The isolation that was asked for is part of what is `required` by now: a lowering can still apply to it.

    Raises:
        UsageError: they cannot be read; or the file of tools has changed, and was not named anew.
    """
    from placet.errors import UsageError
    from placet.render.advice import db_words, name_words

    named = named or RunOptions()
    began = options_of(summary) or RunOptions()
    if named.tools is None and began.tools is not None:
        if digest_of(began.tools) not in (None, began.tools_sha256):
            # Loading it runs it, and whoever changed it may have been the run itself.
            raise UsageError(
                f"{began.tools} is not what it was when the run began. Look at it, then name it: "
                f"placet resume {name_words(summary.run_id)} --tools {name_words(began.tools)}{db_words(db)}"
            )
    folder = began.folder
    if folder is not None and not Path(folder).is_dir():
        say(f"Note: the folder that the run began in is gone ({folder}); the rules of this one hold.")
        folder = None
    recording = began.record
    if recording is not None and not Path(recording).exists():
        # Without its beginning no recording can be replayed, so there is nothing to go on with.
        say(f"The recording {recording} is gone. The run goes on, and is not recorded any more.")
        recording = None
    return msgspec.structs.replace(
        began,
        state=None,  # The run has them already.
        plan=None,
        folder=folder,
        record=recording,
        tools=named.tools or began.tools,
        policies=named.policies or began.policies,
        model=named.model or began.model,
        isolation=named.isolation,
    )


def is_a_programs(summary: RunSummary, record: RunRecord) -> bool:
    """Whether a program began the run, under rules that are not known on the command line."""
    return "folder" not in summary.context and bool(record.policies)


def from_anywhere(model: str) -> str:
    """The name of a model that means the same in any folder."""
    path = model_file(model)
    return model if path is None else f"{model.partition(':')[0]}:{Path(path).absolute()}"


def model_file(model: str | None) -> str | None:
    """The file that a model's answers come from, where it is one."""
    kind, colon, path = (model or "").partition(":")
    return path if colon and kind in ("replay", "scripted") else None


def digest_of(path: str) -> str | None:
    """SHA-256 by which a changed file is noticed; None if it cannot be read."""
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None
