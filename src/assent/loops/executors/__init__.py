"""What can be done with a change: noted, committed, applied, or handed to a command, a host or a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assent.loops.executors.executor import Executor
    from assent.loops.spec import ExecutorSpec


def executor_of(spec: ExecutorSpec) -> Executor:
    """The executor that a loop's file names.

    Raises:
        UsageError: it needs a function, which no file can name.
    """
    from assent.errors import UsageError

    match spec.use:
        case "record":
            from assent.loops.executors.record import RecordExecutor

            return RecordExecutor()
        case "commit":
            from assent.loops.executors.commit import CommitExecutor

            return CommitExecutor(spec.branch)
        case "apply_patch":
            from assent.loops.executors.apply_patch import ApplyPatchExecutor

            return ApplyPatchExecutor()
        case "command":
            from assent.loops.executors.command import CommandExecutor

            return CommandExecutor(
                spec.command, check=spec.check, idempotent=spec.idempotent, timeout_s=spec.timeout_s
            )
        case "webhook":
            from assent.loops.executors.webhook import WebhookExecutor

            return WebhookExecutor(
                spec.url,
                spec.hosts,
                check=spec.check,
                idempotent=spec.idempotent,
                timeout_s=spec.timeout_s,
            )
        case "callback":
            raise UsageError(
                "The executor 'callback' is a function of a program. Give LoopEngine(executor=...) one, or "
                "use another executor in the file."
            )
