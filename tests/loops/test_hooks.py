"""Hooks: none of a ready-made loop runs the code of a repository, and where `process` is required they run in
the sandbox and change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.inference import Scripted
from placet.loops.hooks import run_hook
from placet.loops.ready_made import template, template_names
from placet.loops.spec import Delivery, Hooks, read_loop
from placet.sandbox.confinement import Isolation
from placet.sandbox.limits import Limits
from tests.coder.workbench import _known, git, user_text
from tests.loops.bench import Bench, spec, verdict

LOOKS = ["nothing to do", verdict("done"), "fine"]


def traps(mark: Path) -> dict[str, str]:
    """A repository in which whatever runs its code leaves a mark outside of it."""
    leaves = f"open({str(mark)!r}, 'a').write('ran ')"
    return {
        "Makefile": f"all test check:\n\techo ran >> {mark}\n",
        "package.json": f'{{"scripts": {{"test": "echo ran >> {mark}"}}}}',
        "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\n",
        "conftest.py": f"{leaves}\n",
        "setup.py": f"{leaves}\n",
        "sitecustomize.py": f"{leaves}\n",
        "tests/test_it.py": f"{leaves}\n\n\ndef test_it():\n    pass\n",
        "tox.ini": f"[testenv]\ncommands = sh -c 'echo ran >> {mark}'\n",
        "CHANGELOG.md": "# Changelog\n",
        "issues/1.md": "it is broken\n",
        ".gitattributes": "*.md diff=own merge=own filter=own\n",
    }


@pytest.mark.parametrize("name", template_names())
async def test_no_ready_made_loop_runs_code_of_the_repository_in_a_hook(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"), traps(mark))
    git(here.repository, "checkout", "-q", "-b", "other")
    (here.repository / "CHANGELOG.md").write_text("# Changes\n")
    git(here.repository, "commit", "-qam", "second")
    git(here.repository, "checkout", "-q", "main")
    loop = read_loop(template(name), name, name=name)

    # Nothing is confined here, so whatever runs leaves its mark.
    with here.engine(LOOKS, spec("L1", name=name, hooks=loop.hooks, checks=())) as engine:
        ended = await engine.run_round()

    assert ended.outcome == "reported", ended.reason
    assert ended.context
    assert not mark.exists()
    assert not loop.hooks.after


def signed(repository: Path) -> str:
    """Make the newest commit look signed, and return its id."""
    raw = git(repository, "cat-file", "commit", "HEAD")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
    head, _, message = raw.partition("\n\n")
    made = repository.parent / "commit"
    made.write_text(f"{head}\n{signature}\n{message}")
    commit = git(repository, "hash-object", "-t", "commit", "-w", str(made)).strip()
    git(repository, "update-ref", "HEAD", commit)
    return commit


@pytest.mark.parametrize("name", template_names())
async def test_no_ready_made_loop_runs_a_program_that_git_is_set_to_run(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"), traps(mark))
    git(here.repository, "checkout", "-q", "-b", "other")
    for branch in ("other", "main"):
        git(here.repository, "checkout", "-q", branch)
        (here.repository / "CHANGELOG.md").write_text(f"# Changes on {branch}\n")
        git(here.repository, "commit", "-qam", "second")
        signed(here.repository)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\n')
    program.chmod(0o755)
    diff = ("diff.external", "diff.own.textconv", "diff.own.command")
    for key in ("gpg.program", "core.fsmonitor", "merge.own.driver", *diff):
        git(here.repository, "config", key, str(program))
    git(here.repository, "config", "log.showSignature", "true")
    loop = read_loop(template(name), name, name=name)

    hook = loop.hooks.before
    done = await run_hook(hook, str(here.repository), isolation=Isolation("none"), limits=Limits(time_s=60))

    assert done.exit_code == 0, done.stderr
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("missing", ["commit", "tree", "blob"])
async def test_no_ready_made_loop_fetches_objects_that_a_partial_clone_misses(
    missing: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    repository = Bench(tmp_path, str(tmp_path / "placet.db")).repository
    for branch in ("other", "main"):
        git(repository, "checkout", "-q", "-B", branch)
        (repository / "requirements.txt").write_text(f"# {branch}\n")
        git(repository, "add", ".")
        git(repository, "commit", "-qm", branch)
    listed = git(repository, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    heads = git(repository, "rev-parse", "main", "other").split()
    for object_id, kind, _ in map(str.split, listed):
        if kind == missing and object_id not in heads:
            (repository / ".git" / "objects" / object_id[:2] / object_id[2:]).unlink()
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "far",
        "remote.far.url": str(repository),
        "remote.far.promisor": "true",
        "remote.far.uploadpack": f"echo fetched >> {mark}; false",
        "protocol.file.allow": "always",
    }.items():
        git(repository, "config", key, value)
    hooks = {name: read_loop(template(name), name, name=name).hooks.before for name in template_names()}

    for name, hook in hooks.items():
        await run_hook(hook, str(repository), isolation=Isolation("none"), limits=Limits(time_s=60))

        assert not mark.exists(), name


CHANGES = "echo x > a.txt; git branch made; git config user.name evil; echo y > {mark}; echo done"


async def test_under_process_a_hook_changes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"))
    config = (here.repository / ".git" / "config").read_text()
    hooks = Hooks(before=CHANGES.format(mark=mark))

    with here.engine(LOOKS, spec("L1", hooks=hooks), isolated=True) as engine:
        ended = await engine.run_round()

    assert (ended.outcome, ended.context.strip()) == ("reported", "done")
    assert not mark.exists()
    assert (here.repository / "a.txt").read_text() == "one\n"
    assert git(here.repository, "branch", "--list", "made") == ""
    assert (here.repository / ".git" / "config").read_text() == config
    assert list((here.repository / ".git").rglob("*.lock")) == []


async def test_a_hook_that_the_persons_settings_trust_runs_as_the_person(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"))
    model = Scripted(LOOKS)
    trusting = Isolation("process", trusted=["loop_hook"], folder=_known())

    with here.engine(
        model, spec("L1", hooks=Hooks(before=f"echo y > {mark}; echo 17")), isolation=trusting
    ) as e:
        ended = await e.run_round()

    assert ended.outcome == "reported"
    assert mark.exists()
    assert "17" in user_text(model.requests[0])


async def test_where_nothing_can_be_confined_a_loop_with_a_hook_does_not_start(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"))
    nothing = Missing("process", folder=tmp_path / "known")

    with here.engine(LOOKS, spec("L1", hooks=Hooks(before=f"echo y > {mark}")), isolation=nothing) as engine:
        ended = await engine.run_round()

    assert ended.outcome == "failed"
    assert not mark.exists()


class Missing(Isolation):
    """A machine on which nothing holds."""

    async def ladder(self):  # type: ignore[no-untyped-def]
        from placet.sandbox.isolation import NOTHING
        from placet.sandbox.ladder import Ladder
        from placet.sandbox.self_test import Tested

        return Ladder(tested=(Tested(by="nothing", facts=NOTHING),))


async def test_the_hook_after_a_round_is_confined_too(tmp_path: Path) -> None:
    from placet.loops.delivery import deliver

    mark = tmp_path / "mark"
    here = Bench(tmp_path, str(tmp_path / "placet.db"))
    with here.engine(LOOKS, spec("L1")) as engine:
        ended = await engine.run_round()
    hook = Delivery(to="command", command=f"grep -q reported && echo y > {mark}", always=True)
    confined, free = Isolation("process", folder=_known()), Isolation("none")

    [kept] = await deliver(ended, [hook], folder=here.repository, say=print, hook_in=confined)
    left = mark.exists()
    [ran] = await deliver(ended, [hook], folder=here.repository, say=print, hook_in=free)

    # In the sandbox the temporary folder is its own.
    assert (kept.problem, left) == ("", False)
    assert (ran.problem, mark.exists()) == ("", True)
