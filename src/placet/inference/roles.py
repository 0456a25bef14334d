"""Several models behind one seam: a request names one, or its intent picks a role, and the role a model.

Keep true:
1. A named model is a hard choice: its error is returned, never another model's answer.
2. Which model answered, and why that one, stands in the result.
3. Another model is asked only where that could help: not when the request itself is refused, and never after
   the first piece of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import aclosing
from typing import Literal, NamedTuple, NoReturn, get_args

import msgspec

from placet.errors import ModelError, ModelMissing, PlacetError, UnknownModel, UsageError
from placet.inference.model import (
    Ability,
    Choice,
    Intent,
    Model,
    Piece,
    Request,
    Result,
    StreamingModel,
    makes_vectors,
    stream,
)
from placet.inference.passage import reads_passages
from placet.inference.profile import LARGE, SMALL, SMALL_MODEL, ModelProfile

Role = Literal["default", "code", "fast", "judge", "embed"]
"""Purpose for which a model is chosen."""
ROLES: tuple[Role, ...] = get_args(Role)

_OF_TASK: Mapping[str, Role] = {"code": "code", "judge": "judge", "classify": "fast", "summarize": "fast"}


class Picked(NamedTuple):
    """The models that may answer a request, first choice first."""

    names: Sequence[str]
    """Names of the models."""
    role: Role | None
    """Role in which they are asked; `None` if the request names a model."""
    because: str
    """Why they were chosen."""


class Models(StreamingModel):
    """Several models behind one, chosen by role. Each is opened when it is first asked.

    If a model ends in a `ModelError` that is not about the request, the next of the list is asked; other
    exceptions pass.

    >>> from placet.inference.scripted import Scripted
    >>> models = Models({"default": ["a:1"], "code": ["b:2"]}, lambda name: Scripted([name]))
    >>> models.pick(Request(messages=[], intent=Intent(task="code"))).names
    ['b:2']
    """

    def __init__(
        self,
        roles: Mapping[Role, Sequence[str]],
        opened: Callable[[str], Model],
        *,
        abilities: Callable[[str], Container[Ability] | None] = lambda name: None,
        because: str = "",
        profiles: Mapping[str, ModelProfile] | None = None,
    ) -> None:
        """Set up the roles. No model is opened yet.

        Args:
            roles: Names of models by role, first choice first.
            opened: Function that opens a model by name; called once for each.
            abilities: Function that returns the abilities of a model, or `None` if they are not known; such a
                model is tried.
            because: Why the default model was chosen, for `Choice.because`.
            profiles: Profiles by name of model; without one, `local` is small and any other model large.

        Raises:
            UsageError: a role is unknown, or its models are not a list.
        """
        for role, names in roles.items():
            if role not in ROLES or isinstance(names, str):
                raise UsageError(
                    f"Models got {{{role!r}: {names!r}}}. Give each of the roles {', '.join(ROLES)} a list "
                    'of names: {"default": ["anthropic:claude-sonnet-5-5", "local"]}.'
                )
        self._roles = roles
        self._make = opened
        self._abilities = abilities
        self._because = because
        self._profiles = profiles or {}
        self._open: dict[str, Model] = {}
        self.name: str = (roles.get("default") or ["none"])[0]
        """Name of the first default model."""

    @property
    def names(self) -> list[str]:
        """Names of all models that answer in some role, each once."""
        roles = (names for role, names in self._roles.items() if role != "embed")
        return list(dict.fromkeys(name for names in roles for name in names))

    @property
    def reads_passages(self) -> bool:
        """Whether all that may be asked about code do: nobody knows beforehand which one will be."""
        try:
            names = self.pick(Request(messages=(), intent=Intent(task="code"))).names
            return all(reads_passages(self._model(name)) for name in names)
        except PlacetError:
            return False

    @property
    def profile(self) -> ModelProfile:
        """Profile of the model that is asked first in a conversation."""
        try:
            names = self.pick(Request(messages=(), intent=Intent(requires=("tools",)))).names
        except PlacetError:
            return LARGE
        known = self._profiles.get(names[0]) if names else LARGE
        return known or (SMALL if names[0] == SMALL_MODEL else LARGE)

    @property
    def makes_vectors(self) -> bool:
        """Whether some model has the role `embed`."""
        return bool(self._roles.get("embed"))

    def pick(self, request: Request) -> Picked:
        """Return the models that may answer a request.

        Args:
            request: The request.

        Raises:
            ModelMissing: no model has the abilities that it needs.
            UnknownModel: it names a model that is not set up.
        """
        if request.model is not None:
            if request.model not in self.names:
                raise UnknownModel(
                    f"'{request.model}' is none of the models that are set up: {', '.join(self.names)}."
                )
            return Picked([request.model], None, "it was named")
        intent = request.intent or Intent()
        wanted: Role = _OF_TASK.get(intent.task, "fast" if intent.prefer == "speed" else "default")
        role: Role = wanted if self._roles.get(wanted) else "default"
        because = f"role {role}"
        if self._because and role == "default":
            because = self._because
        elif role != wanted:
            because += f", because no model has the role {wanted}"
        names = self._roles.get(role) or ()
        able = [name for name in names if not self._lacking(name, intent.requires)]
        if len(able) < len(names) and able:
            because += f"; {', '.join(name for name in names if name not in able)} cannot do what is needed"
        if not able:
            self._fail(role, names, intent.requires)
        return Picked(able, role, because)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """The answer of the first that gives one, in pieces."""
        picked = self.pick(request)
        refused: list[str] = []
        for name in picked.names:
            has_begun = False
            try:
                async with aclosing(stream(self._model(name), _unnamed(request))) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        is_last = isinstance(piece, Result)
                        yield _told(piece, name, picked, refused) if isinstance(piece, Result) else piece
                        if is_last:
                            return
            except ModelError as error:
                if has_begun:
                    raise
                self._passes_on(error, name, picked, refused)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Vectors, by the model with the role `embed`."""
        names = self._roles.get("embed") or ()
        if not names:
            raise ModelMissing(
                "No model has the role embed. Fetch the small one with `placet model pull embed`, or name "
                'one in your settings: [models] embed = "openai:text-embedding-3-small".'
            )
        refused: list[str] = []
        picked = Picked(names, "embed", "role embed")
        for name in names:
            model = self._model(name)
            if not makes_vectors(model):
                raise ModelMissing(f"{name} makes no vectors. Give the role embed to a model that does.")
            try:
                return await model.embed(texts)
            except ModelError as error:
                self._passes_on(error, name, picked, refused)
        raise AssertionError("the last one passes its error on")

    def check(self, name: str) -> None:
        """Open a model that will be asked, so that what is wrong with its name is told now.

        Raises:
            ModelError: there is no such model, or what it needs is missing.
            InputError: it is a script or a recording that cannot be read.
        """
        self._model(name)

    async def close(self) -> None:
        """Close all models that were opened."""
        for model in self._open.values():
            close = getattr(model, "close", None)
            if close is not None:
                await close()

    def _model(self, name: str) -> Model:
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = self._make(name)
        return found

    def _lacking(self, name: str, requires: Sequence[Ability]) -> list[Ability]:
        has = self._abilities(name)
        return [] if has is None else [each for each in requires if each not in has]

    def _fail(self, role: Role, names: Sequence[str], requires: Sequence[Ability]) -> NoReturn:
        if not names:
            raise ModelMissing(
                "No model has the role default. Give it to one, in your settings: [models] default = ..., or "
                'in a program: Models({"default": [...]}, ...).'
            )
        raise ModelMissing(
            f"No model with the role {role} can do what is needed ({', '.join(requires)}): "
            f"{', '.join(names)}. Name another in your settings, or with --model."
        )

    def _passes_on(self, error: ModelError, name: str, picked: Picked, refused: list[str]) -> None:
        """Remember why one gave no answer; what the last one says is what everybody hears."""
        if error.is_about_request or name == picked.names[-1]:
            raise error
        refused.append(f"{name} gave no answer ({error.code})")


def _unnamed(request: Request) -> Request:
    """What a model is asked that was chosen already."""
    return request if request.model is None else msgspec.structs.replace(request, model=None)


def _told(result: Result, name: str, picked: Picked, refused: Sequence[str]) -> Result:
    because = "; ".join([picked.because, *refused])
    return msgspec.structs.replace(result, choice=Choice(model=name, role=picked.role, because=because))
