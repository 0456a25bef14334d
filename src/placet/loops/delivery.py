"""How people hear of a round: on the terminal, in a file, through a command, or by a webhook.

Keep true:
1. A delivery that fails never ends a round, nor the next delivery; it is told of, and that is all.
2. A round that proceeded is quiet: its report goes only where a delivery says `always`.
3. What is delivered has been through the redactor, and steers no terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from placet.errors import PlacetError, ToolError
from placet.loops.spec import Delivery
from placet.safe_text import clean, clean_json
from placet.truncation import truncate_tail

if TYPE_CHECKING:
    from placet.loops.round import Round
    from placet.redaction import Redactor
    from placet.sandbox.confinement import Isolation

TIMEOUT_S = 30.0
_FILE_MODE = 0o600


class Delivered(NamedTuple):
    """What came of one delivery."""

    to: str
    problem: str = ""
    """Why it did not arrive; empty if it did."""


def round_data(round: Round) -> dict[str, Any]:
    """A round as JSON, for people and programs outside: without the prompts and the whole loop in it."""
    return {
        "id": round.id,
        "loop": round.loop,
        "number": round.number,
        "repository": round.repository,
        "level": round.level,
        "phase": round.phase,
        "outcome": round.outcome,
        "reason": round.reason,
        "limit": round.limit or None,
        "summary": round.summary,
        "kind": round.spec.kind,
        "intent": round.spec.intent,
        "due_at": round.due_at,
        "started_at": round.started_at,
        "ended_at": round.ended_at,
        "base": round.base,
        "tree": round.tree,
        "changed": list(round.changed),
        "included": list(round.included),
        "put_back": list(round.sealed),
        "needs_person": dict(round.needs_person),
        "maker": _worker_data(round.maker),
        "checker": _worker_data(round.checker),
        "verdict": msgspec.to_builtins(round.verdict),
        "verified": round.verified,
        "unverified": round.unverified,
        "checks": [
            {
                "name": each.name,
                "command": each.command,
                "passed": each.passed,
                "why": each.why,
                "duration_ms": each.duration_ms,
            }
            for each in round.checks
        ],
        "decision": msgspec.to_builtins(round.decision),
        "approval": round.approval or None,
        "waiting": round.is_waiting,
        "receipt": msgspec.to_builtins(round.receipt),
        "spend": {**msgspec.to_builtins(round.spend), "total_tokens": round.spend.total_tokens},
        "later": [msgspec.to_builtins(each) for each in round.later],
    }


def _worker_data(worker: Any) -> dict[str, Any] | None:
    if worker is None:
        return None
    return {
        "run_id": worker.run_id,
        "model": worker.model,
        "status": worker.status,
        "turns": worker.turns,
        "text": worker.text,
        "error": worker.error,
    }


def report_text(data: Mapping[str, Any]) -> str:
    """The report of a round as plain text: what it came to first, then why, then what is asked of a person.

    `data` is a round as `round_data` gives it.
    """
    at = datetime.fromtimestamp(data["ended_at"] or data["started_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [f"{data['loop']}, round {data['number']}: {_outcome(data)} ({at})"]
    if data["summary"]:
        lines.append(data["summary"])
    if data["reason"]:
        lines.append(f"Why: {data['reason']}")
    if data["changed"]:
        some = ", ".join(data["changed"][:8])
        more = f" and {len(data['changed']) - 8} more" if len(data["changed"]) > 8 else ""
        lines.append(f"Changes: {some}{more}")
    if data["included"]:
        some = ", ".join(data["included"][:8])
        more = f" and {len(data['included']) - 8} more" if len(data["included"]) > 8 else ""
        lines.append(f"Began with what was not committed (include_changes): {some}{more}")
    verdict = data["verdict"]
    if verdict is not None:
        lines.append(f"Verdict: {verdict['verdict']}")
    for check in data["checks"]:
        state = "green" if check["passed"] else f"red: {check['why']}"
        lines.append(f"Check {check['name']}: {state}")
    if data["waiting"] and data["approval"]:
        lines.append(f"Decide: placet approvals show {data['approval']}")
    return clean("\n".join(lines), lines=True)


def _outcome(data: Mapping[str, Any]) -> str:
    if data["outcome"] == "budget_exhausted":
        return f"budget exhausted ({data['limit']})"
    return str(data["outcome"] or "not ended")


async def deliver(
    round: Round,
    deliveries: Sequence[Delivery],
    *,
    folder: Path,
    say: Callable[[str], None],
    redactor: Redactor | None = None,
    timeout_s: float = TIMEOUT_S,
    hook_in: Isolation | None = None,
) -> list[Delivered]:
    """Let people know of a round that has ended, each in their own way, and tell what arrived. Never raises.

    Relative paths are those of `folder`, where commands run, too. `say` puts a text on the terminal. With
    `hook_in` commands are hooks, confined as it says.
    """
    data = round_data(round)
    if redactor is not None:
        data = redactor.value(data)
    done: list[Delivered] = []
    for delivery in deliveries:
        if round.is_quiet and not delivery.always:
            continue
        try:
            await _deliver(delivery, data, folder, say, timeout_s, hook_in)
            done.append(Delivered(delivery.to))
        except (PlacetError, OSError, ValueError) as error:
            done.append(Delivered(delivery.to, clean(str(error), 500)))
        except Exception as error:
            # Whatever a way out does, the round has ended as it has.
            done.append(Delivered(delivery.to, clean(f"{type(error).__name__}: {error}", 500)))
    return done


async def _deliver(
    delivery: Delivery,
    data: Mapping[str, Any],
    folder: Path,
    say: Callable[[str], None],
    timeout_s: float,
    hook_in: Isolation | None,
) -> None:
    match delivery.to:
        case "terminal":
            say(report_text(data))
        case "file":
            _append(folder / delivery.path, f"{report_text(data)}\n\n")
        case "command":
            await _command(delivery.command, data, folder, timeout_s, hook_in)
        case "webhook":
            await _webhook(delivery, data, timeout_s)


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In one write, at the end, wherever that is by then: two loops may share a file.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE)
    try:
        os.write(file, text.encode("utf-8", "backslashreplace"))
    finally:
        os.close(file)


async def _command(
    command: str, data: Mapping[str, Any], folder: Path, timeout_s: float, hook_in: Isolation | None
) -> None:
    from placet.loops.hooks import run_hook
    from placet.sandbox.command import run_command
    from placet.sandbox.finished import ending
    from placet.sandbox.limits import Limits

    limits = Limits(time_s=timeout_s, output_bytes=64 * 1024)
    if hook_in is not None:
        finished = await run_hook(command, str(folder), isolation=hook_in, limits=limits, stdin=_json(data))
    else:
        finished = await run_command(
            ["/bin/sh", "-c", command], folder=str(folder), stdin=_json(data), limits=limits
        )
    if finished.exit_code != 0:
        said = truncate_tail(finished.stderr.decode(errors="replace").strip(), 200)
        how = ending(finished, limits) or f"It ended with exit code {finished.exit_code}."
        raise ToolError(f"The command was not done. {how} {said}".rstrip())


async def _webhook(delivery: Delivery, data: Mapping[str, Any], timeout_s: float) -> None:
    from placet.loops.posting import post

    answer = await post(
        delivery.url,
        _json(data),
        hosts=delivery.hosts,
        # Told again after a crash, it is the same report: whoever gets it can tell.
        headers={"Idempotency-Key": f"{data['id']}-report"},
        timeout_s=timeout_s,
    )
    if not answer.is_good:
        raise ToolError(f"The server answered with status {answer.status}.")


def _json(data: Mapping[str, Any]) -> bytes:
    return clean_json(msgspec.json.encode(data).decode()).encode() + b"\n"
