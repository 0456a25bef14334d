"""Running the checks of a contract: by us, in the sandbox, each on a fresh export of the change.

Keep true:
1. Every check gets an export of its own, and what it wrote there or left running is gone before the next.
2. A check is green only if it ended by itself, in its time, as the contract says. Whatever else happens to
   it is red, with words; only what is no fault of the check is raised.
3. Nothing that the change brings compiled is run in the place of a source.
4. A check during which a file was changed that checks depend on is red, whatever it says.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from placet.checks.contract import Check, CheckResult, Contract
from placet.checks.conventions import CACHE
from placet.checks.export_guard import UNOBSERVED, ExportGuard, Observed
from placet.checks.import_roots import python_path
from placet.checks.reports import (
    MOST_BYTES,
    doubt,
    is_unknown_option,
    read_output,
    read_report,
    variables,
    was_left,
    without_notice,
)
from placet.errors import ToolError
from placet.model_text import LIMIT, model_text
from placet.safe_text import clean
from placet.sandbox.command import Finished, ending, run_command
from placet.sandbox.confinement import Isolation
from placet.sandbox.environment import clean_environment
from placet.sandbox.limits import Limits
from placet.sandbox.workspace import Workspace

if TYPE_CHECKING:
    from placet.checks.sealing import Seal

OUTPUT_BYTES = LIMIT
"""Of the output of one check, as much as is kept in its result: the head and the tail."""
_MOST_TOUCHED = 200
_SHELL = "/bin/sh"
_MERGED = 'exec /bin/sh -c "$1" 2>&1'
"""The command comes as an argument, so that it is run as it was written."""

_PYTHON = {"PYTHONDONTWRITEBYTECODE": "1"}
"""So that compiled code that appears in the place of a sealed source is none of Python's own."""

Fresh = Callable[[], AbstractAsyncContextManager[Path]]
"""Makes a folder with the files to check, which goes when the check is over."""


class CheckRunner:
    """Runs checks. `limits` are those of one check, apart from its time, which the contract gives; what an
    output is to contain is looked for in the first `limits.output_bytes`, and a check that writes more is
    ended. `environment` is what its commands get besides what every command gets.
    """

    def __init__(
        self,
        isolation: Isolation,
        *,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        """`environment` is what checks get besides what every command gets. Python imports from `roots`,
        folders of the export, before anything else."""
        self._isolation = isolation
        self._limits = Limits() if limits is None else limits
        self._environment = {} if environment is None else dict(environment)
        self._roots = list(roots)

    @property
    def environment(self) -> dict[str, str]:
        """What commands find in their environment, apart from what depends on the folder they run in."""
        return clean_environment(self._environment)

    async def run(
        self,
        contract: Contract,
        fresh: Fresh,
        *,
        baseline: Sequence[CheckResult] = (),
        seal: Seal | None = None,
        started: Callable[[Check], None] | None = None,
        completed: Callable[[CheckResult], None] | None = None,
    ) -> list[CheckResult]:
        """What came of each check, in order. `baseline` are the results in the base, to compare with. What
        `seal` names is guarded while a check runs: a check during which it was changed is red.

        A cancellation ends the command that runs, and passes.

        Raises:
            IsolationMissing: commands are kept from less than is required.
        """
        known = {result.name: result for result in baseline}
        results: list[CheckResult] = []
        for check in contract.checks:
            if started is not None:
                started(check)
            before = known.get(check.name)
            run = await self._run(check, fresh, seal, before, reports=True)
            if is_unknown_option(run.exit_code, run.output):
                run = await self._run(check, fresh, seal, before, reports=False)
            result = run.result(check, before, contract)
            results.append(result)
            if completed is not None:
                completed(result)
        return results

    async def _run(
        self, check: Check, fresh: Fresh, seal: Seal | None, baseline: CheckResult | None, *, reports: bool
    ) -> _Run:
        import asyncio

        from placet.thread_work import finish_in_thread

        limits = msgspec.structs.replace(self._limits, time_s=check.timeout_secs)
        name = f".placet-{secrets.token_hex(8)}/report.xml"
        async with fresh() as folder:
            await finish_in_thread(partial(_remove_caches, folder))
            workspace = Workspace(folder)
            guard = None
            try:
                if seal is not None:
                    guard = ExportGuard(folder, seal, _own_changes(baseline))
                    await finish_in_thread(guard.begin)
                more = (
                    _PYTHON
                    | _user_site()
                    | self._environment
                    | python_path(str(workspace.folder), self._roots)
                )
                if reports:
                    path = os.path.join(workspace.folder, name)
                    more |= variables(path, more.get("PYTEST_ADDOPTS", ""))
                sandbox = await self._isolation.sandbox(workspace)
                if guard is not None:
                    guard.listen()
                try:
                    finished = await run_command(
                        [_SHELL, "-c", _MERGED, _SHELL, check.command],
                        folder=workspace.fd,
                        environment=clean_environment(more),
                        limits=limits,
                        sandbox=sandbox,
                        # The baseline shows which of them the check itself rewrites.
                        fixed=[] if guard is None or baseline is None else guard.fixed,
                    )
                except ToolError as error:
                    return _Run(limits, failure=str(error))
                observed = UNOBSERVED
                if guard is not None:
                    # Here and not in the thread, which may still compare when this call has been cancelled.
                    guard.close()
                    observed = await asyncio.to_thread(guard.end)
                return _Run(limits, finished, _report(workspace, name), observed=observed)
            finally:
                if guard is not None:
                    guard.close()
                self._isolation.forget(workspace)
                workspace.close()


def _own_changes(baseline: CheckResult | None) -> list[str]:
    """Files that a check itself rewrites."""
    return [] if baseline is None else [*baseline.touched, *baseline.rewritten]


def _user_site() -> dict[str, str]:
    """Keeps Python from loading what the code under test has put into the home of the sandbox, where the next
    command of the same check would find it. Packages that the person has there are shown read-only."""
    return {} if os.path.isdir(os.path.expanduser("~/.local/lib")) else {"PYTHONNOUSERSITE": "1"}


class _Run:
    """One run of a check: how it ended, what it wrote, what its tests reported."""

    def __init__(
        self,
        limits: Limits,
        finished: Finished | None = None,
        report: bytes = b"",
        failure: str = "",
        observed: Observed = UNOBSERVED,
    ) -> None:
        self._limits = limits
        self._finished = finished
        self._report = report
        self._observed = observed
        self._failure = failure
        """Why it did not start."""
        written = b"" if finished is None else finished.stdout + finished.stderr
        self.output = without_notice(written.decode(errors="replace"))
        self.exit_code = None if finished is None else finished.exit_code

    def result(self, check: Check, baseline: CheckResult | None, contract: Contract) -> CheckResult:
        """What came of it."""
        tests = read_report(self._report, is_base=baseline is None) or read_output(self.output)
        why = self._why(check) or doubt(check, tests, self._report, baseline, contract.may_touch)
        if baseline is not None and self._observed.touched:
            why = _touched_words(self._observed.touched)
        finished = self._finished
        return CheckResult(
            name=check.name,
            command=check.command,
            passed=not why,
            exit_code=self.exit_code,
            ended_by="start" if finished is None else finished.ended_by,
            why=why,
            output=model_text(self.output, limit=OUTPUT_BYTES),
            duration_ms=0.0 if finished is None else round(finished.duration_s * 1000, 3),
            tests=tests,
            touched=tuple(clean(path, 500) for path in self._observed.touched[:_MOST_TOUCHED]),
            read=self._observed.read,
            rewritten=tuple(clean(path, 500) for path in self._observed.rewritten[:_MOST_TOUCHED]),
        )

    def _why(self, check: Check) -> str:
        if self._finished is None:
            return f"it could not be run: {clean(self._failure, 500)}"
        if self._finished.ended_by != "itself":
            return clean(ending(self._finished, self._limits), 500)
        if check.expect_exit_zero and self.exit_code != 0:
            return f"it ended with exit code {self.exit_code}"
        if was_left(self.output):
            return "its test program was told from inside to leave before its end"
        if check.output_contains is not None and check.output_contains not in self.output:
            return f'its output does not contain "{clean(check.output_contains, 200)}"'
        return ""


def _touched_words(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"it changed {clean(paths[0], 200)}{more} while it ran, which checks depend on"


def _report(workspace: Workspace, name: str) -> bytes:
    """What a test program left as its report; nothing if there is none that can be read.

    Read as tools read files: what the command put there may be a link out of the export, or a pipe.
    """
    try:
        return workspace.read_bytes(name, MOST_BYTES)
    except ToolError:
        return b""


def _remove_caches(folder: Path) -> None:
    """Remove what Python has compiled: it may be told not to look whether the source still is the same."""
    import shutil

    for top, folders, files in os.walk(folder):
        if CACHE in files or (CACHE in folders and os.path.islink(os.path.join(top, CACHE))):
            os.unlink(os.path.join(top, CACHE))
        elif CACHE in folders:
            folders.remove(CACHE)
            shutil.rmtree(os.path.join(top, CACHE))
