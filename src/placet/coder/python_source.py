"""One file of Python source as what it defines, imports and uses.

Nothing is imported or run: the text is parsed, and the tree is looked at.

Keep true:
1. Any text is taken: one that is no Python has lines and no definitions.
2. No walk of a tree recurses: a chain of ten thousand `elif` is a text that somebody may send.
3. Lines are counted from 1, as Python counts them: a carriage return ends a line too.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

MOST_PARSED = 512 * 1024
"""Characters. A tree takes a hundred times the memory of its text."""

_LONG_CHAIN = re.compile(r"(?:\.[\s\\]{0,20}\w{1,60}[\s\\]{0,20}){100}")
"""Python's parser takes minutes for an import of a name with very many dots."""
_MOST_ABOVE = 1_500
"""Characters of a file that count as near above a function."""
_MOST_DOTS = 8
_MOST_BASES = 8
_MOST_NAME = 300
"""Characters of a module's name."""
_ONE_AT_A_TIME = threading.Lock()
"""Two threads that quieten warnings and are over in another order would leave them quiet for good."""

Kind = Literal["function", "class", "value"]

_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("__add__", "__radd__", "__iadd__"),
    ast.Sub: ("__sub__", "__rsub__", "__isub__", "__neg__"),
    ast.Mult: ("__mul__", "__rmul__", "__imul__"),
    ast.Div: ("__truediv__", "__rtruediv__"),
    ast.FloorDiv: ("__floordiv__",),
    ast.Mod: ("__mod__",),
    ast.Pow: ("__pow__",),
    ast.MatMult: ("__matmul__",),
    ast.BitAnd: ("__and__",),
    ast.BitOr: ("__or__",),
    ast.BitXor: ("__xor__",),
    ast.USub: ("__neg__",),
    ast.Invert: ("__invert__",),
    ast.Eq: ("__eq__",),
    ast.NotEq: ("__ne__", "__eq__"),
    ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"),
    ast.Gt: ("__gt__", "__lt__"),
    ast.GtE: ("__ge__", "__le__"),
    ast.In: ("__contains__", "__iter__", "__eq__"),
    ast.NotIn: ("__contains__", "__iter__", "__eq__"),
    ast.Subscript: ("__getitem__", "__setitem__", "__delitem__"),
    ast.For: ("__iter__", "__next__"),
    ast.comprehension: ("__iter__", "__next__"),
    ast.With: ("__enter__", "__exit__"),
    ast.AsyncWith: ("__aenter__", "__aexit__"),
    ast.FormattedValue: ("__str__", "__format__", "__repr__"),
}
"""The methods that an operator or a statement calls, without naming them."""

_BUILTINS = {
    "len": ("__len__",),
    "str": ("__str__", "__repr__"),
    "repr": ("__repr__",),
    "print": ("__str__", "__repr__"),
    "bool": ("__bool__", "__len__"),
    "int": ("__int__",),
    "float": ("__float__",),
    "abs": ("__abs__",),
    "hash": ("__hash__",),
    "iter": ("__iter__",),
    "next": ("__next__",),
    "list": ("__iter__",),
    "tuple": ("__iter__",),
    "set": ("__iter__", "__hash__", "__eq__"),
    "dict": ("__iter__", "keys"),
    "sum": ("__iter__", "__add__", "__radd__"),
    "sorted": ("__lt__", "__iter__"),
    "min": ("__lt__",),
    "max": ("__gt__",),
    "reversed": ("__reversed__",),
}


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file that has a name."""

    path: str
    """Relative to the top folder of the repository."""
    name: str
    """Such as `total` or `Cart.total`."""
    first: int
    """Its first line, decorators included."""
    last: int
    source: str
    """As it is in the file, but every line ends with a line feed, and the last one with none. It is
    somebody else's text: clean it before it is shown."""
    above: str = ""
    """What stands above it in the file, as far as it is near."""


class Use(NamedTuple):
    """A name that a piece of code reads."""

    line: int
    names: tuple[str, ...]
    """`a.b.c` as its names; the first is empty if the value before the dot has no plain name."""


class Imported(NamedTuple):
    """Where a name comes from."""

    module: str
    name: str = ""
    """What of the module; empty for the module itself."""
    level: int = 0
    """How many dots stood before the module."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function, method, class or value that a file defines. Functions within functions belong to them."""

    path: str
    name: str
    kind: Kind
    first: int
    last: int
    node: ast.stmt

    @property
    def owner(self) -> str:
        """The class that it is in; empty at the top."""
        return self.name.rpartition(".")[0]

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class PythonFile:
    """What one file holds."""

    path: str
    lines: list[str]
    is_plain: bool = True
    """Whether it is text whose lines whoever changes it counts in the same way."""
    definitions: list[Definition] = field(default_factory=list)
    """In the order of the file."""
    imports: dict[str, Imported] = field(default_factory=dict)
    """By the name that is used for it here; those inside functions too."""
    stars: list[Imported] = field(default_factory=list)
    statements: list[ast.stmt] = field(default_factory=list)
    """At the top of the file, definitions left out."""
    _named: dict[str, list[Definition]] = field(default_factory=dict)
    _with_methods: set[str] = field(default_factory=set)

    def named(self, name: str) -> list[Definition]:
        """What has this name; a property and its setter share one."""
        return self._named.get(name, [])

    def has_methods(self, owner: str) -> bool:
        return owner in self._with_methods

    def function(self, definition: Definition) -> Function:
        """A definition with its source."""
        return Function(
            path=self.path,
            name=definition.name,
            first=definition.first,
            last=definition.last,
            source="\n".join(self.lines[definition.first - 1 : definition.last]),
            above=self._above(definition.first),
        )

    def _above(self, line: int) -> str:
        kept: list[str] = []
        left = _MOST_ABOVE
        for row in reversed(self.lines[: line - 1]):
            left -= len(row) + 1
            if left < 0:
                break
            kept.append(row)
        return "\n".join(reversed(kept))

    def at(self, line: int) -> Definition | None:
        """The function or method that a line belongs to, else the class; None at the top of a file."""
        around = [
            each for each in self.definitions if each.first <= line <= each.last and each.kind != "value"
        ]
        return min(around, key=lambda each: (each.kind != "function", each.last - each.first), default=None)

    def statement_at(self, line: int) -> Definition | None:
        """The statement at the top of the file that a line belongs to, as something without a name."""
        for node in self.statements:
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                return _definition(self.path, "", "value", node, ())
        return None


def read_python(path: str, text: str) -> PythonFile:
    """What a file holds, as far as it is Python.

    >>> [each.name for each in read_python("a.py", "class A:\\n    def b(self): ...").definitions]
    ['A', 'A.b']
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    read = PythonFile(path, plain.split("\n"), is_plain="\r" not in text.replace("\r\n", ""))
    tree = _parse(plain)
    if tree is None:
        return read
    read.definitions = sorted(_definitions(path, tree), key=lambda each: (each.first, -each.last))
    for each in read.definitions:
        read._named.setdefault(each.name, []).append(each)
        if each.kind == "function":
            read._with_methods.add(each.owner)
    named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    read.statements = [node for node in tree.body if not isinstance(node, named)]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in _short(names):
                    name = alias.name if alias.asname else alias.name.partition(".")[0]
                    read.imports.setdefault(alias.asname or name, Imported(name))
            case ast.ImportFrom(names=names) if len(node.module or "") <= _MOST_NAME:
                for alias in _short(names):
                    found = Imported(node.module or "", alias.name, node.level)
                    if alias.name == "*":
                        read.stars.append(found._replace(name=""))
                    else:
                        read.imports.setdefault(alias.asname or alias.name, found)
    return read


def _short(names: list[ast.alias]) -> list[ast.alias]:
    return [alias for alias in names if len(alias.name) <= _MOST_NAME]


def _parse(text: str) -> ast.Module | None:
    if len(text) > MOST_PARSED or _LONG_CHAIN.search(text):
        return None
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        # An odd escape in somebody's string is theirs to hear about.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def parse_piece(rows: Sequence[str]) -> ast.Module | None:
    """A function or method by itself, with the lines and columns that it has; None if it is no Python.

    Taking away its indentation would not do: a comment, or a text of several lines, may begin left of it.
    """
    if not rows or not rows[0][:1].isspace():
        return _parse("\n".join(rows))
    tree = _parse("\n".join(["if 1:", *rows]))
    return None if tree is None else ast.increment_lineno(tree, -1)


def compiles(tree: ast.Module) -> bool:
    """Whether Python would run it: a `break` outside of a loop parses."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, "<piece>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _definitions(path: str, tree: ast.Module) -> Iterator[Definition]:
    waiting: list[tuple[ast.AST, str]] = [(each, "") for each in tree.body]
    while waiting:
        node, owner = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield _definition(path, owner + node.name, "function", node, node.decorator_list)
            case ast.ClassDef():
                yield _definition(path, owner + node.name, "class", node, node.decorator_list)
                waiting += [(each, f"{owner}{node.name}.") for each in node.body]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                for name in _targets(node):
                    yield _definition(path, owner + name, "value", node, ())
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                waiting += [(each, owner) for each in ast.iter_child_nodes(node)]


def _definition(
    path: str, name: str, kind: Kind, node: ast.stmt, decorators: list[ast.expr] | tuple[()]
) -> Definition:
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return Definition(path, name, kind, first, node.end_lineno or node.lineno, node)


def _targets(node: ast.AST) -> list[str]:
    """The plain names that a statement gives a value to."""
    match node:
        case ast.Assign(targets=targets):
            inner = [part for target in targets for part in ast.walk(target)]
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            inner = [target]
        case ast.For(target=target) | ast.NamedExpr(target=target):
            inner = list(ast.walk(target))
        case ast.With(items=items):
            inner = [part for item in items if item.optional_vars for part in ast.walk(item.optional_vars)]
        case _:
            return []
    return [each.id for each in inner if isinstance(each, ast.Name)]


def uses(definition: Definition) -> list[Use]:
    """The names that a definition reads, in order; of a class, not those that its methods read."""
    found: set[Use] = set()
    waiting: list[ast.AST] = [definition.node]
    line = definition.first
    while waiting:
        node = waiting.pop()
        line = getattr(node, "lineno", line)
        is_method = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not (definition.kind == "class" and is_method):
            waiting += ast.iter_child_nodes(node)
        match node:
            case ast.Name(ctx=ast.Load()):
                found.add(Use(line, (node.id,)))
            case ast.Attribute():
                found.add(Use(line, _chain(node)))
            case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS:
                found.update(Use(line, ("", each)) for each in _BUILTINS[name])
        for each in _OPERATORS.get(type(node), ()):
            found.add(Use(line, ("", each)))
    return sorted(found, key=lambda use: (use.line, not use.names[0], use.names))


def _chain(node: ast.expr) -> tuple[str, ...]:
    names: list[str] = []
    while isinstance(node, ast.Attribute) and len(names) < _MOST_DOTS:
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "")
    return tuple(reversed(names))


def bases(definition: Definition) -> list[tuple[str, ...]]:
    """The names of the classes that a class is made from."""
    node = definition.node
    return [_chain(each) for each in node.bases[:_MOST_BASES]] if isinstance(node, ast.ClassDef) else []


def parameters(definition: Definition) -> list[str]:
    """The names of a function's parameters."""
    node = definition.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def decorators(definition: Definition) -> list[str]:
    """The last names of a definition's decorators: `parametrize` for `@pytest.mark.parametrize(...)`."""
    node = definition.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    called = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return [_chain(each)[-1] for each in called]


def times_run(definition: Definition) -> int | None:
    """How many tests pytest makes of a test function; None if the text does not say."""
    node = definition.node
    times = 1
    for each in node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ():
        match each:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[_, ast.List() | ast.Tuple() as rows]):
                if any(isinstance(row, ast.Starred) for row in rows.elts):
                    return None
                times *= len(rows.elts)
            case ast.Call(func=ast.Attribute(attr="parametrize")):
                return None
    return times


def lines_behind(definition: Definition, line: int) -> set[int]:
    """The lines of the statement at `line`, and of those that gave the names in it a value."""
    statements = [each for each in ast.walk(definition.node) if isinstance(each, ast.stmt)]
    around = [each for each in statements if each.lineno <= line <= (each.end_lineno or each.lineno)]
    if not around:
        return {line}
    here = min(around, key=lambda each: (each.end_lineno or each.lineno) - each.lineno)
    found = set(range(here.lineno, (here.end_lineno or here.lineno) + 1))
    names = {each.id for each in ast.walk(here) if isinstance(each, ast.Name)}
    for each in statements:
        if each is not definition.node and each.lineno < here.lineno and names.intersection(_targets(each)):
            is_block = isinstance(each, ast.For | ast.With)
            found.update(
                range(each.lineno, (each.lineno if is_block else each.end_lineno or each.lineno) + 1)
            )
    return found
