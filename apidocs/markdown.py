"""Write the reference as Markdown that reads well as it is, on a code host, and on a generated site.

Keep true:
1. Headings of a page are distinct whatever their case: an anchor is the heading in lower case, without dots.
2. No bar stands inside backticks in a table: renderers disagree about what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import griffe

from apidocs.source import (
    NO_PAGE,
    Call,
    Expression,
    Name,
    Page,
    Reference,
    Row,
    definition_of,
    mentioned_in,
    quoted,
)

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api"
OVERVIEW = FOLDER.parent / "python-api.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
GENERATED = "<!-- Generated from the docstrings by `make api`; edit those. -->"
ERRORS = "../errors.md"
TITLE = "API: "
INDEXED = 4
"""A class with as many methods begins with a list of them."""
WIDTH = 88
_CODE = re.compile(r"`([^`\n]+)`")
_KIND = griffe.ParameterKind


def pages(reference: Reference) -> dict[Path, str]:
    """Every file of the reference with its text, the overview included."""
    made = {FOLDER / name: text for name, text in render(reference).items()}
    return {**made, OVERVIEW: overview(reference, OVERVIEW.read_text("utf-8"))}


def render(reference: Reference) -> dict[str, str]:
    """The pages by their file names."""
    return {page.file: _Writer(reference, page).page() for page in reference.layout.pages}


def overview(reference: Reference, text: str) -> str:
    """The overview with its list of names made anew.

    Raises:
        ValueError: it does not say where the list stands.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{OVERVIEW.name} has no lines {BEGIN} and {END}")
    parts = [_Writer(reference, page, prefix="api/").group() for page in reference.layout.pages]
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"


def anchor(heading: str) -> str:
    """A heading as links spell it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class _Writer:
    def __init__(self, reference: Reference, page: Page, prefix: str = "") -> None:
        self._reference = reference
        self._page = page
        self._prefix = prefix
        """From where the links are followed to the folder of the pages."""
        self._owner: Name | None = None
        """Whose section is being written: its methods are linked by their bare names."""

    def page(self) -> str:
        parts = [
            f"# {self._page.title}",
            GENERATED,
            f"{self._page.intro} All pages: [Python API](../python-api.md).",
            self._contents(self._reference.on(self._page.file)),
        ]
        for name in self._reference.on(self._page.file):
            parts += self._section(name)
        return "\n\n".join(part for part in parts if part) + "\n"

    def group(self) -> str:
        """The section of the overview about this page: a row for each public name, links to other types."""
        names = self._reference.on(self._page.file)
        title = self._page.title.removeprefix(TITLE)
        parts = [
            f"### {title[0].upper()}{title[1:]}",
            f"{self._page.intro} Page: [{self._page.title}](api/{self._page.file}).",
            self._contents([each for each in names if each.public]),
        ]
        others = ", ".join(self._link(each) for each in names if not each.public)
        return "\n\n".join(filter(None, [*parts, f"Other types: {others}." if others else ""]))

    def _contents(self, names: Iterable[Name]) -> str:
        rows = []
        for name in names:
            self._owner = name
            module = "" if name.public is None or name.module == "placet" else f" of `{name.module}`"
            rows.append(
                f"| {self._link(name)}{module if self._prefix else ''} | {self._cell(name.doc.summary)} |"
            )
        self._owner = None
        return _table(("name", "summary"), rows)

    # Sections

    def _section(self, name: Name) -> list[str]:
        self._owner = name
        parts = [f"## {name.name}", self._import(name), self._prose(name.doc.text)]
        if name.kind == "alias":
            parts += [_fence(f"{name.name} = {_one_per_line(name)}"), self._names_in(name.value)]
        if name.kind == "constant":
            parts.append(_fence(f"{name.name}: {_plain(name.value)}"))
        if name.bases:
            parts.append(f"Inherits from {', '.join(self._link_to(each) for each in name.bases)}.")
        if name.call is not None:
            parts += self._call(name.call, name)
        if name.kind == "data":
            parts.append(self._rows("field", name.fields))
        if name.attributes:
            parts.append(self._attributes(name))
        if name.implements:
            parts.append(self._implemented(name))
        see = self._reference.layout.see.get(name.public or name.path, ())
        if see:
            links = (f"[{title}](../{_from_reference(path)})" for title, path in see)
            parts.append(f"See also: {', '.join(links)}.")
        if len(name.methods) >= INDEXED:
            parts.append(self._index(name))
        for method in name.methods:
            parts += [f"### `{name.name}.{method.name}`", *self._call(method, name)]
        self._owner = None
        return parts

    def _index(self, name: Name) -> str:
        rows = []
        for each in name.methods:
            address = self._address(name, f"{name.name}.{each.name}")
            rows.append(f"| [`{each.name}`]({address}) | {self._cell(each.doc.summary)} |")
        return _table(("method", "summary"), rows)

    def _import(self, name: Name) -> str:
        line = f"`from {name.module} import {name.name}`"
        return line if name.public else f"{line} ({NO_PAGE})"

    def _call(self, call: Call, owner: Name) -> list[str]:
        """A signature and all that is said about it. What is said of a function stands above already."""
        shown = call.overloads or (call,)
        parts = [_fence("\n\n".join(signature(each) for each in shown))]
        if owner.kind != "function":
            parts.append(self._prose(call.doc.text))
        if owner.kind != "data" or not call.is_constructor:
            parts.append(self._rows("parameter", call.parameters))
        parts.append(self._returns(call))
        if call.doc.raises:
            lines = [f"- `{error}`: {self._inline(when)}" for error, when in call.doc.raises]
            parts.append(f"Raises ([errors]({ERRORS})):\n\n" + "\n".join(lines))
        return parts

    def _returns(self, call: Call) -> str:
        """What is returned, where the signature does not say it all."""
        kind, verb = call.returns, "Returns"
        if any("contextmanager" in each for each in call.decorators):
            assert isinstance(kind, griffe.ExprSubscript)
            kind = kind.slice
            verb = f"`{'async with' if call.is_async else 'with'}` gives"
        if not call.doc.returns and not self._has_links(kind):
            return ""
        return f"{verb} {self._type(kind)}. {self._inline(call.doc.returns)}".rstrip()

    def _rows(self, what: str, rows: Iterable[Row]) -> str:
        lines = [
            f"| `{row.name}` | {self._type(row.type)} | {_default_cell(row)} | {self._cell(row.meaning)} |"
            for row in rows
        ]
        return _table((what, "type", "default", "meaning"), lines)

    def _attributes(self, name: Name) -> str:
        lines = [
            f"| `{row.name}` | {self._type(row.type)} | {self._cell(row.meaning)} |"
            for row in name.attributes
        ]
        return _table(("attribute", "type", "meaning"), lines)

    def _implemented(self, name: Name) -> str:
        protocols = " and ".join(self._link_to(each) for each in name.implements)
        members = []
        for path, member in name.implemented:
            protocol = self._reference.names[path]
            is_method = member in {each.name for each in protocol.methods}
            heading = f"{protocol.name}.{member}" if is_method else protocol.name
            members.append(f"[`{member}`]({self._address(protocol, heading)})")
        return f"Implements {protocols}, where these are described: {', '.join(members)}."

    # Text

    def _prose(self, text: str) -> str:
        """A docstring as Markdown: examples and indented lines in fences, lists apart from what leads in."""
        parts = []
        for block in re.split(r"\n\s*\n", text):
            lines = block.splitlines()
            if block.startswith(">>>"):
                parts.append(_fence(block, "pycon"))
            elif lines and all(line.startswith("    ") for line in lines):
                parts.append(_fence("\n".join(line[4:] for line in lines)))
            else:
                # One line for each paragraph and each item of a list.
                joined = re.sub(r"\n(?!\d+\. |- )\s*", " ", block)
                apart = re.sub(r"^(?!\d+\. |- )(.+)\n", r"\1\n\n", joined, flags=re.MULTILINE)
                parts.append(self._inline(apart))
        return "\n\n".join(parts)

    def _inline(self, text: str) -> str:
        """Text whose backticked names are links, where they are described."""
        return _CODE.sub(lambda found: self._code(found[1]), text)

    def _code(self, code: str) -> str:
        owner = self._owner
        if owner is not None:
            if code in {method.name for method in owner.methods}:
                return f"[`{code}`]({self._address(owner, f'{owner.name}.{code}')})"
            if code == owner.name:
                return f"`{code}`"
        first, _, member = code.partition(".")
        near = [each for each in self._reference.on(self._page.file) if each.name == first]
        found = near or [each for each in self._reference.names.values() if each.name == first]
        # Of several with the same name, the one that is imported from the package itself.
        found = [each for each in found if each.module == self._reference.layout.package] or found
        # In small letters a name may be that of a parameter.
        if len(found) != 1 or not (first[:1].isupper() or "_" in first):
            return f"`{code}`"
        target = found[0]
        if member in {each.name for each in target.methods}:
            return f"[`{code}`]({self._address(target, code)})"
        if member and member not in {each.name for each in (*target.fields, *target.attributes)}:
            return f"`{code}`"
        return f"[`{code}`]({self._address(target, first)})"

    def _cell(self, text: str) -> str:
        """Text on one line, for a table."""
        line = " ".join(text.split())
        for code in _CODE.findall(line):
            if "|" in code:
                raise ValueError(f"a bar in backticks cannot stand in a table: `{code}`")
        return self._inline(line.replace("|", "\\|"))

    # Links

    def _link(self, name: Name) -> str:
        return f"[`{name.name}`]({self._address(name, name.name)})"

    def _link_to(self, path: str) -> str:
        return self._link(self._reference.names[path])

    def _address(self, name: Name, heading: str) -> str:
        here = name.page == self._page.file and not self._prefix
        return f"{'' if here else self._prefix + name.page}#{anchor(heading)}"

    def _type(self, expression: Expression) -> str:
        """A type with links, in one piece of code that may hold bars."""
        if expression is None:
            return ""
        if not self._has_links(expression):
            text = quoted(str(expression))
            if "|" not in text:
                return f"`{text}`"
        return f"<code>{self._linked(expression)}</code>"

    def _has_links(self, expression: Expression) -> bool:
        return any(path in self._reference.names for path in mentioned_in(expression))

    def _linked(self, expression: Expression) -> str:
        if not isinstance(expression, griffe.Expr):
            return _escaped(quoted(str(expression)))
        made = ""
        for part in expression.iterate(flat=True):
            if isinstance(part, griffe.ExprName):
                name = self._reference.names.get(definition_of(part))
                made += f"[{part.name}]({self._address(name, name.name)})" if name else _escaped(part.name)
            else:
                made += _escaped(quoted(str(part)))
        return made.strip('"')

    def _names_in(self, expression: Expression) -> str:
        """Links to the described parts of a type."""
        found = dict.fromkeys(path for path in mentioned_in(expression) if path in self._reference.names)
        return f"Parts: {', '.join(self._link_to(each) for each in found)}." if found else ""


def _from_reference(path: str) -> str:
    """A path in the folder `docs`, as it is followed from the folder `docs/reference`."""
    inside = path.removeprefix("reference/")
    return inside if inside != path else f"../{path}"


def signature(call: Call) -> str:
    """A signature as it is written in Python: on one line, or one parameter per line."""
    head = call.name if call.is_constructor else f"{'async ' if call.is_async else ''}def {call.name}"
    tail = "" if call.returns is None else f" -> {_plain(call.returns)}"
    parameters = list(_parameters(call.parameters))
    decorators = "".join(f"@{each}\n" for each in call.decorators)
    line = f"{head}({', '.join(parameters)}){tail}"
    if len(line) <= WIDTH:
        return decorators + line
    inner = "".join(f"    {each},\n" for each in parameters)
    return f"{decorators}{head}(\n{inner}){tail}"


def _parameters(rows: Iterable[Row]) -> Iterable[str]:
    is_positional_only = False
    has_star = False
    for row in rows:
        if is_positional_only and row.kind is not _KIND.positional_only:
            yield "/"
        is_positional_only = row.kind is _KIND.positional_only
        if row.kind is _KIND.keyword_only and not has_star:
            yield "*"
        has_star = has_star or row.kind in (_KIND.var_positional, _KIND.keyword_only)
        kind = f": {_plain(row.type)}" if row.type is not None else ""
        default = "" if row.default is None else f" = {row.default}" if kind else f"={row.default}"
        yield f"{row.name}{kind}{default}"
    if is_positional_only:
        yield "/"


def _plain(expression: Expression) -> str:
    text = quoted(str(expression))
    return text[1:-1] if re.fullmatch(r'"[^"]*"', text) else text


def _one_per_line(name: Name) -> str:
    text = _plain(name.value)
    if len(text) + len(name.name) + 3 <= WIDTH:
        return text
    if text.startswith("Literal["):
        return "Literal[\n" + "".join(f"    {each},\n" for each in text[8:-1].split(", ")) + "]"
    if text.count("[") == 0 and " | " in text:
        return "(\n    " + "\n    | ".join(text.split(" | ")) + "\n)"
    return text


def _default_cell(row: Row) -> str:
    if row.default is None:
        return "" if row.name.startswith("*") else "required"
    if "|" in row.default:
        return f"<code>{_escaped(row.default)}</code>"
    return f"`{row.default}`"


def _escaped(text: str) -> str:
    for character in ("\\", "|", "*"):
        text = text.replace(character, f"\\{character}")
    return text.replace("<", "&lt;")


def _fence(text: str, language: str = "py") -> str:
    return f"```{language}\n{text}\n```"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    if not rows:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *rows])
