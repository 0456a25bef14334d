"""A tiny interpreter of plans: one action after the other, in serial order, with nothing clever in it.

It shares no code with the runtime. What it leaves behind is what every schedule has to leave behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from tests.properties.plans import HOLLOW, KEYS, TOOLS, Case, Json, PolicySpec, Script, ToolKind, Wire

_REFERENCE = re.compile(r"(\$?)\$(a\d+)\.output((?:\.[a-z]+|\[\d+\])*)")


@dataclass
class Ending:
    """How one action ended."""

    status: str
    output: Json = None
    changes: dict[str, Json] = field(default_factory=dict)


class _Rejected(Exception):
    pass


class Reference:
    """One plan, run on paper. With `smooth` everything is let through and succeeds."""

    def __init__(self, case: Case, *, smooth: bool = False) -> None:
        self.case = case
        self.smooth = smooth
        self.state: dict[str, Json] = deepcopy(case.state)
        self.endings: dict[str, Ending] = {}
        self.outcome = "succeeded"
        self.tool_calls = 0
        self.retries = 0
        self._stopped = False
        self._answers: dict[str, Json] = {}
        self._cached: dict[str, Json] = {}
        self._admitted: dict[str, int] = {}
        self._shares = {"max_actions": 0, "max_tool_calls": 0}
        self._last_writer: dict[str, str] = {}
        self._versions: set[str] = set(case.state)
        """Keys that have changed since version 0."""
        self._in_hand: Wire | None = None
        self._denied = False
        self.targets = {
            a["compensation"]["action_id"]
            for a in case.actions
            if a.get("compensation", {}).get("type") == "action_ref"
        }
        self.has_no_order = case.mood == "broken"
        self.is_refused = self.has_no_order or _is_refused(case)
        self.order = [] if self.has_no_order else serial_order(case.actions, self.targets)

    # Running

    def run(self) -> Reference:
        """Run the whole plan."""
        if self.is_refused:
            self.outcome = "refused"
            self.endings = {a["id"]: Ending("rejected") for a in self.case.actions}
            return self
        for _ in self.in_order():
            self.go_on()
        for action in self.case.actions:
            self.endings.setdefault(action["id"], Ending("skipped"))
        if self.outcome == "succeeded" and any(self.endings[i].status != "succeeded" for i in self.order):
            self.outcome = "partial"
        if self.outcome == "aborted":
            self.state = deepcopy(self.case.state)
        return self

    def in_order(self) -> Iterator[Wire]:
        """Each action at its turn; whoever takes it calls `go_on`."""
        by_id = {a["id"]: a for a in self.case.actions}
        for name in self.order:
            self._in_hand = by_id[name]
            yield self._in_hand

    def go_on(self) -> None:
        """Run the action in hand."""
        action = self._in_hand
        assert action is not None
        self.endings[action["id"]] = ending = self._run(action)
        for key in writes(action):
            self._last_writer[key] = action["id"]
        if ending.status == "succeeded":
            for key, value in ending.changes.items():
                self.state[key] = deepcopy(value)
                self._versions.add(key)

    def denies_any(self) -> bool:
        """Whether a policy would deny some action of a plan in which all else goes well."""
        for _ in self.in_order():
            self.go_on()
        return self._denied

    # One action

    def _run(self, action: Wire) -> Ending:
        if self._stopped:
            return Ending("skipped")
        if any(self._is_missing(name) for name in self._needs(action)):
            return Ending("skipped")
        abort = action.get("failure_behavior", "abort") == "abort"
        try:
            parameters = self._resolve(action)
            self._gates(action, parameters)
        except _Rejected:
            if not self.smooth:
                self._stop_if(abort)
                return Ending("rejected")
            parameters = dict(action["parameters"])
        tool = TOOLS.get(action.get("tool", ""))
        effects = action.get("expected_effects", {})
        remembered = repr((action.get("tool"), sorted(parameters.items(), key=repr)))
        shares_answer = (
            tool is not None and action.get("idempotent") and (tool.idempotent or tool.risk == "idempotent")
        )
        if shares_answer and remembered in self._answers:
            return Ending("succeeded", self._answers[remembered], dict(effects))
        if tool is not None and tool.cache_ttl_secs and remembered in self._cached:
            return Ending("succeeded", self._cached[remembered], dict(effects))
        if not self._takes_share(is_call=action["type"] == "tool_call"):
            self._stopped = True
            self.outcome = "budget"
            return Ending("skipped")
        if action["type"] != "tool_call":
            return self._on_state(action, parameters, abort)
        if tool is None:
            if self.smooth:
                return Ending("succeeded")
            self._stop_if(abort)
            return Ending("skipped" if action.get("failure_behavior") == "skip" else "failed")
        status = self._attempts(action, tool, parameters)
        if status != "succeeded":
            self._stop_if(abort)
            return Ending(status)
        output = answer_of(parameters)
        if shares_answer:
            self._answers[remembered] = output
        if tool.cache_ttl_secs:
            self._cached[remembered] = output
        return Ending("succeeded", output, dict(effects))

    def _is_missing(self, name: str) -> bool:
        return name in self.targets or self.endings[name].status != "succeeded"

    def _needs(self, action: Wire) -> list[str]:
        writers = [self._last_writer.get(key) for key in action.get("state_dependencies", ())]
        return [*_named(action), *(w for w in writers if w is not None)]

    def _stop_if(self, abort: bool) -> None:
        if abort:
            self._stopped = True
            self.outcome = "aborted"

    def _on_state(self, action: Wire, parameters: Wire, abort: bool) -> Ending:
        key = parameters.get("key", KEYS[0])
        effects = action.get("expected_effects", {})
        if action["type"] == "state_write":
            return Ending("succeeded", f"written: {key}", {key: parameters.get("value"), **effects})
        actual = deepcopy(self.state.get(key))
        if action["type"] == "state_read":
            return Ending("succeeded", actual, dict(effects))
        if self.smooth or same(actual, parameters.get("expected")):
            return Ending("succeeded", {"asserted": key, "value": actual}, dict(effects))
        self.retries += self._retries_of(action)
        self._stop_if(abort)
        return Ending("skipped" if action.get("failure_behavior") == "skip" else "failed")

    def _retries_of(self, action: Wire) -> int:
        return int(action.get("max_retries", 3)) if action.get("failure_behavior") == "retry" else 0

    def _attempts(self, action: Wire, tool: ToolKind, parameters: Wire) -> str:
        if self.smooth:
            return "succeeded"
        self.tool_calls += 1
        script = self.case.scripts.get(action["id"], Script())
        is_lost = False
        for attempt in range(1 + self._retries_of(action)):
            self.retries += attempt > 0
            went = script.outcome(attempt)
            if tool.fails_on is not None and not self.case.tools_are_sound:
                went = "fail" if parameters.get("n") == tool.fails_on else "ok"
            if went == "ok":
                return "succeeded"
            # A later attempt that fails does not undo what an earlier one may have done.
            is_lost = went == "lost" or (is_lost and went != "junk")
            if went in ("fatal", "junk") or (went == "lost" and not tool.repeatable):
                break
        if is_lost and tool.risk != "read_only":
            return "unknown"
        return "skipped" if action.get("failure_behavior") == "skip" else "failed"

    def _takes_share(self, *, is_call: bool) -> bool:
        budget = self.case.budget
        if budget is None or self.smooth:
            return True
        wanted = ["max_actions", *(["max_tool_calls"] if is_call else [])]
        if any(name in budget and self._shares[name] >= budget[name] for name in wanted):
            return False
        for name in wanted:
            self._shares[name] += 1
        return True

    # References

    def _resolve(self, action: Wire) -> Wire:
        if action.get("references", True):
            return {name: self._fill(value) for name, value in action["parameters"].items()}
        return dict(action["parameters"])

    def _fill(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole and not whole[1]:
            return self._part(whole)
        return _REFERENCE.sub(self._inline, value)

    def _inline(self, match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        part = self._part(match)
        return part if isinstance(part, str) else _as_json(part)

    def _part(self, match: re.Match[str]) -> Json:
        value = self.endings[match[2]].output
        for name, at in re.findall(r"\.([a-z]+)|\[(\d+)\]", match[3]):
            if name and isinstance(value, dict) and name in value:
                value = value[name]
            elif at and isinstance(value, list) and int(at) < len(value):
                value = value[int(at)]
            else:
                raise _Rejected
        return deepcopy(value)

    # Gates

    def _gates(self, action: Wire, parameters: Wire) -> None:
        self._capabilities(action, parameters)
        self._validation(action, parameters)
        specs = (*self.case.policies, *self.case.session_policies)
        if any(self._denies(spec, action, parameters) for spec in specs):
            self._denied = True
            raise _Rejected
        for spec in specs:
            if spec.kind == "rate_limit" and _is_about(spec, action):
                self._admitted[spec.name] = self._admitted.get(spec.name, 0) + 1

    def _capabilities(self, action: Wire, parameters: Wire) -> None:
        capabilities = self.case.capabilities or {}
        tool = action.get("tool")
        if tool is not None:
            allowed = capabilities.get("allowed_tools")
            if allowed is not None and not any(_fits(tool, p) for p in allowed):
                raise _Rejected
            if any(_fits(tool, p) for p in capabilities.get("denied_tools", ())):
                raise _Rejected
        keys = capabilities.get("allowed_state_keys")
        if keys is not None:
            touched = {*reads(action), *writes(action)}
            if action["type"] != "tool_call" and isinstance(parameters.get("key"), str):
                touched.discard(action["parameters"]["key"])
                touched.add(parameters["key"])
                if parameters["key"] != action["parameters"]["key"]:
                    others = {**action, "type": "tool_call"}
                    touched |= {*reads(others), *writes(others)}
            if any(not any(_fits(key, p) for p in keys) for key in touched):
                raise _Rejected

    def _validation(self, action: Wire, parameters: Wire) -> None:
        if action["type"] == "tool_call":
            if action["tool"] not in TOOLS and action["tool"] != HOLLOW:
                raise _Rejected
            tool = TOOLS.get(action["tool"], ToolKind(HOLLOW))
            n = parameters.get("n")
            is_integer = isinstance(n, int) and not isinstance(n, bool)
            if tool.only_integers and not (set(parameters) == {"n"} and is_integer):
                raise _Rejected
        elif not isinstance(parameters.get("key"), str):
            raise _Rejected
        if action.get("invocation_mode", "one_shot") != "one_shot":
            raise _Rejected
        undo = action.get("compensation", {})
        if undo.get("type") == "tool" and undo["tool"] != "take_back":
            raise _Rejected  # The only other ones that are made name no tool, or call one wrongly.
        if "compensation" not in action and _can_be_compensated(action):
            raise _Rejected
        if not all(holds(p, self.state) for p in action.get("preconditions", ())):
            raise _Rejected
        for assumption in action.get("assumptions", ()):
            key = assumption["key"]
            if "expected_value" in assumption:
                if key not in self.state or not same(self.state[key], assumption["expected_value"]):
                    raise _Rejected
            if "read_version" in assumption and key in self._versions:
                raise _Rejected
        if any(key not in self.state for key in action.get("state_dependencies", ())):
            raise _Rejected

    def _denies(self, spec: PolicySpec, action: Wire, parameters: Wire) -> bool:
        if not _is_about(spec, action):
            return False
        n = parameters.get("n")
        match spec.kind:
            case "deny_tool" | "no_regex":
                return True
            case "param_equals":
                return "n" in parameters and same(n, spec.n)
            case "param_contains":
                return "n" in parameters and str(spec.n) in str(n)
            case "param_presence":
                return "x" in parameters
            case "param_above":
                return "n" in parameters and not (_is_number(n) and n <= spec.n)
            case "param_below":
                return "n" in parameters and not (_is_number(n) and n >= spec.n)
            case "allow_param":
                return "n" not in parameters or not any(same(n, v) for v in (0, 1, spec.n))
            case "keyword":
                return "danger" in repr(parameters).lower()
            case "matching":
                return "n" in parameters and (str(n) == str(spec.n))
            case "require_state":
                return spec.key not in self.state or not same(self.state[spec.key], spec.value)
            case "require_key":
                return spec.key not in self.state
            case "rate_limit":
                return self._admitted.get(spec.name, 0) >= spec.limit
            case "callable":
                return bool(n == spec.n)
            case "callable_state":
                return bool(self.state.get(spec.key) == spec.value)
            case "raises":
                return action.get("tool") == spec.tool
        raise AssertionError(spec.kind)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _can_be_compensated(action: Wire) -> bool:
    """Whether it says so itself, or its tool does and it says nothing stricter."""
    claimed = action.get("reversibility")
    tool = TOOLS.get(action.get("tool", ""))
    declared = tool.reversibility if tool is not None else None
    return claimed == "compensable" or (declared == "compensable" and claimed != "irreversible")


def _is_about(spec: PolicySpec, action: Wire) -> bool:
    if spec.kind in ("keyword", "callable", "callable_state", "raises"):
        return True
    tool = action.get("tool")
    return tool is not None and _fits(tool, spec.tool)


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def answer_of(parameters: Wire) -> Json:
    """What every tool answers when it succeeds."""
    n = parameters.get("n")
    return {"n": n, "items": [n, parameters.get("x")]}


def same(a: Json, b: Json) -> bool:
    """Whether two values are one JSON value."""
    return bool(_marked(a) == _marked(b))


def _marked(value: Json) -> Json:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__, value
    if isinstance(value, dict):
        return "object", {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return "array", [_marked(item) for item in value]
    return "number", value


def holds(precondition: Wire, state: dict[str, Json]) -> bool:
    """Whether a precondition holds."""
    key, operator, wanted = precondition["key"], precondition["operator"], precondition["value"]
    if operator == "not_exists":
        return key not in state
    if key not in state:
        return False
    actual = state[key]
    if operator in ("gt", "lt", "gte", "lte"):
        if any(type(v) not in (int, float) for v in (actual, wanted)):
            return False
        return bool(
            {"gt": actual > wanted, "lt": actual < wanted, "gte": actual >= wanted, "lte": actual <= wanted}[
                operator
            ]
        )
    if operator == "contains":
        if isinstance(actual, list):
            return any(same(item, wanted) for item in actual)
        return isinstance(actual, str | dict) and isinstance(wanted, str) and wanted in actual
    return {"eq": same(actual, wanted), "neq": not same(actual, wanted), "exists": True}.get(operator, False)


def reads(action: Wire) -> list[str]:
    keys = [*action.get("state_dependencies", ()), *action.get("read_set", ())]
    keys += [p["key"] for p in action.get("preconditions", ())]
    keys += [a["key"] for a in action.get("assumptions", ())]
    if action["type"] in ("state_read", "assertion") and "key" in action["parameters"]:
        keys.append(action["parameters"]["key"])
    return keys


def writes(action: Wire) -> list[str]:
    keys = [*action.get("write_set", ()), *action.get("expected_effects", {})]
    if action["type"] == "state_write" and "key" in action["parameters"]:
        keys.append(action["parameters"]["key"])
    return keys


def _named(action: Wire) -> list[str]:
    """Actions that this one names: its explicit edges."""
    found = list(action.get("dependencies", ()))
    if action.get("references", True):
        found += [
            m[2] for text in _texts(action["parameters"]) for m in _REFERENCE.finditer(text) if not m[1]
        ]
    return found


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _as_json(value: Json) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def serial_order(actions: list[Wire], targets: set[str]) -> list[str]:
    """Again and again the first action in the list that waits for nothing any more; quadratic, and plain."""
    waits = {a["id"]: {n for n in _named(a) if n not in targets} for a in actions if a["id"] not in targets}
    order: list[str] = []
    while waits:
        ready = next((name for name, others in waits.items() if not others & waits.keys()), None)
        if ready is None:
            raise ValueError("a cycle")
        order.append(ready)
        del waits[ready]
    return order


def _is_refused(case: Case) -> bool:
    """Whether a plan that has an order is refused all the same."""
    most = (case.capabilities or {}).get("max_actions")
    return case.session == "closed" or (most is not None and len(case.actions) > most)
