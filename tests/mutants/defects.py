"""The defects: what is changed, and which tests are asked to notice.

`old` must stand exactly once in the file. Name a defect after what goes wrong, not after the code.
"""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    name: str
    file: str
    """Below src/assent."""
    old: str
    new: str
    tests: tuple[str, ...]


_RUNTIME = ("tests/runtime", "tests/properties", "tests/faults")
_GRAPH = ("tests/ir", "tests/properties", "tests/runtime")
_VERIFY = ("tests/verify", "tests/properties")
_DURABLE = ("tests/durable", "tests/storage", "tests/events")
_FILES = (
    "tests/sandbox",
    "tests/tools/builtin",
    "tests/properties/test_files.py",
    "tests/faults/test_file_races.py",
)
_COMMANDS = ("tests/sandbox", "tests/tools/builtin/test_shell.py", "tests/faults/test_commands.py")
_SANDBOX = (
    "tests/sandbox/test_sandbox.py",
    "tests/sandbox/test_confinement.py",
    "tests/sandbox/test_places.py",
)
_STATE = ("tests/state", "tests/properties", "tests/runtime")

DEFECTS: tuple[Defect, ...] = (
    # The graph
    Defect(
        "a reader does not wait for the writer",
        "ir/graph.py",
        """                for key in reads:
                    if key in writer and level[writer[key]] >= at:""",
        """                for key in reads:
                    if False and level[writer[key]] >= at:""",
        _GRAPH,
    ),
    Defect(
        "a writer does not wait for readers",
        "ir/graph.py",
        "if key in read_level and read_level[key] >= at:",
        "if False:",
        _GRAPH,
    ),
    Defect(
        "two writers of one key do not conflict",
        "ir/graph.py",
        """                for key in writes:
                    if key in writer and level[writer[key]] >= at:""",
        """                for key in writes:
                    if False and level[writer[key]] >= at:""",
        _GRAPH,
    ),
    Defect(
        "dataflow forgets readers before a write",
        "ir/graph.py",
        'found += [new(Conflict, (r, i, key, "read_write")) for r in readers.pop(key)]',
        "readers.pop(key)",
        _GRAPH,
    ),
    Defect(
        "a reference is no dependency",
        "ir/graph.py",
        "                found[p] = None\n",
        "                pass\n",
        _GRAPH,
    ),
    Defect(
        "the last writer of a needed key is not needed",
        "ir/graph.py",
        "self.needs[i] = list(dict.fromkeys((*self.needs[i], *writers)))",
        "pass",
        _GRAPH,
    ),
    Defect(
        "ties are not broken by position",
        "ir/graph.py",
        "            i = heappop(ready)\n            order.append(i)",
        "            i = ready.pop()\n            order.append(i)",
        _GRAPH,
    ),
    Defect(
        "a key that is not known yet conflicts with nothing",
        "ir/graph.py",
        "touched = [((*r, ANY_KEY) if r else r, (*w, ANY_KEY) if w else w) for r, w in touched]",
        "pass",
        _GRAPH,
    ),
    Defect(
        "preconditions are not read",
        "ir/graph.py",
        "    reads += [p.key for p in action.preconditions]\n",
        "",
        _GRAPH,
    ),
    Defect("a cycle goes unseen", "ir/graph.py", "if len(order) != len(scheduled):", "if False:", _GRAPH),
    # References and decoding
    Defect(
        "an escaped reference is resolved",
        "ir/references.py",
        '    if match["escape"]:\n        return match[0][1:]\n',
        "",
        ("tests/ir",),
    ),
    Defect(
        "a key may stand twice",
        "ir/codec.py",
        'return b"\\\\u003" not in data and data.count(b":") == written_again.count(b":")',
        "return True",
        ("tests/ir", "tests/properties"),
    ),
    Defect(
        "an escaped colon hides a second key",
        "ir/codec.py",
        'b"\\\\u003" not in data and ',
        "",
        ("tests/ir", "tests/properties"),
    ),
    Defect(
        "one level too deep is let in",
        "ir/codec.py",
        "    if _is_too_deep((value,), MAX_DEPTH):",
        "    if _is_too_deep((value,), MAX_DEPTH + 1):",
        ("tests/ir", "tests/properties"),
    ),
    Defect(
        "true equals 1",
        "ir/json_value.py",
        "    if ta is bool or tb is bool:\n        return ta is tb and a == b\n",
        "",
        ("tests/ir", "tests/properties", "tests/state"),
    ),
    Defect(
        "NaN is JSON",
        "ir/json_value.py",
        "        if isfinite(value):\n            return value\n        raise NotJson",
        "        return value\n        raise NotJson",
        ("tests/ir", "tests/state", "tests/properties"),
    ),
    # State
    Defect(
        "rollback forgets one key",
        "state/memory.py",
        'for tenant, key in sorted(unit.keys, key=lambda pair: (pair[0] or "", pair[1])):',
        'for tenant, key in sorted(unit.keys, key=lambda pair: (pair[0] or "", pair[1]))[1:]:',
        _STATE,
    ),
    Defect(
        "undo brings back an aborted neighbour's value",
        "state/memory.py",
        "kept = [entry for entry in pending if entry[0] is not unit]",
        "kept = pending[:-1] if pending[-1][0] is unit else pending",
        _STATE,
    ),
    Defect(
        "a value handed out is the stored one",
        "state/memory.py",
        "return copy_json(self._values[key]) if key in self._values else default",
        "return self._values[key] if key in self._values else default",
        _STATE,
    ),
    Defect(
        "tenants share one namespace",
        "state/memory.py",
        "        if tenant is None:\n            return self\n        found",
        "        return self\n        found",
        _STATE,
    ),
    # Gates
    Defect(
        "capabilities are not asked",
        "policy/gate.py",
        "        if self._capabilities is not None:\n            found += ",
        "        if False:\n            found += ",
        ("tests/runtime", "tests/policy"),
    ),
    Defect(
        "policies are not asked",
        "policy/gate.py",
        "        if self._policies and (ahead or not found):",
        "        if False:",
        ("tests/runtime", "tests/policy"),
    ),
    Defect(
        "state is not asked",
        "policy/gate.py",
        "problems += state_problems(action, case.view, undecided)",
        "pass",
        ("tests/runtime", "tests/properties"),
    ),
    Defect(
        "a policy that raises allows",
        "policy/engine.py",
        'return f"it raised {type(error).__name__}, so the action is denied"',
        "return None",
        ("tests/policy",),
    ),
    Defect(
        "admissions are not counted",
        "policy/engine.py",
        "            self._counter.note(call)\n",
        "            pass\n",
        ("tests/policy", "tests/runtime"),
    ),
    Defect(
        "a missing key is not equal to something",
        "validator.py",
        "    if not view.exists(key):\n        return False\n",
        "    if not view.exists(key):\n        return precondition.operator == 'neq'\n",
        ("tests/ir", "tests/properties", "tests/runtime"),
    ),
    Defect(
        "a plan may claim what its tool does not declare",
        "validator.py",
        "return action.idempotent and tool is not None and tool.schema.deduplicates",
        "return action.idempotent and tool is not None",
        ("tests/runtime",),
    ),
    # Attempts
    Defect(
        "one retry too few",
        "runtime/execution.py",
        "made > action.max_retries",
        "made >= action.max_retries",
        ("tests/runtime",),
    ),
    Defect(
        "an unknown outcome is tried again",
        "runtime/execution.py",
        "return not failure.unknown or tool is None or tool.schema.repeatable",
        "return True",
        ("tests/runtime",),
    ),
    Defect(
        "the wait before a retry does not double",
        "runtime/execution.py",
        "RETRY_BASE_MS * 2 ** min(attempt - 2, 40)",
        "RETRY_BASE_MS * min(attempt - 1, 40)",
        ("tests/runtime", "tests/faults"),
    ),
    Defect(
        "work goes on after its time is over",
        "runtime/calls.py",
        "            left = await stop_tasks([task])\n",
        "            left: list[object] = []\n",
        ("tests/runtime", "tests/faults"),
    ),
    Defect(
        "a bad answer is tried again",
        "runtime/calls.py",
        "does not fit its declared 'returns': {wrong}\", retry=False",
        "does not fit its declared 'returns': {wrong}\", retry=True",
        ("tests/runtime",),
    ),
    Defect(
        "effects of an earlier answer are not written",
        "runtime/without_calls.py",
        "self.succeed(i, action, copy_json(answer.output), 0.0, self.effects(action, {}), cached=True)",
        "self.succeed(i, action, copy_json(answer.output), 0.0, {}, cached=True)",
        ("tests/runtime",),
    ),
    Defect(
        "an aborted plan's answers are remembered",
        "runtime/run.py",
        "undone = await undo(x, self._bound, notes)",
        "undone = await undo(x, self._bound, notes); self._services.answers.adopt(x.page)",
        ("tests/runtime",),
    ),
    Defect(
        "tenants share answers",
        "runtime/guards/idempotency.py",
        'return tenant, action.tool or "", canonical_bytes(action.parameters)',
        'return None, action.tool or "", canonical_bytes(action.parameters)',
        ("tests/runtime",),
    ),
    Defect(
        "a cached answer never grows old",
        "runtime/guards/result_cache.py",
        "if self._clock() >= entry[0]:",
        "if False:",
        ("tests/runtime",),
    ),
    # Budgets, cancellation, schedules
    Defect(
        "the budget lets one more through",
        "policy/budget.py",
        "b.max_tool_calls is not None and self.tool_calls >= b.max_tool_calls",
        "b.max_tool_calls is not None and self.tool_calls > b.max_tool_calls",
        ("tests/runtime", "tests/properties"),
    ),
    Defect(
        "shares of a budget go to whoever comes first",
        "runtime/run.py",
        "one_by_one=self._allowance.may_run_out(len(to_come), calls),",
        "one_by_one=False,",
        ("tests/runtime", "tests/properties"),
    ),
    Defect(
        "a cancel is not looked at",
        "runtime/execution.py",
        "if cancel is not None and cancel.requested:\n"
        "            self.stop_canceled(cancel.reason)\n        if self.stop",
        "if self.stop",
        ("tests/runtime", "tests/properties"),
    ),
    Defect(
        "cancelling the caller's task is swallowed",
        "runtime/runtime.py",
        "    if task is not None and task.cancelling() > before:\n        raise asyncio.CancelledError\n",
        "",
        ("tests/runtime", "tests/properties"),
    ),
    Defect(
        "effects run beside what may abort",
        "runtime/schedule.py",
        "            if len(layer) == 1 or self._needs_order(layer):",
        "            if len(layer) == 1:",
        ("tests/runtime",),
    ),
    Defect(
        "an abort leaves work in flight",
        "runtime/schedule.py",
        'stop.kind == "aborted" or (cancel',
        "False or (cancel",
        ("tests/runtime", "tests/properties"),
    ),
    # Undo
    Defect(
        "compensations run in the order of completion",
        "runtime/undo.py",
        "for i in reversed(done)",
        "for i in done",
        ("tests/runtime",),
    ),
    Defect(
        "what compensations wrote stays",
        "runtime/undo.py",
        "    done = list(x.finished)\n",
        "    x.services.state.undo(x.unit)\n    done = list(x.finished)\n",
        ("tests/runtime",),
    ),
    Defect(
        "the irreversible is not named",
        "runtime/undo.py",
        'return kind == "irreversible" or (',
        "return (",
        ("tests/runtime",),
    ),
    Defect(
        "a rolled back action does not say so",
        "runtime/undo.py",
        "msgspec.structs.replace(result, rolled_back=True)",
        "result",
        ("tests/runtime",),
    ),
    Defect(
        "what was only answered from memory is taken back",
        "runtime/undo.py",
        "if i not in x.answered and x.undo_of(i)",
        "if x.undo_of(i)",
        ("tests/runtime/test_whose_effect.py",),
    ),
    Defect(
        "a cached answer outlives the undo of its effect",
        "runtime/execution.py",
        'if tool.schema.risk == "read_only":\n                    self.services.cache.put',
        "if True:\n                    self.services.cache.put",
        ("tests/runtime/test_whose_effect.py",),
    ),
    # Events
    Defect(
        "a failing sink ends the run",
        "events/sink.py",
        "        except BaseException as error:\n            return self._lose(len(events), error)",
        "        except ZeroDivisionError as error:\n            return self._lose(len(events), error)",
        ("tests/events", "tests/runtime"),
    ),
    Defect(
        "half a line swallows the next one",
        "events/jsonl.py",
        '            os.write(self._fd, b"\\n")\n',
        "            pass\n",
        ("tests/events",),
    ),
    # Verify
    Defect(
        "verify does not ask the gate",
        "policy/gate.py",
        "        found: list[Objection] = []\n        case = Case(action, tool, view, inflow)\n",
        "        if ahead:\n            return _NONE\n"
        "        found: list[Objection] = []\n        case = Case(action, tool, view, inflow)\n",
        _VERIFY,
    ),
    # Durability
    Defect(
        "a call begins before its note is on disk",
        "runtime/notes.py",
        """        self._journal.note(Started(self._x.key(i), attempt))
        try:
            await self._settle()""",
        """        self._journal.note(Started(self._x.key(i), attempt))
        try:
            pass""",
        _DURABLE,
    ),
    Defect(
        "an unsafe call is not noted beforehand",
        "runtime/execution.py",
        "is_unsafe = tool is not None and not tool.schema.repeatable",
        "is_unsafe = False",
        _DURABLE,
    ),
    Defect(
        "events are not handed over before an effect",
        "runtime/notes.py",
        "        self._x.services.events.flush()\n        self._journal.note(Started",
        "        self._journal.note(Started",
        _DURABLE,
    ),
    Defect(
        "notes run ahead of the log",
        "durable/sql.py",
        "if written < n <= last]",
        "if written < n]",
        ("tests/durable/test_records.py",),
    ),
    Defect(
        "a process that lost its run goes on taking back",
        "runtime/execution.py",
        "                await self._notes.about_to_take_back()",
        "                pass",
        ("tests/durable/test_resume.py",),
    ),
    Defect(
        "an anchor vouches for whatever is there",
        "events/sql.py",
        "        if found and found[0][0] == digest:\n            return True",
        "        return True",
        ("tests/events/test_anchor.py",),
    ),
    Defect(
        "a resumed run undoes to where it stopped",
        "runtime/keeping.py",
        "        self.replay.overwritten = take_back_left(found, left, state)",
        "        del found, left, state",
        ("tests/durable/test_resume.py",),
    ),
    Defect(
        "what ended is done again",
        "runtime/execution.py",
        "if self._notes is not None and self.results[i] is not None:",
        "if False:",
        _DURABLE,
    ),
    Defect(
        "what is read back does not change the state",
        "runtime/notes.py",
        "            x.write(action, name, value)",
        "            pass",
        _DURABLE,
    ),
    Defect(
        "a compensation that ended is done again",
        "runtime/notes.py",
        """        ended = self._replay.ended.get(key)
        if ended is not None:""",
        """        ended = self._replay.ended.get(key)
        if ended is not None and False:""",
        _DURABLE,
    ),
    Defect(
        "an abort is not noted before the taking back",
        "runtime/run.py",
        "                await notes.about_to_abort()",
        "                pass",
        _DURABLE,
    ),
    Defect(
        "whoever lost a run can still note",
        "durable/sql.py",
        "if not found or found[0][0] != self._hold:",
        "if not found:",
        _DURABLE,
    ),
    Defect(
        "a live holder is taken for dead",
        "durable/lease.py",
        "    return other.space == here.space and _started(other.pid) != other.started",
        "    return other.space == here.space",
        _DURABLE,
    ),
    Defect(
        "one failed job takes the whole commit with it",
        "storage/writer.py",
        "if len(batch) == 1 or",
        "if True or",
        _DURABLE,
    ),
    Defect(
        "a record does not vouch for its kind",
        "events/chain.py",
        "def columns_of(row: Row) -> bytes:",
        "def columns_of(row: Row) -> bytes:\n    row = row._replace(kind='')",
        _DURABLE,
    ),
    Defect(
        "the head is never kept outside",
        "events/anchor.py",
        "    def advance(self, log_id: str, position: int, digest: str) -> None:",
        "    def advance(self, log_id: str, position: int, digest: str) -> None:\n        return\n\n"
        "    def _advance(self, log_id: str, position: int, digest: str) -> None:",
        _DURABLE,
    ),
    Defect(
        "sinks get secrets",
        "events/log.py",
        "shown = list(self._shown(events))",
        "shown = list(events)",
        ("tests/events", "tests/cli"),
    ),
    # Governance
    Defect(
        "governance: a mark is lost in lists and objects",
        "policy/marks.py",
        "        return union(*map(self._lookup, find_references(value)))",
        "        return union(*map(self._lookup, find_references(value) if isinstance(value, str) else ()))",
        ("tests/policy/test_flow.py",),
    ),
    Defect(
        "governance: a mark does not follow the state",
        "policy/marks.py",
        'self.state.put(key, _further(inflow.at("value"), f"state \'{key}\'"))',
        "self.state.put(key, NO_MARKS)",
        ("tests/policy/test_flow.py",),
    ),
    Defect(
        "governance: marks of an aborted plan stay",
        "runtime/without_calls.py",
        "            self.services.marks.undo(self.mark_unit)",
        "            self.services.marks.commit(self.mark_unit)",
        ("tests/policy/test_flow.py",),
    ),
    Defect(
        "governance: what was taken back can be relied on",
        "runtime/undo.py",
        "    x.forget_successes()\n",
        "",
        ("tests/policy/test_trace_rules.py",),
    ),
    Defect(
        "governance: what a rule orders runs at once",
        "policy/trace.py",
        "            return (), key",
        "            return NOTHING",
        ("tests/policy/test_trace_rules.py",),
    ),
    Defect(
        "governance: an approval is good for any parameters",
        "runtime/asking.py",
        "        name,\n        action.parameters,\n        folder",
        "        name,\n        {},\n        folder",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: nothing is judged again after a wait",
        "runtime/asking.py",
        "        tool, objections = x.look_again(i, action)",
        "        objections = ()",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: a question that nobody answered in time is a yes",
        "runtime/asking.py",
        "        return f\"approval '{answer.id}' was not given in time\"",
        "        return None",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: what takes an action back needs nobody's word",
        "policy/gate.py",
        "            asks += self._asks_of_undo(undo, undo_inflow)",
        "            pass",
        (
            "tests/runtime/test_approvals.py::test_without_a_yes_the_owner_of_a_gated_compensation_does_not_run",
        ),
    ),
    Defect(
        "governance: a posture that denies only asks",
        "policy/gate.py",
        '        if answer == "deny":\n            return [Objection("denied", words)]\n',
        "",
        ("tests/policy/test_permission.py",),
    ),
    Defect(
        "governance: questions of a run that ended stay open",
        "runtime/run.py",
        "        await self._take_back_questions(result)\n",
        "",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: paths do not raise a tier",
        "policy/permission.py",
        "any(_lies_outside(path, folder) for path in paths_in(parameters))",
        "False",
        ("tests/policy/test_permission.py",),
    ),
    Defect(
        "governance: trust outlives the files that were trusted",
        "app/trust.py",
        '    return "trusted" if known.digest == seen.digest else "changed"',
        '    return "trusted"',
        ("tests/app",),
    ),
    Defect(
        "governance: an approval for always never runs out",
        "approvals/approval.py",
        "(self.holds_until is None or now < self.holds_until)",
        "True",
        ("tests/approvals",),
    ),
    Defect(
        "governance: verify does not count what would run",
        "verify/rehearsal.py",
        "                self._gate.begun(action, tool, sure=not in_question, is_open=bool(blanks))",
        "                pass",
        ("tests/policy/test_trace_rules.py",),
    ),
    Defect(
        "governance: a window is filled on paper",
        "policy/gate.py",
        "            if not (self._is_rehearsal and policy.is_counting):",
        "            if True:",
        ("tests/policy/test_rules.py",),
    ),
    Defect(
        "governance: nobody to ask is a yes",
        "policy/gate.py",
        '            found += [o._replace(kind="denied", reason=f"{o.reason}; {NOBODY}") for o in asks]',
        "            pass",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: an answer counts for a run whose id comes again",
        "runtime/asking.py",
        "parts = (x.run.trace_id, x.key(i), mark, str(again))",
        "parts = (x.run.run_id, x.key(i), mark, str(again))",
        ("tests/runtime/test_governance_traps.py",),
    ),
    Defect(
        "governance: what is found under an id is believed",
        "runtime/asking.py",
        "        and known.fingerprint == question.fingerprint\n",
        "",
        ("tests/runtime/test_governance_traps.py",),
    ),
    Defect(
        "governance: an approval covers whatever takes the action back",
        "runtime/gated.py",
        "            if all(of_undo(o.reason) in told for o in objections):",
        "            if told:",
        ("tests/runtime/test_governance_traps.py",),
    ),
    Defect(
        "governance: marks of what was read are taken from the state of now",
        "runtime/notes.py",
        "            x.follow(i, ran, result.output, self._replay.overwritten, marks)",
        "            x.follow(i, ran, result.output, self._replay.overwritten)",
        ("tests/runtime/test_governance_traps.py",),
    ),
    Defect(
        "governance: a no is forgotten when the rules change",
        "runtime/gated.py",
        '            if approval.decision == "deny":',
        "            if False:",
        ("tests/runtime/test_approvals.py",),
    ),
    Defect(
        "governance: a revoked approval still stands",
        "approvals/approval.py",
        " and self.revoked_at is None",
        "",
        ("tests/approvals",),
    ),
    # Tools
    Defect(
        "the kernel does not keep a path beneath",
        "sandbox/beneath.py",
        "    resolve = _BENEATH | _NO_MAGICLINKS",
        "    resolve = 0",
        _FILES,
    ),
    Defect(
        "by hand, a link is followed by the kernel",
        "sandbox/beneath.py",
        "self._entered.append(os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=self._here))",
        "self._entered.append(os.open(name, FOLDER, dir_fd=self._here))",
        _FILES,
    ),
    Defect(
        "by hand, two dots lead out",
        "sandbox/beneath.py",
        "                        raise _os_error(errno.EXDEV, name)",
        "                        return os.open(b'..', flags, mode, dir_fd=self._root)",
        _FILES,
    ),
    Defect(
        "the last name of a path is followed when it is opened",
        "sandbox/workspace.py",
        "        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK",
        "        flags |= os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK",
        _FILES,
    ),
    Defect(
        "records are open to file tools",
        "sandbox/spot.py",
        "    if inner is not None and (writing or id_in(top, _BUT_READ) not in ids[:inner]):",
        "    if False:",
        (*_FILES, "tests/cli/test_tools.py"),
    ),
    Defect(
        "a file that changed meanwhile is overwritten",
        "sandbox/spot.py",
        "            if now is None or seen(now) != if_unchanged:",
        "            if False:",
        _FILES,
    ),
    Defect(
        "an edit takes the first of several places",
        "tools/builtin/files.py",
        "        if not replace_all and text.find(old, first + 1) >= 0:",
        "        if False:",
        _FILES,
    ),
    Defect(
        "what leaves its session is not ended",
        "sandbox/keeper.py",
        "            self.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)",
        "            pass",
        _COMMANDS,
    ),
    Defect(
        "a command has all the time in the world",
        "sandbox/keeper.py",
        """        if now >= deadline:
            return "time\"""",
        """        if False:
            return "time\"""",
        _COMMANDS,
    ),
    Defect(
        "a flood of output is kept whole",
        "sandbox/command.py",
        "        elif len(into) > self.limits.output_bytes:",
        "        elif len(into) > self.limits.output_bytes + 100_000:",
        _COMMANDS,
    ),
    Defect(
        "a command finds the keys of the host",
        "sandbox/environment.py",
        'name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")',
        "name: value for name, value in os.environ.items()",
        _COMMANDS,
    ),
    Defect(
        "a private address is as good as any",
        "sandbox/hosts.py",
        'if kind == "public" or self.private:',
        "if True:",
        ("tests/sandbox/test_hosts.py", "tests/tools/builtin/test_web.py"),
    ),
    Defect(
        "a long output is shown whole",
        "runtime/observation.py",
        "    if len(data) <= limit:",
        "    if True:",
        ("tests/runtime/test_observation.py",),
    ),
    Defect(
        "what a model sees may hide orders",
        "runtime/observation.py",
        "plain = clean(text, lines=True, tabs=True)",
        "plain = text",
        ("tests/runtime/test_observation.py", "tests/cli/test_tools.py"),
    ),
    Defect(
        "progress of a call that has ended is told",
        "runtime/progress.py",
        "if newest is not None and not self._has_ended:",
        "if newest is not None:",
        ("tests/runtime/test_progress.py",),
    ),
    Defect(
        "confined tools need full access",
        "policy/permission.py",
        "CONFINED not in schema.labels",
        "True",
        ("tests/policy", "tests/cli/test_tools.py"),
    ),
    # Isolation
    Defect(
        "what is kept moves away with the folder around it",
        "sandbox/layout.py",
        "*_pins(top, [bind.destination for bind in binds], closed), ",
        "",
        _SANDBOX,
    ),
    Defect(
        "what is kept may be a link",
        "sandbox/layout.py",
        "            if os.path.islink(path):",
        "            if False:",
        _SANDBOX,
    ),
    Defect(
        "a tool in the home shows the home",
        "sandbox/layout.py",
        "        if may_show(path, kept_out):",
        "        if True:",
        _SANDBOX,
    ),
    Defect(
        "a bare repository is open to commands",
        "sandbox/layout.py",
        "        is_writable=not is_bare,",
        "        is_writable=True,",
        _SANDBOX,
    ),
    Defect(
        "a whole home is called confined",
        "sandbox/places.py",
        'return "home" if is_beneath(home, workspace) else ""',
        'return ""',
        _SANDBOX,
    ),
    Defect(
        "a self-test that broke off is believed",
        "sandbox/ladder.py",
        "    if not all(each.is_whole for each in tested):",
        "    if False:",
        _SANDBOX,
    ),
    Defect(
        "less than is required will do",
        "sandbox/confinement.py",
        "        if self.required is None or is_at_least(level, self.required):",
        "        if True:",
        (*_SANDBOX, "tests/runtime/test_isolation.py"),
    ),
    Defect(
        "the self-test overlooks a changed file",
        "sandbox/self_test.py",
        "        if _seen(scene.outside) != scene.before:",
        "        if False:",
        ("tests/attacks/test_degraded.py",),
    ),
    Defect(
        "the keeper loads what a command has built",
        "sandbox/command.py",
        "good = [each for each in good if not is_beneath(os.path.realpath(each), workspace)]",
        "good = list(good)",
        _SANDBOX,
    ),
    Defect(
        "a set-user-id file can be made",
        "sandbox/seccomp.py",
        '            Rule(calls=("chmod", "fchmod", "creat", "mknod"), checks=(_has(1, _SET_ID),)),\n',
        "",
        ("tests/sandbox/test_seccomp.py",),
    ),
    Defect(
        "any Python tool is offered under process",
        "sandbox/confinement.py",
        'if self.required != "process" or is_confined or is_trusted or tool in self.trusted:',
        "if True:",
        ("tests/runtime/test_isolation.py", "tests/sandbox/test_confinement.py"),
    ),
    Defect(
        "temporary files count for nothing",
        "sandbox/keeper.py",
        "        return self.nameless + sum(",
        "        return 0 * sum(",
        ("tests/attacks/test_attacks.py",),
    ),
)
