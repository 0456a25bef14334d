"""replace_function and replace_lines as a model uses them."""

from __future__ import annotations

import ast
import inspect
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Runtime
from placet.errors import ToolError, UsageError
from placet.sandbox.workspace import Workspace
from placet.testing import action, proposal
from placet.tools.builtin.code import code_tools
from placet.tools.builtin.definition import replace_definition
from tests.properties.effort import Tally, examples

SHAPES = '''\
"""Shapes."""

import math  # used below


# How far around.
@cached
def around(r):
    """The way around."""
    return 2 * math.pi * r  # exact


class Circle:
    sides = 0

    def __init__(self, r):
        self.r = r

    # The plane.
    @property
    def area(self):
        return self.r

    @area.setter
    def area(self, value):
        self.r = value

    def grow(self, by):
        def more(n):
            return n + by
        self.r = more(self.r)


def grow(shape): shape.grow(1)  # once
'''


class Code:
    """The code tools on a folder with one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "shapes.py"
        self.file.write_text(SHAPES)
        self.tools: dict[str, Any] = {tool.name: tool for tool in code_tools(Workspace(folder))}

    def replace(self, name: str, source: str) -> Any:
        return self.tools["replace_function"]("shapes.py", name, source)

    def refusal(self, name: str, source: str) -> str:
        before = self.file.read_bytes()
        with pytest.raises(ToolError) as caught:
            self.replace(name, source)
        assert not caught.value.retry
        assert self.file.read_bytes() == before
        return str(caught.value)

    def text(self) -> str:
        return self.file.read_bytes().decode()


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return Code(tmp_path)


def test_the_tools_say_what_they_do_to_the_world(code: Code, tmp_path: Path) -> None:
    for tool in code.tools.values():
        assert (tool.schema.risk, tuple(tool.schema.labels)) == ("destructive", ("confined",))
        assert tool.confined_to == str(tmp_path.resolve())
        assert tool.schema.description
        assert all(each.get("description") for each in tool.schema.parameters["properties"].values())
    assert [each.name for each in code_tools(Workspace(tmp_path), only=["apply_patch"])] == ["apply_patch"]
    with pytest.raises(UsageError, match="'x' is no code tool"):
        code_tools(Workspace(tmp_path), only=["x"])


async def test_a_plan_replaces_a_function(code: Code) -> None:
    rt = Runtime(tools=[*code.tools.values()])
    source = "def around(r):\n    return 7 * r\n"
    plan = proposal(
        action("a", "replace_function", parameters={"path": "shapes.py", "name": "around", "source": source})
    )

    result = await rt.execute(plan)

    assert result.results[0].status == "succeeded"
    assert "return 7 * r" in code.text()


def test_a_function_is_replaced_and_its_decorators_and_comments_stay(code: Code) -> None:
    done = code.replace("around", "def around(r, /):\n    return 7 * r")

    old = '    """The way around."""\n    return 2 * math.pi * r  # exact\n'
    assert code.text() == SHAPES.replace("def around(r):\n" + old, "def around(r, /):\n    return 7 * r\n")
    assert done == {
        "path": "shapes.py",
        "name": "around",
        "excerpt": "6: # How far around.\n7: @cached\n8: def around(r, /):\n9:     return 7 * r\n10: \n11: ",
    }


def test_decorators_of_the_source_take_the_place_of_the_old_ones(code: Code) -> None:
    code.replace("around", "@slow\n@late\ndef around(r):\n    return 7 * r\n")

    assert "# How far around.\n@slow\n@late\ndef around(r):\n    return 7 * r\n\n\nclass" in code.text()
    assert "@cached" not in code.text()


def test_a_comment_that_the_source_repeats_is_not_doubled(code: Code) -> None:
    code.replace("around", "# How far around.\n@cached\ndef around(r):\n    return 7 * r\n")

    assert code.text().count("# How far around.") == 1


@pytest.mark.parametrize(
    "source",
    [
        "def __init__(self, r):\n    if r:\n        self.r = 0\n",
        "    def __init__(self, r):\n        if r:\n            self.r = 0",
        "\n\n        def __init__(self, r):\n            if r:\n                self.r = 0\n\n\n",
        "def __init__(self, r):\n        if r:\n            self.r = 0\n",
        "def __init__(self, r):\n\tif r:\n\t\tself.r = 0\n",
        "def __init__(self, r):\r\n  if r:\r\n    self.r = 0\r\n",
        "```python\ndef __init__(self, r):\n    if r:\n        self.r = 0\n```\n",
        "class Circle:\n    def __init__(self, r):\n        if r:\n            self.r = 0\n",
    ],
    ids=["flat", "as_in_the_file", "deep", "first_line_flat", "tabs", "two_blanks", "fenced", "in_its_class"],
)
def test_however_the_source_is_indented_it_is_as_in_the_file(code: Code, source: str) -> None:
    code.replace("Circle.__init__", source)

    new = "    def __init__(self, r):\n        if r:\n            self.r = 0\n"
    assert code.text() == SHAPES.replace("    def __init__(self, r):\n        self.r = r\n", new)


def test_a_file_with_tabs_and_carriage_returns_keeps_them(code: Code) -> None:
    code.file.write_bytes(b"class A:\r\n\tdef f(self):\r\n\t\treturn 1\r\n\r\n\tx = 1\r\n")

    code.replace("f", "def f(self):\n    if self:\n        return 2\n    return 3\n")

    assert code.file.read_bytes() == (
        b"class A:\r\n\tdef f(self):\r\n\t\tif self:\r\n\t\t\treturn 2\r\n\t\treturn 3\r\n\r\n\tx = 1\r\n"
    )


def test_steps_of_indentation_are_left_where_changing_them_would_change_the_code(code: Code) -> None:
    code.file.write_text("def f(a):\n  return a\n")
    source = "def f(a):\n    if a:\n      if a > 1:\n        return 1\n    return 2\n"

    code.replace("f", source)

    assert code.text() == source


def test_strings_of_the_source_stay_and_docstrings_move_with_it(code: Code) -> None:
    source = 'def __init__(self, r):\n    """One.\n\n    Two.\n    """\n    self.r = """a\n  b\n"""\n'

    code.replace("Circle.__init__", source)

    new = '    def __init__(self, r):\n        """One.\n\n        Two.\n        """\n'
    new += '        self.r = """a\n  b\n"""\n'
    assert code.text() == SHAPES.replace("    def __init__(self, r):\n        self.r = r\n", new)


def test_a_class_and_a_function_on_one_line_are_replaced(code: Code) -> None:
    code.file.write_text(SHAPES.removesuffix("\n"))

    code.replace("Circle", "class Circle:\n    pass\n")
    code.replace("grow", "async def grow(shape):\n    await shape\n")

    assert code.text().endswith("\n\n\nclass Circle:\n    pass\n\n\nasync def grow(shape):\n    await shape")


def test_a_getter_and_its_setter_are_told_apart_by_decorators(code: Code) -> None:
    code.replace("Circle.area", "@area.setter\ndef area(self, value):\n    self.r = 5\n")

    assert "def area(self):\n        return self.r\n" in code.text()
    assert "    @area.setter\n    def area(self, value):\n        self.r = 5\n" in code.text()

    told = code.refusal("Circle.area", "def area(self):\n    return 1\n")
    assert "more than one `Circle.area`" in told
    assert "`Circle.area` on lines 20 to 22, `Circle.area` on lines 24 to 26" in told


def test_a_name_alone_is_enough_if_there_is_one(code: Code) -> None:
    code.replace("more", "def more(n):\n    return n\n")
    code.replace("grow()", "def grow(shape):\n    pass\n")

    assert "        def more(n):\n            return n\n        self.r" in code.text()
    assert code.text().endswith("def grow(shape):\n    pass\n")


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("arround", "def arround(r): pass", ["no `arround`", "Nearest: `around` on lines 7 to 10"]),
        ("Circle.growth", "def growth(r): pass", ["`Circle.grow` on lines 28 to 31"]),
        ("zzz", "def zzz(r): pass", ["There are: `around` on", "`Circle.grow.more`"]),
        ("around", "def other(r): pass", ["definition of `around`", "`other` on line 1"]),
        ("around", "import x\n\ndef around(r): pass", ["other code on line 1, `around` on line 3", "alone"]),
        ("around", "    x = 1\n    def around(r): pass", ["other code on line 1, `around` on line 2"]),
        ("around", "", ["no code"]),
        ("around", "# nothing", ["no code"]),
        ("around", "def around(r):\n    return (1\n", ["no valid Python", "Line 2", "2:     return (1"]),
        ("around", "    def around(r):\n        x = )\n", ["Line 2", "2:         x = )"]),
        ("around", "def around(r):\n    break\n", ["would break", "outside loop"]),
        ("around", "def around(r):\n" + " return " + "-" * 50_000 + "1", ["nested too deeply"]),
        ("grow", "def grow(shape): shape.grow(1)  # once", ["the same already"]),
        ("", "x", ["definition of ``"]),
    ],
)
def test_what_cannot_be_done_says_why_and_writes_nothing(
    code: Code, name: str, source: str, told: list[str]
) -> None:
    refusal = code.refusal(name, source)

    assert all(each in refusal for each in told), refusal


def test_a_file_that_is_broken_or_no_text_is_left_alone(code: Code, tmp_path: Path) -> None:
    code.file.write_text("def f(:\n    pass\n")
    assert "so nothing can be found by name: invalid syntax. Line 1" in code.refusal("f", "def f(): pass")
    code.file.write_bytes(b"\x89PNG\0")
    assert "binary" in code.refusal("f", "def f(): pass")
    code.file.write_text("x = 1\n")
    assert "defines no function and no class" in code.refusal("f", "def f(): pass")
    code.file.unlink()
    with pytest.raises(ToolError, match="no such file"):
        code.replace("f", "def f(): pass")


def test_a_file_that_must_not_be_written_is_not(tmp_path: Path) -> None:
    code = Code(tmp_path)
    made = code_tools(Workspace(tmp_path), refuse=lambda path: "is run by the check 'x'")
    code.tools = {tool.name: tool for tool in made}

    assert "it is run by the check 'x'" in code.refusal("grow", "def grow(s): pass")
    with pytest.raises(ToolError, match="it is run by"):
        code.tools["replace_lines"]("shapes.py", 1, 1, "x")
    assert code.text() == SHAPES


def test_an_encoding_is_kept(code: Code) -> None:
    code.file.write_bytes(b"\xef\xbb\xbfdef f(): return '\xc3\xa9'\n")

    code.replace("f", "def f(): return 'ä'")

    assert code.file.read_bytes() == b"\xef\xbb\xbfdef f(): return '\xc3\xa4'\n"


# For any file

LINE_ENDS = ["\n", "\r\n", "\r"]
BETWEEN = [
    "",
    "x = 1",
    "# a note",
    "s = '''one\n  two\n'''",
    "if s:\n    t = (1,\n2)",
    "def other():\n\treturn 1  # tabs",
    "class Other:\n  def method(self): return 2",
    "u = 'é\u2028\u3000'",
    "\f",
    "    # an indented note",
]
DECORATORS = [("", ""), ("", "@one\n"), ("# above\n", "@one\n@two(\n  3)\n"), ("# above\n", "@\\\none\n")]
OLD = [
    "def target(): pass  # here",
    "def target(a,\n  b=1):\n    '''Old\n  text.'''\n    return [a,\n b]",
    "async def target():\n\n\t# a note\n\n\tpass",
    "class target:\n  x = 1; y = 2\n\n\n  def inner(self): return '''\n'''",
]
NEW = [
    "def target(): return 1",
    "def target(a):\n    '''New\n    text.\n\n      x'''\n    if a:\n        return '''x\n y'''\n    return",
    "    def target(a,\n b):\n      return (a,\n# a note\nb)",
    "@new\nclass target(\n    object,\n):\n\tdef inner(self):\n\t\tx = f'''{self\n}'''\n\t\treturn x",
]
WITHIN = ["", "if True:\n", "class Outer:\n", "try:\n    pass\nfinally:\n"]


def test_all_but_the_named_function_stays_byte_for_byte() -> None:
    tally = Tally()

    @examples(400)
    @given(
        st.lists(st.sampled_from(BETWEEN), max_size=5),
        st.lists(st.sampled_from(BETWEEN), max_size=5),
        st.sampled_from(DECORATORS),
        st.sampled_from(OLD),
        st.sampled_from(NEW),
        st.sampled_from(WITHIN),
        st.sampled_from(["    ", "\t", "  "]),
        st.sampled_from(LINE_ENDS),
        st.booleans(),
    )
    def holds(
        before: list[str],
        after: list[str],
        decorators: tuple[str, str],
        old: str,
        new: str,
        within: str,
        step: str,
        line_end: str,
        is_ended: bool,
    ) -> None:
        margin = step if within else ""
        above, kept, target = (
            "".join(margin + line if line.strip() else line for line in part.splitlines(keepends=True))
            for part in (*decorators, old)
        )
        head = "".join(f"{each}\n" for each in before) + within + above
        end, tail = ("\n", "".join(f"{each}\n" for each in after)) if is_ended else ("", "")
        parts = [part.replace("\n", line_end) for part in (head, kept, target, end, tail)]
        head, kept, target, end, tail = parts

        done = replace_definition("a.py", "".join(parts), "target", new)

        ours = "@" in new
        put = done.text[done.start : done.end]
        assert done.text == (head if ours else head + kept) + put + tail
        assert put.endswith(end)
        assert line_end not in "".join(parts) or set(re.findall("\r\n|\r|\n", put)) <= {line_end}
        assert meaning(done.text, "target") == meaning(new, "target")
        tally.add(within=bool(within), decorated=bool(kept), brings=ours, at_end=not is_ended)

    holds()
    tally.require({"within": 0.4, "decorated": 0.4, "brings": 0.1, "at_end": 0.2})


def meaning(code: str, name: str) -> str:
    """A definition of some code without its decorators and the indentation of docstrings."""
    tree = ast.parse(f"if 1:\n{code}" if re.match(" +(def|class)", code) else code)
    found = next(node for node in ast.walk(tree) if getattr(node, "name", "") == name)
    found.decorator_list = []  # type: ignore[attr-defined]
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body[0].value.value = inspect.cleandoc(node.body[0].value.value)  # type: ignore[attr-defined]
    return ast.dump(found)


PIECES = st.sampled_from(
    [
        *"():\n'\"\\#,@ \t\r\f\0é",
        "def ",
        "f",
        "class ",
        "pass",
        "\n    ",
        "'''",
        "return 1",
        "async ",
        "```",
        "\u2028",
    ]
)


@examples(300)
@given(st.lists(PIECES, max_size=15).map("".join), st.lists(PIECES, max_size=15).map("".join), st.booleans())
def test_whatever_the_code_is_there_is_an_answer(text: str, source: str, is_code: bool) -> None:
    if is_code:
        text, source = f"def f(): pass\n{text}", f"def f():\n  return 2\n{source}"
    try:
        done = replace_definition("a.py", text, "f", source)
    except ToolError:
        return

    ast.parse(done.text)


# replace_lines


@pytest.mark.parametrize(
    ("text", "first", "last", "new", "now"),
    [
        ("a\nb\nc\n", 2, 2, "B", "a\nB\nc\n"),
        ("a\nb\nc\n", 2, 3, "B\nC\nD\n", "a\nB\nC\nD\n"),
        ("a\nb\nc\n", 2, 2, "", "a\nc\n"),
        ("a\nb\nc\n", 1, 3, "", ""),
        ("a\nb\nc\n", 2, 1, "x", "a\nx\nb\nc\n"),
        ("a\nb", 3, 2, "c", "a\nb\nc\n"),
        ("a\nb", 2, 2, "c", "a\nc"),
        ("a\nb", 1, 1, "c", "c\nb"),
        ("", 1, 0, "a", "a\n"),
        ("a\r\nb\r\n", 2, 2, "B\nC", "a\r\nB\r\nC\r\n"),
        ("a\r\nb\n", 2, 2, "B", "a\r\nB\n"),
    ],
)
def test_lines_are_replaced_by_number(
    tmp_path: Path, text: str, first: int, last: int, new: str, now: str
) -> None:
    code = Code(tmp_path)
    code.file.write_bytes(text.encode())

    done = code.tools["replace_lines"]("shapes.py", first, last, new)

    assert code.text() == now
    assert done["removed"] == last - first + 1
    assert done["added"] == len(new.splitlines())


def test_replacing_lines_shows_the_result_and_what_broke(code: Code) -> None:
    done = code.tools["replace_lines"]("shapes.py", 8, 8, "def around(r:")

    assert done["excerpt"].split("\n")[2] == "8: def around(r:"
    assert "never closed" in done["syntax"]


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [(1, 99, "has 34 lines; there is no line 99"), (40, 39, "no line 40"), (5, 3, "before the first")],
)
def test_lines_that_are_not_there_are_refused(code: Code, first: int, last: int, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        code.tools["replace_lines"]("shapes.py", first, last, "x")

    assert code.text() == SHAPES


@examples(150)
@given(
    st.lists(st.sampled_from(["a", "b\r", "", "\u2028", "é"]), max_size=6),
    st.booleans(),
    st.integers(1, 7),
    st.integers(0, 7),
    st.lists(st.sampled_from(["x", "", "y"]), min_size=1, max_size=3),
)
def test_lines_that_are_not_named_stay(
    rows: list[str], is_ended: bool, first: int, last: int, new: list[str]
) -> None:
    text = "\n".join(rows) + ("\n" if is_ended and rows else "")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "f"
        file.write_bytes(text.encode())
        tool: Any = next(each for each in code_tools(Workspace(folder)) if each.name == "replace_lines")

        try:
            done = tool("f", first, last, "\n".join(new))
        except ToolError:
            assert file.read_bytes() == text.encode()
            return

        lines = text.split("\n")
        now = file.read_bytes().decode().split("\n")
        assert now[: first - 1] == lines[: first - 1]
        kept = [line for line in lines[last:] if line]
        assert [line for line in now[first - 1 + done["added"] :] if line] == kept
