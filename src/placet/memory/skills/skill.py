"""A skill of the store: its files, what it is for, and where it comes from.

Keep true:
1. A version never changes but for its state and its label; another text is another version.
2. What was made from untrusted text says so until a person has approved it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from placet.ir.to_dict import ToDict
from placet.ir.tool_spec import Mark
from placet.memory.analysis import terms_of
from placet.memory.skills.document import SkillDocument, read_document
from placet.memory.skills.trial import SkillState

GENERAL = "general"
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+", re.IGNORECASE)


class Triggers(ToDict, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a skill is offered: if one of these fits. Without any: always."""

    personas: tuple[str, ...] = ()
    """Names of agents or users on whose behalf the run acts."""
    urls: tuple[str, ...] = ()
    """Patterns of URLs in the message, such as `https://github.com/*`."""
    keywords: tuple[str, ...] = ()
    """Words of the message, in any form: `deploys` also fits `deployment`."""

    def fit(self, persona: str | None, text: str) -> bool:
        """Return whether a skill with these triggers is for a message.

        Args:
            persona: The agent or user.
            text: The message.
        """
        if not (self.personas or self.urls or self.keywords):
            return True
        if persona is not None and any(fnmatchcase(persona, each) for each in self.personas):
            return True
        urls = _URL.findall(text) if self.urls else ()
        if any(fnmatchcase(url, each) for url in urls for each in self.urls):
            return True
        terms = set(terms_of(text)) if self.keywords else set()
        # Several words in one keyword: all of them.
        wanted = (set(terms_of(each)) for each in self.keywords)
        return any(words and words <= terms for words in wanted)


class Skill(ToDict, msgspec.Struct, frozen=True, kw_only=True):
    """A version of a skill."""

    name: str
    """Its name, unique within the tenant."""
    version: int = 1
    """Counts from 1 in the store, where a repaired skill is the next version; 0 for one in a folder."""
    description: str
    """What it does, and when to use it."""
    domain: str = GENERAL
    """Kind of work that it is for; weak domains get new skills."""
    triggers: Triggers = Triggers()
    """When it is offered."""
    state: SkillState = "provisional"
    """Whether it has earned its place."""
    labels: tuple[Mark, ...] = ()
    """`"untrusted"` if untrusted text went into it; it is then offered to nobody until a person approves."""
    tenant: str | None = None
    """Tenant whose skill it is."""
    source: str
    """Where it comes from, such as `"run:7f3a"` or a folder."""
    made: float = 0.0
    """When it was stored, in seconds since the epoch."""
    tools: tuple[str, ...] = ()
    """Tools of the run that it was distilled from, in order: the same run is not distilled twice."""
    files: dict[str, bytes] = {}
    """The files of its folder."""

    @property
    def title(self) -> str:
        """Its name and version."""
        return titled(self.name, self.version)

    @property
    def is_untrusted(self) -> bool:
        """Whether it waits for a person's approval."""
        return "untrusted" in self.labels

    @property
    def is_stored(self) -> bool:
        """Whether it is in the store, and not in a folder, whose text changes without a new version."""
        return self.version > 0

    @property
    def document(self) -> SkillDocument:
        """Its `SKILL.md`."""
        return read_document(self.files, self.name)

    @property
    def scripts(self) -> tuple[str, ...]:
        """Paths of its scripts."""
        return tuple(path for path in self.files if path.startswith("scripts/"))


def titled(name: str, version: int) -> str:
    """A skill as events and lists name it; the name alone if it is in a folder.

    >>> titled("deploy", 2), titled("deploy", 0)
    ('deploy 2', 'deploy')
    """
    return f"{name} {version}" if version else name


def skill_from(files: Mapping[str, bytes], folder: str, *, source: str, made: float = 0.0) -> Skill:
    """The skill in a folder; no store has given it a version. `metadata` may name its domain, personas, urls
    and keywords.

    Raises:
        SkillInvalid: it is no skill.
    """
    document = read_document(files, folder)
    metadata = document.metadata
    return Skill(
        name=document.name,
        version=0,
        description=document.description,
        domain=metadata.get("domain", "").strip() or GENERAL,
        triggers=Triggers(
            personas=_listed(metadata.get("personas", "")),
            urls=_listed(metadata.get("urls", "")),
            keywords=_listed(metadata.get("keywords", "")),
        ),
        source=source,
        made=made,
        files=dict(files),
    )


def trigger_metadata(domain: str, keywords: Iterable[str]) -> dict[str, str]:
    """The metadata from which `skill_from` reads a domain and keywords."""
    words = ", ".join(keywords)
    return {"domain": domain} | ({"keywords": words} if words else {})


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
