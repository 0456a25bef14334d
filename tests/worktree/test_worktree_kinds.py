"""Repositories of all kinds: the whole way from the person's files to the published branch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from placet.errors import UsageError
from placet.worktree.worktree import Worktree, find_repository
from tests.coder.repositories import FILES, files, fingerprint, make_repository, objects, outside, write

ODD = {"a b/ä 'ö\".py": "1\n", "new\nline.py": "2\n", "-dash.py": "3\n", ":(top)x.py": "4\n", "*.py": "5\n"}


def _linked(place: Path) -> Path:
    outside(make_repository(place / "main"), "worktree", "add", "-q", "-b", "side", str(place / "work"))
    return place / "work"


def _shared(place: Path) -> Path:
    make_repository(place / "first")
    outside(place, "clone", "-q", "--shared", "first", "second")
    outside(place, "clone", "-q", "--shared", "second", "work")
    return place / "work"


def _shallow(place: Path) -> Path:
    first = make_repository(place / "first")
    outside(first, "commit", "-q", "--allow-empty", "-m", "second")
    outside(place, "clone", "-q", "--depth=1", f"file://{first}", "work")
    return place / "work"


def _split(place: Path) -> Path:
    top = make_repository(place / "work")
    outside(top, "update-index", "--split-index")
    write(top, {"added.py": "1\n"})
    outside(top, "add", "added.py")
    return top


def _submodule(place: Path) -> Path:
    inner = make_repository(place / "inner", {"x.py": "1\n"})
    top = make_repository(place / "work")
    outside(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    outside(top, "commit", "-qm", "a submodule")
    return top


def _crlf(place: Path) -> Path:
    top = make_repository(place / "work", {".gitattributes": "*.py text eol=crlf\n", "app.py": "a\nb\n"})
    (top / "app.py").unlink()
    outside(top, "checkout", "-q", "--", "app.py")
    assert (top / "app.py").read_bytes() == b"a\r\nb\r\n"
    return top


KINDS = {
    "linked": _linked,
    "shared": _shared,
    "shallow": _shallow,
    "split index": _split,
    "submodule": _submodule,
    "crlf": _crlf,
    "sha256": lambda place: make_repository(place / "work", None, "--object-format=sha256"),
    "odd names": lambda place: make_repository(place / "my work é", {**FILES, **ODD}),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_whole_way(kind: str, tmp_path: Path) -> None:
    top = KINDS[kind](tmp_path)
    write(top, {"mine.txt": "mine\n"})
    before, held = fingerprint(top), objects(top)
    workshop = Worktree(tmp_path / "home", await find_repository(top))
    await workshop.open()

    begun = await workshop.begin(True)
    folder = await workshop.check_out(1, begun)
    untouched = files(folder)
    same = await workshop.tree_of(1)
    write(folder, {"app.py": "a\r\nb\r\nc\r\n" if kind == "crlf" else "fixed\n"})
    tree = await workshop.tree_of(1)
    async with workshop.export(tree) as export:
        exported = files(export)
    commit = await workshop.commit(tree, workshop.repository.head, "Fix", when=9, author="A <a@example.org>")
    listed = await workshop.changes()
    assert (fingerprint(top), objects(top)) == (before, held)
    await workshop.publish(commit, "placet/x")

    inner = "mod" if kind == "submodule" else "\0"
    assert untouched == {path: text for path, text in files(top).items() if not path.startswith(inner)}
    assert same == begun
    assert exported == files(folder)
    assert [each.path for each in await workshop.changed(begun, tree)] == ["app.py"]
    assert listed == sorted({"mine.txt", *(["added.py"] if kind == "split index" else [])})
    after = fingerprint(top)
    assert all("/placet" in path for path in after if before.get(path) != after[path])
    assert before.keys() <= after.keys()
    assert outside(top, "rev-parse", "placet/x^{tree}").strip() == tree
    assert outside(top, "diff", "--stat", "HEAD", "placet/x", "--", "app.py").count("app.py") == 1
    await workshop.remove()
    outside(top, "fsck", "--no-dangling")


async def test_a_submodule_stays_as_it_is(tmp_path: Path) -> None:
    top = _submodule(tmp_path)
    workshop = Worktree(tmp_path / "home", await find_repository(top))
    await workshop.open()
    base = await workshop.begin(False)
    folder = await workshop.check_out(1, base)
    assert os.listdir(folder / "mod") == []

    make_repository(folder / "mod/deeper", {"y.py": "1\n"})
    outside(folder / "mod", "init", "-q")
    canary = tmp_path / "canary"
    config = f'[core]\nfsmonitor = touch {canary} #\n[filter "up"]\nclean = touch {canary}; cat\n'
    write(folder, {"mod/x.py": "2\n"})
    outside(folder / "mod", "add", "x.py")
    outside(folder / "mod", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "moved")
    write(folder, {"mod/.git/config": config, "mod/.gitattributes": "* filter=up\n"})
    moved = await workshop.tree_of(1)
    # As if it were at the right commit: git would look for more there, by a git that obeys its config.
    write(folder, {"mod/.git/HEAD": outside(top, "rev-parse", "HEAD:mod")})
    pretended = await workshop.tree_of(1)
    await workshop.put_back(1, base, ["mod"])
    left = os.listdir(folder / "mod")
    (folder / "mod").rmdir()
    gone = await workshop.tree_of(1)
    write(folder, {"mod": "a file\n"})
    replaced = await workshop.tree_of(1)

    assert not canary.exists()
    assert moved == pretended == gone == base
    assert left == []
    assert [each.path for each in await workshop.changed(base, replaced)] == ["mod"]
    assert await workshop.with_base(replaced, base, ["mod"]) == base
    assert "mod" not in await workshop.paths(base)


async def test_a_filter_is_not_run_and_changed_files_of_one_are_refused(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "work", {".gitattributes": "*.up filter=up\n", "a.txt": "text\n"})
    canary = tmp_path / "canary"
    outside(top, "config", "filter.up.clean", f"touch {canary}; tr a-z A-Z")
    outside(top, "config", "filter.up.smudge", f"touch {canary}; tr A-Z a-z")
    write(top, {"x.up": "shout\n"})
    outside(top, "add", "x.up")
    outside(top, "commit", "-qm", "filtered")
    canary.unlink()
    workshop = Worktree(tmp_path / "home", await find_repository(top))
    await workshop.open()

    listed = await workshop.changes()
    clean = await workshop.begin(True)
    folder = await workshop.check_out(1, clean)
    write(top, {"x.up": "changed\n"})
    with pytest.raises(UsageError, match=r"x\.up"):
        await workshop.begin(True)

    assert (listed, await workshop.changes()) == ([], ["x.up"])
    assert clean == await workshop.begin(False)
    assert (folder / "x.up").read_text() == "SHOUT\n"
    write(folder, {"x.up": "Said\n"})
    async with workshop.export(await workshop.tree_of(1)) as export:
        assert (export / "x.up").read_text() == "Said\n"
    assert not canary.exists()


async def test_a_repository_that_moved_away_is_told(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "work")
    workshop = Worktree(tmp_path / "home", await find_repository(top))
    await workshop.open()
    base = await workshop.begin(False)
    top.rename(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="It was moved"):
        await workshop.check_out(1, base)
