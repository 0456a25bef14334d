"""Everything Placet raises, in one tree.

    PlacetError
    ├── InputError            what came from outside cannot be read (CLI exit code 2)
    │   ├── DecodeError       JSON that is malformed, or of the wrong shape
    │   ├── NotJson           a value that JSON cannot carry
    │   ├── PolicyFileError   a policy file with a key or value that means nothing
    │   ├── TrustError        a folder that is not trusted, or whose trust cannot be told
    │   ├── ToolFileError     a file of tools that does not load
    │   ├── SkillInvalid      a folder that is no skill
    │   └── CheckpointError   a checkpoint that is damaged or does not fit
    ├── StorageError          what is to be kept, or was kept, cannot be reached (CLI exit code 2)
    │   ├── StorageUnavailable    there is no such file or server, or it lets nobody in
    │   ├── StorageReadOnly       it may be read, not written
    │   ├── StorageFull           no space is left
    │   ├── StorageLocked         somebody else keeps it locked
    │   ├── StorageDamaged        it is not what was written, or not ours
    │   └── StorageNewer          a newer version of Placet has changed its tables
    ├── RunError              a run that cannot be started or resumed as asked (CLI exit code 2)
    │   ├── UnknownRun        no such run is kept
    │   ├── RunExists         its id is taken
    │   ├── RunHeld           another process is at work on it
    │   └── NamesMissing      a worker lacks tools, agents or models that it needs
    ├── EngineUnreachable     the cluster that brings work to workers does not answer (CLI exit code 2)
    ├── McpUnreachable        an MCP server cannot be started or reached (CLI exit code 2)
    ├── IsolationMissing      commands are not kept from enough here (CLI exit code 2)
    ├── EnvironmentBroken     a check cannot run on this machine, whatever is changed (CLI exit code 2)
    ├── ModelError            a model gives no answer (CLI exit code 2)
    │   ├── ModelMissing      no model is chosen, or what it needs is not installed
    │   ├── KeyMissing        the provider wants a key, and there is none
    │   ├── KeyRefused        the provider does not take the key
    │   ├── UnknownModel      the provider has no such model, or there is no such provider
    │   ├── ContextTooLong    the conversation is longer than the model can read
    │   ├── QuotaSpent        the account has nothing left
    │   ├── RateLimited       too much was asked within too short a time; may pass
    │   ├── ModelUnavailable  the server cannot be reached, or fails; may pass
    │   ├── ModelTimeout      it took too long
    │   ├── RequestRefused    the provider does not take the request as it is
    │   │   └── ToolsRefused  the model knows no tools
    │   ├── AnswerUnreadable  what came back is not what the format says, or broke off
    │   ├── ModelCancelled    somebody asked for the end
    │   ├── BudgetSpent       the model may not be asked any more
    │   └── ReplayDiverged    a recording holds no answer to this request
    ├── UsageError            the API was called in a way that cannot work
    │   ├── UnknownTool       a name the registry does not hold
    │   ├── UnknownSession    a session that was never opened, or is closed
    │   ├── UnknownAction     an id that no action of a result has; also a KeyError
    │   ├── RuleError         a policy rule that cannot mean anything; also a ValueError
    │   ├── ToolDeclarationError  a tool that contradicts itself
    │   ├── DuplicateTool     two tools of one name
    │   ├── DepsError         a tool asks for objects that were not given
    │   ├── UnknownApproval   an id that no approval has
    │   │   └── AmbiguousApproval  the beginning of several ids
    │   └── ApprovalDecided   an approval that can no longer be decided so
    └── ToolError             raised by a tool to fail its own action

Outcomes of a plan (a denial, a failed tool, a spent budget) are values in the result, never exceptions.

Keep true:
1. `code` is stable; wording may improve.
2. A message says what happened, to which thing, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from placet.truncation import truncate, truncate_repr

_LONGEST_NAME = 200


class PlacetError(Exception):
    """Base class of all errors that Placet raises."""

    code: str = "placet"
    """Stable identifier of the kind of error."""


class InputError(PlacetError):
    """Something that came from outside cannot be used as it is."""

    code = "input"


class DecodeError(InputError):
    """JSON that is malformed, or does not have the shape it should have."""

    code = "input.decode"

    def __init__(self, problem: str, *, place: str = "$", source: str = "the proposal") -> None:
        self.problem = problem
        self.place = place
        """Where in the document, as a path: `$.actions[3].tool`, or a line and column for syntax."""
        self.source = source
        super().__init__(f"Cannot read {source}: {problem}, at {place}.")


class SkillProblem(NamedTuple):
    """One thing that is wrong with a skill."""

    file: str
    """The file."""
    line: int
    """Its line, from 1; 0 if it concerns the whole file."""
    field: str
    """The field of the front matter; empty if it concerns none."""
    problem: str
    """What is wrong."""

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        field = f", field '{self.field}'" if self.field else ""
        return f"{self.file}{line}{field}: {self.problem}"


class SkillInvalid(InputError):
    """A folder that is no skill as agentskills.io describes it."""

    code = "input.skill"

    def __init__(self, problems: Sequence[SkillProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("This is no skill. " + "; ".join(map(str, problems)) + ".")


class NotJson(InputError):
    """A value that JSON cannot carry: NaN, a set, a key that is no string, a loop."""

    code = "input.not_json"

    def __init__(self, problem: str, *, place: str) -> None:
        self.problem = problem
        self.place = place
        super().__init__(f"{place} is not JSON: {problem}.")


class PolicyFileError(InputError):
    """A policy file that cannot mean what it says."""

    code = "input.policy_file"

    def __init__(
        self, path: str, problem: str, *, key: str | None = None, fix: str = "", what: str = "Policy file"
    ) -> None:
        self.path = path
        self.key = key
        where = f"{path}, key '{key}'" if key else path
        super().__init__(f"{what} {where}: {problem}.{' ' + fix if fix else ''}")


class TrustError(InputError):
    """What a folder brings may not take effect: it is not trusted, or whether it is cannot be told."""

    code = "input.trust"

    def __init__(self, path: str, problem: str, fix: str) -> None:
        self.path = path
        """The folder, or the file that is in the way."""
        super().__init__(f"{path} {problem}. {fix}")


class ToolFileError(InputError):
    """A Python file of tools that does not load, or holds none."""

    code = "input.tool_file"


class CheckpointError(InputError):
    """A checkpoint that is damaged, or names what this runtime does not have."""

    code = "input.checkpoint"


class StorageError(PlacetError):
    """Something durable cannot be reached; what was not acknowledged is not there, even in part."""

    code = "storage"
    concerns_all = False
    """Whether whatever else is tried now would fail in the same way."""

    def __init__(self, name: str, problem: str, fix: str) -> None:
        self.name = name
        """The file, or the server's URL without its password."""
        super().__init__(f"The database {name} {problem}. {fix}")


class StorageUnavailable(StorageError):
    """There is no such file or server, or it does not let us in."""

    code = "storage.unavailable"
    concerns_all = True
    holds_nothing = False
    """It is there, and nothing of the kind has been recorded in it yet."""


class StorageReadOnly(StorageError):
    """It may be read, not written."""

    code = "storage.read_only"
    concerns_all = True


class StorageFull(StorageError):
    """No space is left. A smaller piece of work may still fit."""

    code = "storage.full"


class StorageLocked(StorageError):
    """Somebody else keeps it locked."""

    code = "storage.locked"
    concerns_all = True


class StorageDamaged(StorageError):
    """It is not what was written there, or it never was ours."""

    code = "storage.damaged"


class StorageNewer(StorageError):
    """Its tables are those of a newer version. Those of another part may still be ours to write."""

    code = "storage.newer"


class RunError(PlacetError):
    """A run that cannot be started or resumed as asked."""

    code = "run"


class UnknownRun(RunError):
    """No such run is kept."""

    code = "run.unknown"

    def __init__(self, message: str, *, run_id: str = "", several: Sequence[str] = ()) -> None:
        self.run_id = run_id
        """The id that was looked for; empty if none was given."""
        self.several = list(several)
        """Ids of runs that begin with it, if there are several."""
        super().__init__(message)


class RunExists(RunError):
    """The id is that of an earlier run."""

    code = "run.exists"


class RunHeld(RunError):
    """Another process is at work on the run."""

    code = "run.held"


class NamesMissing(RunError):
    """A worker lacks names that a run needs. Nothing was begun."""

    code = "run.missing"

    def __init__(self, names: Sequence[str]) -> None:
        self.names: tuple[str, ...] = tuple(names)
        """Each with its kind, such as `tool mail.send`."""
        super().__init__(
            f"No worker here has: {', '.join(self.names)}. Start one that has it, or add it to the folder of "
            "the run and retry."
        )


class EngineUnreachable(PlacetError):
    """The cluster that brings work to workers does not answer."""

    code = "engine.unreachable"


class McpUnreachable(PlacetError):
    """An MCP server that a program declares cannot be started or reached. Nothing was called."""

    code = "mcp.unreachable"

    def __init__(self, server: str, problem: str, errors: str = "") -> None:
        self.server = server
        """Name of the server."""
        self.errors = errors
        """The last lines of its standard error, without the secrets that it was given."""
        last = f"\nThe last lines of its standard error:\n{errors}" if errors else ""
        super().__init__(f"MCP server '{server}' {problem}.{last}")


class IsolationMissing(PlacetError):
    """What was required to keep commands from everything else is not enforced on this machine."""

    code = "isolation"

    def __init__(self, required: str, found: str, remedies: Sequence[str]) -> None:
        self.required = required
        self.found = found
        self.remedies = list(remedies)
        fix = " ".join(self.remedies) or "`placet doctor` tells what works here."
        super().__init__(
            f"Isolation '{required}' is required, and this machine enforces '{found}'. Nothing was started. "
            f"{fix}"
        )


class EnvironmentBroken(PlacetError):
    """A check of a coding session cannot run here: a program or a test tool is missing, or does not start."""

    code = "environment"

    def __init__(self, message: str, *, session: str, check: str, missing: str) -> None:
        self.session = session
        """It has stopped before any work, and can be resumed."""
        self.check = check
        self.missing = missing
        super().__init__(message)


class ModelError(PlacetError):
    """A model gave no answer. Nothing else has happened."""

    code = "model"
    may_pass = False
    """Whether the same request may be answered later."""
    is_about_request = False
    """Whether any other model would refuse it as well."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        """Of HTTP, where the provider gave one."""
        self.retry_after_s = retry_after_s
        """How long the provider wants to be left alone."""
        super().__init__(message)


class ModelMissing(ModelError):
    """No model is chosen, or what the chosen one needs is not on this machine."""

    code = "model.missing"


class KeyMissing(ModelError):
    """The provider wants a key, and none was given."""

    code = "model.key_missing"


class KeyRefused(ModelError):
    """The provider does not take the key, or the key may not use this model."""

    code = "model.key_refused"


class UnknownModel(ModelError):
    """The provider has no such model, or nobody knows the provider."""

    code = "model.unknown"


class ContextTooLong(ModelError):
    """The conversation and the answer do not fit into what the model can read."""

    code = "model.context"


class QuotaSpent(ModelError):
    """The account has nothing left to spend. Waiting does not help."""

    code = "model.quota"


class RateLimited(ModelError):
    """Too much was asked within too short a time."""

    code = "model.rate"
    may_pass = True


class ModelUnavailable(ModelError):
    """The server cannot be reached, hung up, or failed."""

    code = "model.unavailable"
    may_pass = True


class ModelTimeout(ModelError):
    """There was no answer within the time that was given."""

    code = "model.timeout"


class RequestRefused(ModelError):
    """The provider does not take the request as it is."""

    code = "model.request"
    is_about_request = True


class ToolsRefused(RequestRefused):
    """The model takes no tools in the way in which its provider's format sends them."""

    code = "model.tools"


class AnswerUnreadable(ModelError):
    """What came back is not what the format says, or broke off in the middle."""

    code = "model.answer"


class ModelCancelled(ModelError):
    """Somebody asked for the end before there was an answer."""

    code = "model.cancelled"
    is_about_request = True


class BudgetSpent(ModelError):
    """What the model may use is used up."""

    code = "model.budget"
    is_about_request = True


class ReplayDiverged(ModelError):
    """A recording holds no answer to what is asked now."""

    code = "model.replay"
    is_about_request = True


class UsageError(PlacetError):
    """The API was called in a way that cannot work."""

    code = "usage"


class UnknownTool(UsageError):
    """A name the registry does not hold."""

    code = "usage.unknown_tool"

    def __init__(self, name: str, *, known: Iterable[str] = ()) -> None:
        self.name = name
        words = unknown_tool(name, known)
        stop = "" if words.endswith("?") else "."
        super().__init__(f"{words}{stop} See the known ones with: placet tools")


class UnknownSession(UsageError):
    """A session id that was never opened here, or is closed."""

    code = "usage.unknown_session"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(unknown_session(session))


class UnknownAction(UsageError, KeyError):
    """A result has no action of this id. Also a KeyError, because that is what looking up by key raises."""

    code = "usage.unknown_action"

    def __init__(self, action_id: str, *, known: Sequence[str]) -> None:
        self.action_id = action_id
        """The id that was looked for."""
        shown = truncate_repr(action_id, _LONGEST_NAME)
        near = get_close_matches(str(action_id), known, n=1)
        some = ", ".join(map(repr, known[:5])) + (", ..." if len(known) > 5 else "")
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {some or 'no actions'}."
        super().__init__(f"The result has no action {shown}. {hint}")

    # A KeyError would show its message in quotes.
    __str__ = Exception.__str__


class DuplicateTool(UsageError):
    """Two tools that were given together have one name, so that nobody could tell which of them is called."""

    code = "usage.duplicate_tool"

    def __init__(self, name: str, first: str, second: str, fix: str = "") -> None:
        self.name = name
        fix = fix or 'Rename one of them with @tool(name="..."), or give only one.'
        super().__init__(f"Two tools are named '{name}': {first} and {second}. {fix}")


class DepsError(UsageError):
    """A tool asks for the caller's own objects, and they were not given, or are of another type."""

    code = "usage.deps"

    def __init__(self, tool: str, problem: str) -> None:
        self.tool = tool
        super().__init__(
            f"Tool '{tool}' {problem}. Give them to the runtime, Runtime(deps=...), or to the call, "
            "execute(..., deps=...) or run(..., deps=...)."
        )


class RuleError(UsageError, ValueError):
    """A policy rule whose options cannot mean anything together.

    Also a ValueError, because that is what a decoder expects of a structure that refuses its values.
    """

    code = "usage.rule"


class ToolDeclarationError(UsageError):
    """A tool whose declaration contradicts itself or cannot be turned into a schema."""

    code = "usage.tool_declaration"


class UnknownApproval(UsageError):
    """No approval has an id that begins like this."""

    code = "usage.unknown_approval"

    def __init__(self, approval: str, message: str = "") -> None:
        self.approval = approval
        """The id, or the beginning of one, that was looked for."""
        super().__init__(
            message or f"There is no approval '{approval}'. See those that wait: placet approvals list"
        )


class AmbiguousApproval(UnknownApproval):
    """Several approvals have ids that begin like this."""

    code = "usage.ambiguous_approval"

    def __init__(self, approval: str, *, several: Sequence[str]) -> None:
        self.several = list(several)
        """The ids that begin with it."""
        some = ", ".join(f"'{each}'" for each in self.several[:5])
        more = ", ..." if len(self.several) > 5 else ""
        super().__init__(
            approval,
            f"Several approvals begin with '{approval}': {some}{more}. Write more of the id; see them "
            "with: placet approvals list --all",
        )


class ApprovalDecided(UsageError):
    """An approval that was decided or taken back, whose time is up, or that is about something other than
    what was seen. What was recorded stays."""

    code = "usage.approval_decided"

    def __init__(
        self, approval: str, problem: str, *, fix: str = "To be asked anew, run the action again."
    ) -> None:
        self.approval = approval
        super().__init__(f"Approval '{approval}' {problem}. {fix}")


class ToolError(PlacetError):
    """Raise it in a tool to fail the action with a message of your own."""

    code = "tool"

    def __init__(
        self, message: str, *, retry: bool = True, unknown: bool = False, took_effect: bool = False
    ) -> None:
        """Create the error.

        Args:
            message: Why the action failed; a model reads it.
            retry: `False`: another attempt cannot help.
            unknown: `True`: the effect may or may not have happened. Such an attempt is repeated only if the
                tool is `read_only` or `idempotent`.
            took_effect: `True`: the effect happened, and only the answer cannot be used. The action fails and
                is not retried; if the plan is aborted, the effect is undone or named in `irreversible`.
        """
        self.retry = retry
        self.unknown = unknown
        self.took_effect = took_effect
        super().__init__(message)


NO_SUCH_TOOL = "no tool here has that name"


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Words for a tool nobody registered, with the nearest name if there is one. A long name is cut.

    A model reads them too, so they name no command.
    """
    name = truncate(name, _LONGEST_NAME, "...")
    near = get_close_matches(name, list(known), n=1)
    hint = f"did you mean '{near[0]}'?" if near else NO_SUCH_TOOL
    return f"unknown tool '{name}': {hint}"


def unknown_session(session: str) -> str:
    """Words for a session id that is not open."""
    return f"unknown session '{session}': open one with open_session() first"
