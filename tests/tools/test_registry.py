"""The registry: names, order, and who hides whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolDeclarationError, UnknownTool
from placet.ir.tool_spec import ToolSchema
from placet.tools import Registry, Tool, tool


def named(name: str, description: str = "") -> Tool:
    return Tool.from_schema(ToolSchema(name=name, description=description), None)


def test_a_plain_function_becomes_a_tool() -> None:
    def double(x: int) -> int:
        return 2 * x

    registry = Registry()
    registry.add(double)

    found = registry.require("double")
    assert found.fn is double
    assert found.schema.risk == "destructive"
    assert "double" in registry
    assert len(registry) == 1


def test_a_function_that_cannot_be_a_tool_is_not_added() -> None:
    registry = Registry()

    with pytest.raises(ToolDeclarationError, match="positional-only"):
        registry.add(len)

    assert registry.names() == []


def test_what_is_registered_is_compiled() -> None:
    @tool
    def shout(text: str) -> str:
        return text.upper()

    before = shout.validate
    registry = Registry()
    registry.add(shout)

    assert shout.validate is not before
    assert before is not None
    assert before({}) == shout.validate({}) == "parameter 'text' is required"


@pytest.mark.parametrize("builtin_first", [True, False])
def test_a_users_tool_hides_a_builtin_in_either_order(builtin_first: bool) -> None:
    mine, theirs = named("grep", "mine"), named("grep", "built in")
    registry = Registry()

    for item, builtin in sorted([(mine, False), (theirs, True)], key=lambda pair: pair[1] != builtin_first):
        assert registry.add(item, builtin=builtin) is None

    assert registry.get("grep") is mine
    assert registry.names() == ["grep"]
    assert [schema.description for schema in registry.schemas()] == ["mine"]


def test_removing_a_users_tool_shows_the_builtin_again() -> None:
    mine, theirs = named("grep"), named("grep")
    registry = Registry()
    registry.add(theirs, builtin=True)
    registry.add(mine)

    assert registry.remove("grep") is mine
    assert registry.get("grep") is theirs
    assert registry.remove("grep") is theirs
    assert "grep" not in registry


def test_the_later_of_two_user_tools_replaces_the_first_and_keeps_its_place() -> None:
    first, other, second = named("a"), named("b"), named("a")
    registry = Registry()
    registry.add(first)
    registry.add(other)

    assert registry.add(second) is first
    assert list(registry) == [second, other]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    registry = Registry()
    registry.add(named("read_file"))

    assert registry.get("read_fil") is None
    with pytest.raises(UnknownTool, match="did you mean 'read_file'"):
        registry.require("read_fil")
    with pytest.raises(UnknownTool):
        registry.remove("read_fil")


def test_a_registry_may_change_while_it_is_walked() -> None:
    registry = Registry()
    registry.add(named("a"))
    registry.add(named("b"))

    for each in registry:
        registry.remove(each.name)

    assert len(registry) == 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["user", "builtin", "remove"]), st.sampled_from("abc")), max_size=20
)


@given(STEPS)
def test_a_name_always_means_the_newest_user_tool_else_the_newest_builtin(
    steps: list[tuple[str, str]],
) -> None:
    registry = Registry()
    shelves: dict[str, dict[str, Tool]] = {"user": {}, "builtin": {}}

    for step, name in steps:
        if step == "remove":
            if name in registry:
                registry.remove(name)
            shelves["user"].pop(name, None) or shelves["builtin"].pop(name, None)
        else:
            made = named(name)
            assert registry.add(made, builtin=step == "builtin") is shelves[step].get(name)
            shelves[step][name] = made

    expected: dict[str, Any] = {**shelves["builtin"], **shelves["user"]}
    assert {found.name: found for found in registry} == expected
    assert set(registry.names()) == set(expected)
