"""Class a task by its words and the names in the workspace: it needs reading, writing, running, or nothing.

A task that needs no tool must not be taken for one that does: its answer would be marked as unsupported. So
verbs count only where the task also names something in the workspace, or speaks of files as such.

Keep true:
1. Pure: the same task and the same names give the same route.
2. The work is bounded, however long the task is.
3. A name counts only if it exists, except as the target of writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from placet.ir.ending import CallKind
from placet.turns.listing import NOTHING, Listing

Topic = Literal["counting", "counting_matches", "arithmetic", "date", "searching", "listing"]
"""What else a task is about, for whoever chooses tools for it."""

_HEAD, _TAIL = 24_000, 8_000
"""Characters of a task that are looked at: its beginning and its end."""
_MOST_CLAUSES = 400
_MOST_NAMED = 20
_MOST_SPELLED = 200


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUOTED = re.compile(
    r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|\u201c([^\u201d\n]{1,200})\u201d|'([^'\n]{1,200})'"
)
_WORD = re.compile(r"[^\s\"'`\u201c\u201d<>|()\[\]{},;?!=]+")
_EDGES = ".:*_~"
_CLAUSE = re.compile(r"[;\n?!]|(?<=\w)[.:,](?=\s|$)|\s(?:and|then|but|afterwards)\s", re.IGNORECASE)
_FILE_LIKE = re.compile(r"[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{0,7}|\.\w[\w.-]*|[\w.-]+(?:/[\w.-]+)+")
_NOT_FILES = _words(
    """
    e.g i.e etc. a.m p.m u.s u.k vs. node.js vue.js next.js nuxt.js react.js express.js three.js
    d3.js chart.js angular.js ember.js backbone.js socket.io asp.net ado.net vb.net and/or either/or
    he/she she/he his/her him/her w/o n/a client/server input/output tcp/ip read/write i/o yes/no
    true/false on/off
    """
)

_POLITE = re.compile(
    r"^(?:(?:please|kindly|now|next|first|also|finally|so|ok|okay|hey|hi|hello|just|go|help me(?: to)?|"
    r"let us|let's|try to|make sure to|remember to|you should|your (?:task|job) is to|"
    r"(?:can|could|would|will) you|i (?:want|need) you to|i(?:'d| would) like you to)[,:]?\s+)+",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:what|which|who|whose|whom|where|when|why|how|is|are|was|were|does|do|did|has|have|had|should|may)\b",
    re.IGNORECASE,
)
_HOW_TO = re.compile(
    r"^(?:how (?:do|can|could|would|should|to|does|did|is|are)\b|why\b|what (?:is|are) (?:a|an)\b|"
    r"what(?:'s| is) the (?:best|right|usual|difference|meaning|point) |what does \S+ mean|"
    r"(?:should|may|can|could) (?:i|we)\b|is it\b|explain (?:how|what|why)\b|"
    r"when (?:should|do) (?:i|we|you)\b)",
    re.IGNORECASE,
)

_WRITES = _words(
    """
    write create make save store put append add insert replace change rename delete remove edit
    update fix mend correct set copy move generate overwrite convert translate sort truncate empty
    touch mkdir prepend rewrite modify swap substitute record log note export fill bump increment
    uncomment comment
    """
)
_READS = _words(
    """
    read show open print look check inspect view display cat summarize summarise list find search
    grep count sum total compare tell describe explain report add-up calculate compute extract quote
    get give determine identify name locate examine review analyze analyse verify see
    """
)
_RUNS = _words(
    """
    run execute launch start invoke rerun
    """
)

_MID_WRITE = re.compile(
    r"(?<!\bwhat )(?<!\bhow )(?<!\bdoes )(?<!\bdid )(?<!\bwould )(?<!\bthat )(?<!\bwhich )(?<!\bthey )"
    r"\b(?:change|replace|rename|add|set|remove|delete|put|insert|append|write|save|copy|move|fix|mend|update)"
    r" (?:the|all|every|each|a|an|it|them|this|that|its|these|those|both|only|one|line|lines)\b",
    re.IGNORECASE,
)
_THING = r"(?:files?|folders?|director(?:y|ies)|subfolders?|documents?|spreadsheets?)"
_NOT_THING = (
    r"(?! (?:system|systems|format|formats|type|types|extension|extensions|descriptor|command|server)\b)"
)
_SPEAKS_OF_FILES = re.compile(
    rf"\b(?:the|this|these|all|each|every|any|my|our|which|what|many|other|both|of|in|here|text|python|csv|json|"
    rf"markdown|log|empty|largest|smallest|biggest|newest|oldest|\d+)(?: \w+){{0,2}} {_THING}\b{_NOT_THING}"
    rf"|^\W*(?:list|show|count|find|read|open|print) (?:\w+ ){{0,2}}{_THING}\b{_NOT_THING}"
    r"|\b(?:this|the|my|our) (?:repository|repo|codebase|code base|workspace|project|code|source tree)\b"
    r"|\bTODOs?\b|\bFIXMEs?\b|\bin here\b|\bwhat is here\b|\bfiles here\b",
    re.IGNORECASE,
)
_MAKES_FILE = re.compile(
    r"\b(?:write|create|make|save|delete|remove|copy|move|rename|edit|touch|overwrite|add)(?: \S+){0,3} "
    rf"{_THING}\b{_NOT_THING}"
    r"|\b(?:to|into|in|as) (?:a|the|an|this|that|another|one)(?: \w+){0,2} "
    rf"{_THING}\b{_NOT_THING}",
    re.IGNORECASE,
)
_DESTINATION = re.compile(
    r"\b(?:to|into|in|as|at|onto|called|named|file|folder|directory|write|create|make|save|touch|add|"
    r"overwrite|generate)\s+(?:the |a |an |new |text |file |named |called )*[\s(*_]*$",
    re.IGNORECASE,
)
_RUNNABLE = re.compile(
    r"\b(?:tests?|test suite|scripts?|program|command|build|linter)\b",
    re.IGNORECASE,
)
_BARE_BEFORE = re.compile(
    r"\b(?:in|inside|into|under|from|within|of|folder|directory|file|script)\s+(?:the\s+)?$", re.I
)
_BARE_AFTER = re.compile(r"^\s+(?:folder|directory|file|script)\b", re.IGNORECASE)

_COUNTS = re.compile(r"\bhow many\b|\bcount\b|\bnumber of\b|\bhow often\b", re.IGNORECASE)
_COUNTS_ALL = re.compile(
    rf"\b(?:how many|number of|count) (?:the )?(?:lines|(?:\w+ )?{_THING})\b"
    r"(?! (?:[\w.]+ ){0,6}(?:contain|mention|with|say))",
    re.IGNORECASE,
)
_SUMS = re.compile(
    r"\bsum\b|\btotal\b|\badd (?:up|them|together)\b|\baverage\b|\bmean of\b|\bin all\b|\bcalculate\b|"
    r"\bcompute\b|\bdifference\b|\bmultipl|\bdivide|\bpercent|\d\s*[-+*/x\u00d7^]\s*\d|"
    r"\d (?:plus|minus|times|divided by) \d",
    re.IGNORECASE,
)
_DATES = re.compile(
    r"\b(?:what|which|today'?s?|current) (?:is )?(?:the )?(?:date|day|time|year|month|weekday)\b|\btoday\b|"
    r"\bwhat time\b|\bcurrent (?:date|time|year|day)\b|\bday of the week\b|\bright now\b|\bthe date\b",
    re.IGNORECASE,
)
_SEARCHES = re.compile(
    r"\bwhich (?:\w+ )?files?\b|\bfind\b|\bsearch\b|\bgrep\b|\bcontain|\bmention|\bwhere\b|"
    r"\bTODOs?\b|\bFIXME|\blook for\b",
    re.IGNORECASE,
)
_LISTS = re.compile(
    rf"\blist\b|\bnames of\b|\ball (?:the )?(?:\w+ )?{_THING}\b|\bwhat {_THING}\b", re.IGNORECASE
)


_ARITHMETIC = re.compile(r"(?<![\w.])\(*\d[\d.]*(?:\s?[-+*/\u00d7^]{1,2}\s?\(*\d[\d.]*\)*)+(?![\w])")
_SOUGHT = re.compile(
    r"\b(?:the )?(?:word|words|text|string|term|phrase|name) [\"'`\u201c]([^\"'`\u201d\n]{1,80})[\"'`\u201d]"
    r"|\b(?:mentions?|contains?|containing|mentioning|with|search for|look for|grep for|find|about) "
    r"[\"'`\u201c]([^\"'`\u201d\n]{1,80})[\"'`\u201d]"
    r"|\b(TODO|FIXME|XXX|HACK|ERROR|WARNING)s?\b"
    r"|\b(?:the )(?:word|text|string|term) (\w[\w-]{1,40})\b"
    r"|\b(?:mentions?|contains?|containing|mentioning|grep for) (?:the (?:word|text|name) )?(\w[\w.@-]{1,40})"
)
_NO_TERMS = _words(
    "the a an any all each this that it them its their your my one some only no more most is in"
)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1, "final": -1}
_ONE_LINE = re.compile(
    rf"\b({'|'.join(_ORDINALS)}) line\b(?!s)|\bline (\d{{1,6}})\b(?!\s*(?:to|-))", re.IGNORECASE
)
_FOLDS = {
    "average": re.compile(r"\baverage\b|\bmean of\b", re.IGNORECASE),
    "sum": re.compile(
        r"\bsum\b|\btotal\b|\badd (?:up|them|together)\b|\bin all\b|\baltogether\b", re.IGNORECASE
    ),
    "max": re.compile(
        r"\b(?:high|larg|bigg|great|old|long|tall|heavi)(?:er|est)\b|\bmaximum\b|\bmost expensive\b",
        re.IGNORECASE,
    ),
    "min": re.compile(r"\b(?:low|small|cheap|few|young|short|light)(?:er|est)\b|\bminimum\b", re.IGNORECASE),
}
_PROPER = re.compile(r"(?<=[a-z,] )([A-Z][^\W\d_]{2,30})(?![\w./])")
_NO_NAMES = _words(
    """
    python markdown csv json toml yaml html javascript rust todo todos fixme readme file files answer yes
    monday tuesday wednesday thursday friday saturday sunday english german french
    """
)
_KIND = re.compile(
    r"(?:\*?\.)([a-zA-Z0-9]{1,6}) files?\b"
    r"|\b(python|markdown|text|csv|json|toml|yaml|log|html|javascript|rust|go) (?:source )?files?\b",
    re.IGNORECASE,
)
_KINDS = {
    "python": "*.py",
    "markdown": "*.md",
    "text": "*.txt",
    "csv": "*.csv",
    "json": "*.json",
    "toml": "*.toml",
    "yaml": "*.{yaml,yml}",
    "log": "*.log",
    "html": "*.html",
    "javascript": "*.js",
    "rust": "*.rs",
    "go": "*.go",
}


class Route(NamedTuple):
    """What a task needs."""

    needs: tuple[CallKind, ...] = ()
    """What calls have to do; empty for a task that needs none."""
    named: tuple[str, ...] = ()
    """Paths in the workspace that it names, files first, in the order of the task."""
    targets: tuple[str, ...] = ()
    """Names that look like files and do not exist: what it may want to be made."""
    topics: frozenset[Topic] = frozenset()
    steps: int = 1
    """How many things it asks for."""
    first_named: tuple[str, ...] = ()
    """What the first of them names."""
    term: str = ""
    """The text that is to be looked for, if the task says one."""
    about: str = ""
    """A name of somebody or something in the sentence, where the task says no text to look for."""
    glob: str = ""
    """The kind of files that it is about, as a pattern such as `*.py`."""
    line: int = 0
    """The number of the one line that it is about, -1 for the last; 0 if it is about no single line."""
    fold: str = ""
    """How numbers are put together: `sum`, `average`, `max` or `min`."""
    words: frozenset[str] = frozenset()
    """All its words, in small letters."""
    verbs: frozenset[str] = frozenset()
    """The verbs of writing in it."""
    expression: str = ""
    """The arithmetic that it asks for, if it stands there as such."""
    names: Listing = NOTHING
    """The names in the workspace."""


def spelled_in(task: str) -> list[str]:
    """What may be a path in a task, to be looked up."""
    return [name for name, _, _ in _spelled(_bounded(task))][:_MOST_SPELLED]


def route(task: str, names: Listing = NOTHING) -> Route:
    """Class a task.

    >>> files = Listing(files=frozenset({"notes.txt"}))
    >>> route("What is in notes.txt?", files).needs, route("What is a monad?", files).needs
    (('reading',), ())
    """
    text = _bounded(task)
    named, targets = _names(text, names)
    needs: dict[CallKind, None] = {}
    clauses = list(_clauses(text))
    for clause in clauses:
        for kind in _kinds(clause, bool(named or names.symbols), bool(targets)):
            needs[kind] = None
        if targets and named and _collects(clause, names):
            needs |= {"reading": None, "writing": None}
    if (named or names.symbols) and not needs:
        needs["reading"] = None
    return Route(
        needs=tuple(needs),
        named=tuple(named),
        targets=tuple(targets),
        topics=_topics(text),
        steps=sum(map(_is_order, clauses)) or 1,
        first_named=tuple(_names(clauses[0], names)[0]) if clauses else (),
        term=_term(text, names),
        about=_about(text, names),
        glob=_glob(text),
        line=_line(text),
        fold=next((fold for fold, pattern in _FOLDS.items() if pattern.search(text)), ""),
        words=frozenset(re.findall(r"[^\W\d_]{2,}", text.lower()[:4_000])),
        verbs=frozenset(word for word in re.findall(r"[a-z]+", text.lower()[:4_000]) if word in _WRITES),
        expression=_expression(text),
        names=names,
    )


def _bounded(task: str) -> str:
    text = task if len(task) <= _HEAD + _TAIL else f"{task[:_HEAD]}\n{task[-_TAIL:]}"
    return text.replace("\u2019", "'")


def _clauses(text: str) -> Iterator[str]:
    for count, clause in enumerate(_CLAUSE.split(text)):
        if count >= _MOST_CLAUSES:
            return
        stripped = clause.strip()
        if stripped:
            yield _POLITE.sub("", stripped[:2_000])


def _kinds(clause: str, has_names: bool, has_targets: bool) -> Iterator[CallKind]:
    first = re.match(r"[A-Za-z'-]+", clause)
    verb = first[0].lower() if first else ""
    if _HOW_TO.match(clause):
        return
    is_question = _ASKS.match(clause) is not None
    if verb in _RUNS and (has_names or _RUNNABLE.search(clause) or "`" in clause):
        yield "running"
        return
    if not is_question:
        is_write = verb in _WRITES or _MID_WRITE.search(clause) is not None
        if is_write and (has_names or has_targets or _MAKES_FILE.search(clause)):
            yield "writing"
            return
    is_about_files = _SPEAKS_OF_FILES.search(clause) is not None
    is_order = verb in _READS or verb in _WRITES
    if (is_about_files and (is_question or is_order)) or (
        has_names and verb in _READS and _spells_name(clause)
    ):
        yield "reading"


def _is_order(clause: str) -> bool:
    """Whether a part of the task asks for something by itself."""
    verb = re.match(r"(?:at the end |in the end |lastly )?([A-Za-z]+)", clause, re.IGNORECASE)
    is_verb = verb is not None and verb[1].lower() in (_WRITES | _READS | _RUNS)
    return is_verb or _ASKS.match(clause) is not None


def _collects(clause: str, names: Listing) -> bool:
    """Whether what is read is to go into a new file: `list the TODOs of src in todo.md`."""
    verb = re.match(r"[A-Za-z]+", clause)
    if verb is None or verb[0].lower() not in _READS or _ASKS.match(clause):
        return False
    named, targets = _names(clause, names)
    return bool(named and targets)


def _spells_name(clause: str) -> bool:
    return any(_FILE_LIKE.fullmatch(word.strip(_EDGES)) for word in _WORD.findall(clause))


def _spelled(text: str) -> Iterator[tuple[str, re.Match[str], bool]]:
    """What may be a name, where it stands, and whether it is in quotes."""
    for found in _QUOTED.finditer(text):
        inner = next(group for group in found.groups() if group is not None).strip()
        if inner and "://" not in inner:
            yield inner, found, True
    for found in _WORD.finditer(text):
        word = found[0]
        if "://" in word or word.lower().startswith("www.") or "@" in word:
            continue
        stripped = word.rstrip(".:*~").lstrip("*~:")
        for each in dict.fromkeys((stripped, stripped.rstrip("/"), word)):
            if each and len(each) <= 300:
                yield each, found, False


def _names(text: str, names: Listing) -> tuple[list[str], list[str]]:
    """Paths that exist, and names that look like files and do not."""
    known = _Known(names)
    named: dict[str, None] = {}
    targets: dict[str, None] = {}
    for word, at, is_quoted in _spelled(text):
        if len(named) >= _MOST_NAMED:
            break
        found = known.paths(word)
        if found:
            is_plain = not is_quoted and _is_plain_word(word, found)
            if not is_plain or _is_meant(text, at):
                named.update(dict.fromkeys(found))
        elif len(targets) < _MOST_NAMED and _looks_like_file(word) and _is_destination(text, at):
            targets[word] = None
    for path in known.with_blanks:
        if len(named) < _MOST_NAMED and path in text:
            named[path] = None
    files = [path for path in named if path in names.files]
    return files + [path for path in named if path not in names.files], list(targets)


def _is_plain_word(word: str, found: Iterable[str]) -> bool:
    """Whether it may be an ordinary word of the sentence: `docs`, `Tests`, `data`; not `Makefile`."""
    is_exact = any(path.rpartition("/")[2] == word for path in found)
    return word.isalpha() and (word.islower() or (word.istitle() and not is_exact))


def _is_meant(text: str, at: re.Match[str]) -> bool:
    """Whether the sentence uses an ordinary word as the name of something."""
    before, after = _around(text, at)
    return _BARE_BEFORE.search(before) is not None or _BARE_AFTER.match(after) is not None


def _is_destination(text: str, at: re.Match[str]) -> bool:
    """Whether something is to go there: `into a.txt`, `a file named a.txt`, `create a.txt`."""
    return _DESTINATION.search(_around(text, at)[0]) is not None


def _around(text: str, at: re.Match[str]) -> tuple[str, str]:
    return text[max(0, at.start() - 40) : at.start()], text[at.end() : at.end() + 20]


def _looks_like_file(word: str) -> bool:
    lowered = word.lower()
    if lowered in _NOT_FILES or lowered.rstrip(".") in _NOT_FILES:
        return False
    return _FILE_LIKE.fullmatch(word) is not None and not word.replace(".", "").isdigit()


class _Known:
    """The names of a workspace, looked up by path, by name alone, and without regard to case."""

    def __init__(self, names: Listing) -> None:
        self._paths = names.files | names.folders
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self._paths, key=lambda each: (each.count("/"), each)):
            name = path.rpartition("/")[2]
            self._by_name.setdefault(name, []).append(path)
            if name.lower() != name:
                self._by_name.setdefault(name.lower(), []).append(path)
        self.with_blanks: list[str] = sorted(path for path in names.files if " " in path)

    def paths(self, word: str) -> Iterable[str]:
        path = word.removeprefix("./").rstrip("/")
        if path in self._paths:
            return (path,)
        found = self._by_name.get(path) or self._by_name.get(path.lower(), [])
        # A name that many folders have names none of them.
        return found if len(found) <= 3 else ()


def _term(text: str, names: Listing) -> str:
    """The text that a task wants to be looked for."""
    known = _Known(names)
    for found in _SOUGHT.finditer(text):
        term = next(group for group in found.groups() if group).strip().rstrip(".,:;?!")
        if term and term.lower() not in _NO_TERMS and not known.paths(term):
            return term
    return next(iter(names.symbols), "")


def _about(text: str, names: Listing) -> str:
    """The first word that is written as a name, and is no file's."""
    known = _Known(names)
    for found in _PROPER.finditer(text):
        if found[1].lower() not in _NO_NAMES and not known.paths(found[1]):
            return found[1]
    return ""


def _line(text: str) -> int:
    """The one line that a task is about.

    >>> _line("Copy the first line of a.txt"), _line("Show line 3"), _line("the last line"), _line("a line")
    (1, 3, -1, 0)
    """
    found = _ONE_LINE.search(text)
    if found is None:
        return 0
    if found[2]:
        return int(found[2])
    return _ORDINALS[found[1].lower()]


def _glob(text: str) -> str:
    found = _KIND.search(text)
    if found is None:
        return ""
    if found[1]:
        return f"*.{found[1].lower()}"
    return _KINDS[found[2].lower()]


def _expression(text: str) -> str:
    """Arithmetic that stands in the task as such.

    >>> _expression("What is 127 * (49 + 1)?"), _expression("On 2026-01-31 at 10")
    ('127 * (49 + 1)', '')
    """
    found = max(_ARITHMETIC.findall(text), key=len, default="").strip()
    plain = found.replace("\u00d7", "*").replace("^", "**")
    is_date = re.fullmatch(r"\d{4}-\d\d?-\d\d?|\d+(?:[-/]\d+){2}", plain.replace(" ", "")) is not None
    has_operator = re.search(r"\d\)?\s*[-+*/]", plain) is not None
    is_balanced = plain.count("(") == plain.count(")")
    return plain if has_operator and is_balanced and not is_date and len(plain) <= 200 else ""


def _topics(text: str) -> frozenset[Topic]:
    patterns: tuple[tuple[Topic, re.Pattern[str]], ...] = (
        ("counting", _COUNTS),
        ("arithmetic", _SUMS),
        ("date", _DATES),
        ("searching", _SEARCHES),
        ("listing", _LISTS),
    )
    found = {topic for topic, pattern in patterns if pattern.search(text)}
    if "counting" in found and not _COUNTS_ALL.search(text):
        found.add("counting_matches")
    return frozenset(found)
