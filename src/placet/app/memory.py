"""The memory of the command line: where facts are stored, who makes vectors, and whose facts they are."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from placet.app.app import Records
    from placet.app.settings import Settings
    from placet.inference.model import Embedder
    from placet.memory.fact import FactScope
    from placet.memory.memory import Memory


class NamedEmbedder(NamedTuple):
    """A model that makes vectors, and its name."""

    model: Embedder
    name: str


def embedder_here(settings: Settings, environment: Mapping[str, str]) -> NamedEmbedder | None:
    """The model with the role `embed`, or the small one if it is on this machine; `None` without either.

    Raises:
        ModelError: the one that is named in the settings cannot be opened.
    """
    from placet.inference.local.weights import EMBED, is_there
    from placet.inference.model import makes_vectors
    from placet.inference.opening import open_model

    models = settings.models
    names = list(models.roles.get("embed", ())) if models is not None else []
    if not names and is_there(EMBED, environment):
        names = [EMBED.name]
    if not names:
        return None
    providers, prices = (models.providers, models.prices) if models is not None else (None, None)
    model = open_model(names[0], environment, providers=providers, prices=prices)
    return NamedEmbedder(model, names[0]) if makes_vectors(model) else None


def person_here() -> str | None:
    """The name that the person is logged in with."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def scope_here(start: Path | None = None) -> FactScope:
    """The scope of questions that are asked here: this person's, in this project."""
    from placet.memory.fact import FactScope
    from placet.storage.folders import project_root

    return FactScope(person=person_here(), project=str(project_root(start or Path.cwd())))


def memory_of(records: Records, *, start: Path | None = None, with_embedder: bool = True) -> Memory:
    """The memory in a database.

    Raises:
        ModelError: the embedder that is named in the settings cannot be opened.
        StorageError: the tables cannot be created.
    """
    from placet.app.governance import own_settings
    from placet.memory.memory import Memory

    found = embedder_here(own_settings(os.environ), os.environ) if with_embedder else None
    return Memory(
        records.database,
        embedder=found.model if found is not None else None,
        embedder_name=found.name if found is not None else None,
        scope=scope_here(start),
    )


@contextmanager
def open_memory(
    db: str | None, *, writes: bool = False, with_embedder: bool = True
) -> Iterator[Memory | None]:
    """The memory in the database `db`, or in the default one; `None` where nothing was ever stored and
    nothing is to be.

    Raises:
        StorageError: it cannot be opened.
    """
    from placet.app.app import has_records, open_records
    from placet.memory.sql import has_memory

    if not writes and not has_records(db):
        yield None
        return
    with open_records(db, create=writes, writes=writes) as records:
        if not writes and not has_memory(records.database):
            yield None
            return
        yield memory_of(records, with_embedder=with_embedder)
