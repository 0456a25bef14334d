"""A skill as a folder: `SKILL.md` with front matter, as agentskills.io describes it, and files beside it.

Keep true:
1. A folder is valid here if the public validator accepts it, but that a fence ends the front matter only at
   the beginning of a line; every problem is reported, with file,
   line and field.
2. Reading runs nothing, follows no link, and changes no byte: what is written is what was read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from unicodedata import normalize

import msgspec
import yaml

from placet.errors import SkillInvalid, SkillProblem
from placet.ir.to_dict import ToDict
from placet.safe_text import clean

FILE = "SKILL.md"
_LOWER = "skill.md"
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MOST_NAME, MOST_DESCRIPTION, MOST_COMPATIBILITY = 64, 1_024, 500
MOST_FILES, MOST_BYTES, _MOST_DEPTH = 200, 4 * 1024 * 1024, 8
_MOST_ENTRIES = 1_000
"""Files and folders of one skill that are looked at."""
_MOST_FRONT, _MOST_NESTED = 64 * 1024, 20
"""Characters of the front matter, and how deep it may be nested: nothing of it is deeper than two."""
_FENCE = "---"
_FIRST = 1
"""Line of the file on which the front matter begins: behind the fence."""
_EXECUTABLE, _PLAIN = 0o755, 0o644


_OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
_CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
_FIELD = re.compile(r"([^\s#:][^:]*?)\s*:(?:\s|$)")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that no text has: escapes can write them, and nothing can store them."""


class SkillDocument(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """The content of a `SKILL.md`."""

    name: str
    """Name of the skill, the same as that of its folder."""
    description: str
    """What the skill does, and when to use it."""
    license: str | None = None
    """Its licence."""
    compatibility: str | None = None
    """What it needs."""
    allowed_tools: str | None = None
    """Tools that it expects, as they are written there. Placet grants nothing by it."""
    metadata: dict[str, str] = {}
    """Other properties."""
    body: str
    """The instructions."""


class _Front(NamedTuple):
    text: str
    body: str


def read_document(files: Mapping[str, bytes], folder: str) -> SkillDocument:
    """The document of a skill. `folder` is the path of its folder, whose name must be that of the skill.

    Raises:
        SkillInvalid: it is no skill; names every problem with its file, line and field.
    """
    problems: list[SkillProblem] = list(_path_problems(files, folder))
    if problems:
        raise SkillInvalid(problems)
    name = next((each for each in (FILE, _LOWER) if each in files), None)
    if name is None:
        raise SkillInvalid([SkillProblem(folder, 0, "", f"there is no {FILE}")])
    path = f"{folder}/{name}"
    found = _front(files[name], path)
    fields, lines = _fields(found.text, path)
    problems += _problems(fields, lines, path, folder)
    if problems:
        raise SkillInvalid(sorted(problems, key=lambda each: each.line))
    metadata = fields.get("metadata")
    return SkillDocument(
        name=normalize("NFKC", fields["name"].strip()),
        description=fields["description"].strip(),
        license=_text(fields.get("license")),
        compatibility=_text(fields.get("compatibility")),
        allowed_tools=_text(fields.get("allowed-tools")),
        metadata={key: value for key, value in metadata.items() if isinstance(value, str)}
        if isinstance(metadata, dict)
        else {},
        body=found.body.strip(),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _front(data: bytes, path: str) -> _Front:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        at = data.count(b"\n", 0, error.start) + 1
        raise SkillInvalid([SkillProblem(path, at, "", "it is not UTF-8 text")]) from None
    if not text.startswith(_FENCE):
        problem = f"it does not begin with front matter between two lines of {_FENCE}"
        raise SkillInvalid([SkillProblem(path, 1, "", problem)])
    first, *lines = text.removeprefix(_FENCE).split("\n")
    for number, line in enumerate(lines, start=1):
        if line.startswith(_FENCE):
            front = "\n".join([first, *lines[: number - 1]])
            if len(front) > _MOST_FRONT:
                problem = f"its front matter has more than {_MOST_FRONT // 1024} KiB"
                raise SkillInvalid([SkillProblem(path, number + 1, "", problem)])
            return _Front(front, "\n".join([line.removeprefix(_FENCE), *lines[number:]]))
    problem = f"its front matter does not end: there is no second line {_FENCE}"
    raise SkillInvalid([SkillProblem(path, len(lines) + 1, "", problem)])


def _fields(text: str, path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of the front matter, and the line of each. All scalars are texts, as they are written."""
    nested = 0
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            nested += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if nested > _MOST_NESTED:
                problem = f"it is nested more than {_MOST_NESTED} deep"
                raise SkillInvalid([_problem_at(token.start_mark, problem, text, path)])
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken | yaml.DirectiveToken):
                problem = "anchors, aliases, tags and directives are not allowed"
                raise SkillInvalid([_problem_at(token.start_mark, problem, text, path)])
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = clean(getattr(error, "problem", None) or "it is not YAML", 200)
        problem = f"the YAML cannot be read: {problem}"
        raise SkillInvalid([_problem_at(mark, problem, text, path)]) from None
    if not isinstance(root, yaml.MappingNode):
        raise SkillInvalid([SkillProblem(path, _FIRST, "", "the front matter is no list of fields")])
    problems: list[SkillProblem] = []
    fields: dict[str, Any] = _plain(root, path, "", problems)
    if problems:
        raise SkillInvalid(problems)
    return fields, {key.value: key.start_mark.line + _FIRST for key, _ in root.value}


def _problem_at(mark: yaml.Mark | None, problem: str, text: str, path: str) -> SkillProblem:
    """A problem of the YAML as such, in the field that is begun before it."""
    line = mark.line if mark is not None else 0
    begun = [found[1] for each in text.split("\n")[: line + 1] if (found := _FIELD.match(each))]
    return SkillProblem(path, line + _FIRST, clean(begun[-1], 80) if begun else "", problem)


def _plain(node: yaml.Node, path: str, field: str, problems: list[SkillProblem]) -> Any:
    line = node.start_mark.line + _FIRST
    if isinstance(node, yaml.ScalarNode):
        if _NO_TEXT.search(node.value):
            problem = "it holds a null character or half of a surrogate pair"
            problems.append(SkillProblem(path, line, clean(field, 80), problem))
        return node.value
    assert isinstance(node, yaml.CollectionNode)
    if node.flow_style:
        problems.append(SkillProblem(path, line, field, "write it in lines of its own, not in brackets"))
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, path, field, problems) for each in node.value]
    made: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            problems.append(SkillProblem(path, line, field, "a key is no text"))
            continue
        _plain(key, path, field, problems)
        name = f"{field}.{key.value}" if field else key.value
        if key.value in made:
            problems.append(SkillProblem(path, key.start_mark.line + _FIRST, name, "it is given twice"))
        made[key.value] = _plain(value, path, name, problems)
    return made


def _problems(
    fields: Mapping[str, Any], lines: Mapping[str, int], path: str, folder: str
) -> Iterator[SkillProblem]:
    for field in fields:
        if field not in FIELDS:
            problem = f"there is no such field; known are {', '.join(FIELDS)}"
            yield SkillProblem(path, lines[field], clean(field, 80), problem)
    for field, most in (
        ("name", MOST_NAME),
        ("description", MOST_DESCRIPTION),
        ("compatibility", MOST_COMPATIBILITY),
    ):
        if field not in fields:
            if field != "compatibility":
                yield SkillProblem(path, 1, field, "it is missing")
            continue
        value, line = fields[field], lines[field]
        if not isinstance(value, str) or (field != "compatibility" and not value.strip()):
            yield SkillProblem(path, line, field, "it must be a text that is not empty")
            continue
        length = len(normalize("NFKC", value.strip())) if field == "name" else len(value)
        if length > most:
            yield SkillProblem(path, line, field, f"it has {length:,} characters; {most:,} is the most")
        if field == "name":
            for problem in _name_problems(value, folder):
                yield SkillProblem(path, line, field, problem)


def _name_problems(value: str, folder: str) -> Iterator[str]:
    name = normalize("NFKC", value.strip())
    if name != name.lower():
        yield "it must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield "hyphens stand alone, and neither first nor last"
    if not all(each.isalnum() or each == "-" for each in name):
        yield "only letters, digits and hyphens are allowed"
    own = PurePosixPath(folder).name
    if normalize("NFKC", own) != name:
        yield f"it must be the name of the folder, '{clean(own, 80)}'"


def _path_problems(files: Mapping[str, bytes], folder: str) -> Iterator[SkillProblem]:
    """Paths that lead out of the folder, or that cannot be stored."""
    for path in files:
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts):
            yield SkillProblem(clean(f"{folder}/{path}"), 0, "", "its path does not stay in the folder")
        elif _NO_TEXT.search(path):
            yield SkillProblem(clean(f"{folder}/{path}"), 0, "", "its name is no UTF-8 text")


# Folders


def read_folder(folder: Path) -> dict[str, bytes]:
    """The files of a skill by their paths in the folder, sorted.

    Raises:
        SkillInvalid: it is no folder, holds a link or something else that is no file, or too much.
    """
    found: dict[str, bytes] = {}
    left, entries = MOST_BYTES, 0

    def refuse(path: str, problem: str) -> SkillInvalid:
        return SkillInvalid([SkillProblem(clean(path), 0, "", problem)])

    def into(path: str, descriptor: int, depth: int) -> None:
        nonlocal left, entries
        with os.scandir(descriptor) as listing:
            names = sorted(each.name for each in islice(listing, _MOST_ENTRIES + 1 - entries))
        entries += len(names)
        if entries > _MOST_ENTRIES:
            raise refuse(str(folder), f"it holds more than {_MOST_ENTRIES:,} files and folders")
        for name in names:
            inside = f"{path}/{name}" if path else name
            where = f"{folder}/{inside}"
            kind = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
                raise refuse(where, "it is a link, or something else that is no file")
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            opened = os.open(name, flags, dir_fd=descriptor)
            if stat.S_ISDIR(kind):
                try:
                    if depth >= _MOST_DEPTH:
                        raise refuse(where, f"folders are more than {_MOST_DEPTH} deep")
                    into(inside, opened, depth + 1)
                finally:
                    os.close(opened)
                continue
            with open(opened, "rb") as file:
                data = file.read(left + 1)
            left -= len(data)
            found[inside] = data
            if left < 0 or len(found) > MOST_FILES:
                most = f"{MOST_FILES} files and {MOST_BYTES // 1024**2} MiB"
                raise refuse(str(folder), f"it holds more than {most}")

    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise refuse(str(folder), f"it is no folder that can be read: {error.strerror}") from None
    try:
        into("", root, 0)
    except OSError as error:
        raise refuse(str(folder), f"it cannot be read: {error.strerror or error}") from None
    finally:
        os.close(root)
    if problems := list(_path_problems(found, str(folder))):
        raise SkillInvalid(problems)
    return found


def write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a skill to a new folder.

    Raises:
        SkillInvalid: a path leads out of the folder; nothing is written.
        FileExistsError: there is something of that name.
        OSError: it cannot be written; nothing is left.
    """
    import shutil

    if problems := list(_path_problems(files, str(folder))):
        raise SkillInvalid(problems)
    folder.mkdir()
    try:
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = _EXECUTABLE if data.startswith(b"#!") else _PLAIN
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with open(descriptor, "wb") as file:
                file.write(data)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def write_document(document: SkillDocument) -> bytes:
    """A document as the text of a `SKILL.md`, which reads back as the same one."""
    front: dict[str, Any] = {"name": document.name, "description": document.description}
    for field in ("license", "compatibility"):
        if (value := getattr(document, field)) is not None:
            front[field] = value
    if document.allowed_tools is not None:
        front["allowed-tools"] = document.allowed_tools
    if document.metadata:
        front["metadata"] = dict(document.metadata)
    # Quoted: a text such as `yes`, or with a colon in it, stays what it is.
    lines = [f"{key}: {_quoted(value)}" for key, value in front.items() if isinstance(value, str)]
    if document.metadata:
        lines += ["metadata:", *(f"  {_quoted(k)}: {_quoted(v)}" for k, v in document.metadata.items())]
    return "\n".join([_FENCE, *lines, _FENCE, "", document.body, ""]).encode()


def _quoted(text: str) -> str:
    # A JSON text is a YAML text.
    return msgspec.json.encode(text).decode()
