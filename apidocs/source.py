"""Read the code that the reference describes: names, signatures, fields and their meanings.

Keep true:
1. Nothing is imported from the package: what is described is what is written.
2. A meaning has one source: `Args:` of a docstring, or the string under a field. A docstring that says "Takes
   the arguments of `NAME`." reuses the meanings of the parameters of NAME.
3. A public name, parameter or field without a meaning is a gap, and every gap is reported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import griffe

Expression = griffe.Expr | str | None

NO_PAGE = "no public name yet"
_KIND = griffe.ParameterKind
_STARS = {_KIND.var_positional: "*", _KIND.var_keyword: "**"}
_HANDED_ON = re.compile(r"Takes the arguments of ((?:`[\w.]+`(?:, | and )?)+)\.")
_INFERRED = {"True": "bool", "False": "bool"}


class Page(NamedTuple):
    """One page: its file in the folder of the reference, its title, what it is about, and its names."""

    file: str
    title: str
    intro: str
    names: tuple[str, ...]
    """Where each is defined, or its public name."""


class Layout(NamedTuple):
    """What is described, and where."""

    folder: Path
    """Holds the package."""
    package: str
    public: tuple[str, ...]
    """The modules whose `__all__` is public."""
    pages: tuple[Page, ...]
    implements: Mapping[str, tuple[str, ...]] = {}
    """Classes whose methods are described at protocols that they implement without naming them as bases."""
    internal: Mapping[str, tuple[str, ...]] = {}
    """Methods and attributes by class that only other parts of the package use."""
    mentioned: Mapping[str, str] = {}
    """Types that signatures mention and no page describes, each with what it is."""
    see: Mapping[str, tuple[tuple[str, str], ...]] = {}
    """Pages to read on, by name: (title, path from the folder `docs`)."""
    last: Mapping[str, tuple[str, ...]] = {}
    """Methods that few need, by class: they stand at the end."""


@dataclass(frozen=True)
class Row:
    """A parameter, a field or an attribute."""

    name: str
    type: Expression
    default: str | None
    """As it is written; None if it is required."""
    meaning: str
    kind: griffe.ParameterKind = _KIND.positional_or_keyword
    has_default: bool = True
    """Attributes have no default to speak of."""


@dataclass(frozen=True)
class Doc:
    """A docstring, taken apart."""

    text: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.text.split("\n\n")[0]


@dataclass(frozen=True)
class Call:
    """A function, a method or a constructor."""

    name: str
    parameters: tuple[Row, ...]
    returns: Expression
    doc: Doc
    is_async: bool = False
    decorators: tuple[str, ...] = ()
    is_constructor: bool = False
    overloads: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Name:
    """One heading: a class, a function, or the name of a type."""

    path: str
    """Where it is defined."""
    public: str | None
    """Where it is imported from, if it is in a public list."""
    page: str
    doc: Doc
    kind: str
    """`class`, `protocol`, `data` (its constructor takes its fields), `function`, `alias` (of a type) or
    `constant`."""
    call: Call | None = None
    """The function, or the constructor."""
    value: Expression = None
    """Of an alias: the type that it stands for; of a constant: its type."""
    fields: tuple[Row, ...] = ()
    attributes: tuple[Row, ...] = ()
    methods: tuple[Call, ...] = ()
    bases: tuple[str, ...] = ()
    """Described classes that it inherits from."""
    implements: tuple[str, ...] = ()
    """Described protocols whose members it has."""
    implemented: tuple[tuple[str, str], ...] = ()
    """Each such member: where its protocol is defined, and its name."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]

    @property
    def module(self) -> str:
        """Where to import it from."""
        return (self.public or self.path).rpartition(".")[0]


@dataclass
class Reference:
    """Everything that the pages say."""

    layout: Layout
    names: dict[str, Name] = field(default_factory=dict)
    """By where they are defined."""
    gaps: list[str] = field(default_factory=list)
    """What lacks a description, a meaning or a page."""
    public: dict[str, str] = field(default_factory=dict)
    """Every public name, such as `placet.Runtime`, with where it is defined."""

    def on(self, page: str) -> list[Name]:
        """The names of one page, in its order."""
        return [each for each in self.names.values() if each.page == page]


def read(layout: Layout) -> Reference:
    """Read the source, and describe every name of the layout."""
    return _Reader(layout).read()


class _Reader:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._root = griffe.load(
            layout.package, search_paths=[layout.folder], docstring_parser="google", resolve_aliases=True
        )
        self._reference = Reference(layout)
        self._pages: dict[str, str] = {}
        """The page of each name, by where it is defined."""

    def read(self) -> Reference:
        public = self._reference.public
        for module in self._layout.public:
            found = self._object(module)
            for name in found.exports or ():
                # A submodule of the same name hides what the package imports under it.
                target = found.imports.get(str(name), f"{module}.{name}")
                public[f"{module}.{name}"] = self._object(target).path
        by_definition: dict[str, str] = {}
        for name, path in public.items():
            by_definition.setdefault(path, name)
        for page in self._layout.pages:
            for name in page.names:
                path = public.get(name) or self._object(name).path
                self._pages[path] = page.file
        for path, file in self._pages.items():
            self._reference.names[path] = self._name(path, by_definition.get(path), file)
        self._report_missing()
        return self._reference

    # Names

    def _object(self, path: str) -> Any:
        found: Any = self._root.modules_collection[path]
        return found.final_target if found.is_alias else found

    def _name(self, path: str, public: str | None, page: str) -> Name:
        found = self._object(path)
        if found.is_class:
            return self._class(found, public, page)
        doc = _doc(found)
        if not doc.text:
            self._gap(path, "no description")
        if found.is_function:
            call = self._call(found)
            return Name(path, public, page, call.doc, "function", call)
        is_constant = found.annotation is not None and "TypeAlias" not in str(found.annotation)
        if is_constant:
            return Name(path, public, page, doc, "constant", value=found.annotation)
        return Name(path, public, page, doc, "alias", value=found.value)

    def _class(self, found: Any, public: str | None, page: str) -> Name:
        doc = _doc(found)
        if not doc.text:
            self._gap(found.path, "no description")
        line = [found, *self._bases(found)]
        kind = _kind(line)
        hidden = self._listed(self._layout.internal, found) or ()
        call, fields = self._constructor(line, kind) if "__init__" not in hidden else (None, ())
        # Members of a described base are described there; those of a private base belong to this class.
        own = [each for each in line if each is found or each.path not in self._pages]
        inherited = {name for each in line if each not in own for name in each.members}
        protocols = self._protocols(found)
        implemented = self._implemented(own, protocols)
        members: dict[str, Any] = {}
        for each in own:
            for name, member in each.members.items():
                is_described = name in hidden or name in implemented or name in inherited
                if not (is_described or member.is_alias or _is_of_class(member)):
                    members.setdefault(name, member)
        given = {row.name: row for row in call.parameters} if call else _types_given(line)
        last = self._listed(self._layout.last, found) or ()
        methods = [self._call(member) for name, member in members.items() if _is_method(name, member)]
        return Name(
            path=found.path,
            public=public,
            page=page,
            doc=doc,
            kind=kind,
            call=call,
            # Its own fields first: a reader looks for what distinguishes it from its base.
            fields=tuple(sorted(fields, key=lambda row: row.name not in found.members)),
            attributes=tuple(
                self._attribute(member, given)
                for name, member in members.items()
                if _is_attribute(name, member, kind)
            ),
            methods=tuple(sorted(methods, key=lambda method: method.name in last)),
            bases=tuple(each.path for each in line[1:] if each.path in self._pages),
            implements=tuple(each.path for each in protocols),
            implemented=tuple((path, name) for name, path in implemented.items()),
        )

    def _constructor(self, line: list[Any], kind: str) -> tuple[Call | None, tuple[Row, ...]]:
        """How an object is made; and its fields, if they are the parameters."""
        if kind == "data":
            fields = self._fields(line)
            rows = _in_signature(fields, own=line[0].members)
            return Call(line[0].name, rows, None, Doc(), is_constructor=True), fields
        made = next((each.members["__init__"] for each in line if "__init__" in each.members), None)
        if kind == "protocol" or made is None:
            return None, ()
        return self._call(made, name=line[0].name), ()

    def _implemented(self, own: list[Any], protocols: list[Any]) -> dict[str, str]:
        """The members that protocols describe: each name, with where its protocol is defined."""
        has = {name for each in own for name in each.members if not name.startswith("_")}
        found: dict[str, str] = {}
        for protocol in protocols:
            for each in (protocol, *self._bases(protocol)):
                found |= {name: each.path for name in each.members if name in has}
        return found

    def _bases(self, found: Any) -> list[Any]:
        """The classes of the package that it inherits from, nearest first."""
        line: list[Any] = []
        for base in found.bases:
            path = base if isinstance(base, str) else base.canonical_path
            if path.startswith(f"{self._layout.package}."):
                above = self._object(path)
                line += [above, *self._bases(above)]
        return line

    def _protocols(self, found: Any) -> list[Any]:
        names = self._listed(self._layout.implements, found) or ()
        return [self._object(self._reference.public.get(name, name)) for name in names]

    def _listed(self, names: Mapping[str, Any], found: Any) -> Any:
        """What a part of the layout says of a class, which it may call by its public name."""
        for name, value in names.items():
            if self._reference.public.get(name, name) == found.path:
                return value
        return None

    # Rows

    def _fields(self, line: list[Any]) -> tuple[Row, ...]:
        rows: dict[str, Row] = {}
        for each in reversed(line):
            is_keyword = _is_keyword_only(each)
            for name, member in each.members.items():
                if not member.is_attribute or "property" in member.labels or member.annotation is None:
                    continue
                if name.startswith("_") or _is_of_class(member):
                    continue
                meaning = member.docstring.value if member.docstring else ""
                if not meaning:
                    self._gap(f"{line[0].path}.{name}", "no meaning")
                rows[name] = Row(
                    name,
                    simplified(member.annotation),
                    _default(member.value),
                    meaning,
                    _KIND.keyword_only if is_keyword else _KIND.positional_or_keyword,
                )
        return tuple(rows.values())

    def _attribute(self, member: Any, given: Mapping[str, Row]) -> Row:
        """An attribute; `given` are the parameters of the constructor, by name."""
        doc = _doc(member)
        row = given.get(member.name)
        kind = member.annotation
        if kind is None and row is not None and str(member.value) == member.name:
            kind = row.type
        if kind is None:
            value = str(member.value)
            # Of an enumeration: what is written is what is stored.
            kind = value if value[:1] in ("'", '"') else _INFERRED.get(value)
        if kind is None:
            self._gap(member.path, "no type")
        meaning = doc.text or (row.meaning if row is not None else "")
        if not meaning:
            self._gap(member.path, "no meaning")
        for error, when in doc.raises:
            meaning += f" Raises `{error}`: {when}"
        return Row(member.name, kind, None, meaning, has_default=False)

    def _call(self, function: Any, *, name: str | None = None) -> Call:
        """A function as it is called; `name` is that of the class of a constructor."""
        doc = _doc(function)
        if not doc.text and name is None:
            self._gap(function.path, "no description")
        args = dict(doc.args)
        handed_on = self._handed_on(function)
        known = {each.name for each in function.parameters}
        for unknown in args.keys() - known:
            self._gap(f"{function.path}({unknown})", "no such parameter")
        rows = []
        for each in function.parameters:
            if each.name in ("self", "cls") and function.parent.is_class:
                continue
            meaning = args.get(each.name) or handed_on.get(each.name, "")
            if not meaning:
                self._gap(f"{function.path}({each.name})", "no meaning")
            is_starred = each.kind in _STARS
            default = None if each.default is None or is_starred else _default(each.default)
            rows.append(
                Row(
                    f"{_STARS.get(each.kind, '')}{each.name}",
                    simplified(each.annotation),
                    default,
                    meaning,
                    each.kind,
                )
            )
        return Call(
            name or function.name,
            tuple(rows),
            function.returns if name is None else None,
            doc,
            is_async="async" in function.labels,
            decorators=tuple(
                str(each.value).rpartition(".")[2]
                for each in function.decorators
                if str(each.value) != "overload"
            ),
            is_constructor=name is not None,
            overloads=tuple(self._overload(each) for each in function.overloads or ()),
        )

    def _overload(self, function: Any) -> Call:
        rows = tuple(
            Row(each.name, each.annotation, _default(each.default), "", each.kind)
            for each in function.parameters
            if not (each.name in ("self", "cls") and function.parent.is_class)
        )
        return Call(function.name, rows, function.returns, Doc(), is_async="async" in function.labels)

    def _handed_on(self, function: Any) -> dict[str, str]:
        """Meanings of parameters that are those of other functions."""
        found: dict[str, str] = {}
        text = function.docstring.value if function.docstring is not None else ""
        for names in _HANDED_ON.findall(" ".join(text.split())):
            for name in re.findall(r"`([\w.]+)`", names):
                for row in self._call(self._other(function, name)).parameters:
                    found.setdefault(row.name.lstrip("*"), row.meaning)
        return found

    def _other(self, function: Any, name: str) -> Any:
        """The function that a docstring names: a method of its class, or anything described."""
        if function.parent.is_class:
            for each in (function.parent, *self._bases(function.parent)):
                if name in each.members:
                    return each.members[name]
        owner, _, method = name.partition(".")
        for path in self._pages:
            if path.rpartition(".")[2] == owner:
                target = self._object(path)
                return target.members[method or "__init__"] if target.is_class else target
        raise ValueError(f"{function.path} takes the arguments of '{name}', which is not described")

    # Gaps

    def _gap(self, where: str, what: str) -> None:
        gap = f"{where}: {what}"
        if gap not in self._reference.gaps:
            self._reference.gaps.append(gap)

    def _report_missing(self) -> None:
        for name, path in self._reference.public.items():
            if path not in self._pages:
                self._gap(name, "on no page")
        mentions = self._mentions()
        for path, where in mentions.items():
            if path not in self._pages and path not in self._layout.mentioned:
                self._gap(path, f"on no page, though {where} mentions it")
        for path in self._layout.mentioned:
            if path in self._pages or path not in mentions:
                self._gap(path, "listed as mentioned, and is not, or is described")

    def _mentions(self) -> dict[str, str]:
        """The types of the package that signatures mention, each with a name that does."""
        found: dict[str, str] = {}
        for each in self._reference.names.values():
            for expression in _expressions(each):
                for path in mentioned_in(expression):
                    if not path.startswith(f"{self._layout.package}."):
                        continue
                    try:
                        target = self._object(path)
                    except KeyError:
                        continue  # A part of a variable of types, such as `P.args`.
                    if target.is_class or (target.is_attribute and not _is_variable(target)):
                        found.setdefault(target.path, each.path)
        return found


def simplified(expression: Expression) -> Expression:
    """A type without `Annotated`: the meaning says which values are allowed."""
    if isinstance(expression, griffe.ExprBinOp):
        left, right = simplified(expression.left), simplified(expression.right)
        assert left is not None
        assert right is not None
        return replace(expression, left=left, right=right)
    if isinstance(expression, griffe.ExprSubscript) and str(expression.left) == "Annotated":
        assert isinstance(expression.slice, griffe.ExprTuple)
        return simplified(expression.slice.elements[0])
    return expression


def mentioned_in(expression: Expression) -> Iterator[str]:
    """Where the names of a type are defined."""
    if isinstance(expression, griffe.Expr):
        for part in expression.iterate(flat=True):
            if isinstance(part, griffe.ExprName):
                yield definition_of(part)


def definition_of(name: griffe.ExprName) -> str:
    """Where a name is defined, as far as that can be seen."""
    path = name.canonical_path
    try:
        found: Any = name.parent.modules_collection[path]  # type: ignore[union-attr]
        return str(found.final_target.path if found.is_alias else found.path)
    except (KeyError, AttributeError, griffe.AliasResolutionError):
        return path


def _expressions(name: Name) -> Iterator[Expression]:
    yield name.value
    calls = [*name.methods, *([name.call] if name.call else [])]
    for call in calls:
        yield call.returns
        yield from (row.type for row in call.parameters)
    yield from (row.type for row in (*name.fields, *name.attributes))


def _is_variable(target: Any) -> bool:
    """Whether it is a variable of types, which means nothing outside its signature."""
    return str(target.value).startswith(("TypeVar(", "ParamSpec("))


def _doc(found: Any) -> Doc:
    if found.docstring is None:
        return Doc()
    texts: list[str] = []
    args: dict[str, str] = {}
    raises: list[tuple[str, str]] = []
    returns = ""
    for section in found.docstring.parse("google", warnings=False):
        match section.kind:
            case griffe.DocstringSectionKind.text:
                texts.append(section.value)
            case griffe.DocstringSectionKind.parameters | griffe.DocstringSectionKind.other_parameters:
                args |= {each.name: _one_line(each.description) for each in section.value}
            case griffe.DocstringSectionKind.returns | griffe.DocstringSectionKind.yields:
                returns = _one_line(" ".join(each.description for each in section.value))
            case griffe.DocstringSectionKind.raises:
                raises += [(str(each.annotation), _one_line(each.description)) for each in section.value]
            case griffe.DocstringSectionKind.admonition:
                texts.append(f"{section.title}: {section.value.description}")
            case other:
                raise ValueError(f"{found.path}: a docstring with a section of '{other.value}'")
    # For readers of the source; the page has the whole table.
    text = _HANDED_ON.sub("", "\n\n".join(texts)).strip()
    return Doc(text, args, returns, tuple(raises))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _kind(line: Sequence[Any]) -> str:
    # A class that inherits a protocol is none itself.
    if "typing.Protocol" in {_base_path(base) for base in line[0].bases}:
        return "protocol"
    bases = {_base_path(base) for each in line for base in each.bases}
    decorated = any("dataclass" in str(each.value) for each in line[0].decorators)
    return "data" if decorated or bases & {"msgspec.Struct", "typing.NamedTuple"} else "class"


def _base_path(base: griffe.Expr | str) -> str:
    if isinstance(base, griffe.ExprSubscript):
        base = base.left
    return base if isinstance(base, str) else base.canonical_path


def _is_keyword_only(found: Any) -> bool:
    keywords = {name: str(value) for name, value in (found.keywords or {}).items()}
    return keywords.get("kw_only") == "True" or any(
        "dataclass" in str(each.value) and "kw_only=True" in str(each.value) for each in found.decorators
    )


def _is_of_class(member: Any) -> bool:
    """Whether it is a variable of the class that nobody wrote anything about."""
    return member.is_attribute and member.labels == {"class-attribute"} and not member.docstring


def _in_signature(rows: Iterable[Row], *, own: Container[str]) -> tuple[Row, ...]:
    """Positional fields in their order; then keyword-only ones, those of the class before inherited ones."""
    return tuple(sorted(rows, key=lambda row: (row.kind is _KIND.keyword_only) * (1 + (row.name not in own))))


def _types_given(line: Iterable[Any]) -> dict[str, Row]:
    """The types of the parameters of a constructor that is not described."""
    made = next((each.members["__init__"] for each in line if "__init__" in each.members), None)
    return {each.name: Row(each.name, each.annotation, None, "") for each in made.parameters} if made else {}


def _is_method(name: str, member: Any) -> bool:
    """Whether it is a method to describe; of those with special names, one that has a docstring."""
    if not member.is_function or name in ("__init__", "__post_init__", "__repr__"):
        return False
    is_special = name.startswith("__") and name.endswith("__")
    return member.docstring is not None if is_special else not name.startswith("_")


def _is_attribute(name: str, member: Any, kind: str) -> bool:
    """Whether it is an attribute to describe; fields of data are described as such."""
    if not member.is_attribute or name.startswith("_"):
        return False
    return kind != "data" or "property" in member.labels


def _default(value: Expression) -> str | None:
    """A default as a reader would write it: a short constant by its value, a factory as a call."""
    if value is None:
        return None
    if isinstance(value, griffe.ExprCall) and str(value.function) in ("msgspec.field", "field"):
        given = {each.name: each.value for each in value.arguments if isinstance(each, griffe.ExprKeyword)}
        if "default_factory" in given:
            made = str(given["default_factory"])
            return "..." if made.startswith("lambda") else f"{made}()"
        return _default(given["default"]) if "default" in given else None
    if isinstance(value, griffe.ExprName):
        constant = _constant(value)
        if constant is not None:
            return constant
    return quoted(str(value))


def _constant(name: griffe.ExprName) -> str | None:
    """The value of a constant, where it is a number or a few words."""
    try:
        found: Any = name.parent.modules_collection[definition_of(name)]  # type: ignore[union-attr]
        value = ast.literal_eval(str(found.value))
    except (KeyError, ValueError, SyntaxError, AttributeError):
        return None
    if isinstance(value, int | float):
        return str(found.value)
    return quoted(repr(value)) if isinstance(value, str) and len(value) <= 40 else None


def quoted(text: str) -> str:
    """With double quotes, as the source has them."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', text)
