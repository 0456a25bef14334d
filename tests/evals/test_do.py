"""The everyday jobs are made from a seed, and judged by effects and exact facts."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from evals import do
from placet.inference import Scripted


def put(job: do.Job, folder: Path, *, is_done: bool) -> str:
    """Leave a folder and an answer as they should be, or as they were."""
    for name, text in job.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not is_done:
        return "I did it."
    for name, wanted in job.leaves.items():
        text = wanted if isinstance(wanted, str) else "\n".join(job.files.values())
        (folder / name).write_text(f"{text}\n")
    return " ".join(job.says)


def test_a_seed_makes_at_least_forty_jobs_of_many_kinds_always_the_same() -> None:
    jobs = do.jobs_of(5)

    assert len(jobs) >= 40
    assert len({job.kind for job in jobs}) >= 15
    assert [job.task for job in jobs] == [job.task for job in do.jobs_of(5)]
    assert [job.task for job in jobs] != [job.task for job in do.jobs_of(6)]
    assert all(job.says or job.leaves for job in jobs)


@pytest.mark.parametrize("number", range(45))
def test_what_was_asked_for_is_judged_right_and_a_claim_alone_is_not(number: int, tmp_path: Path) -> None:
    job = do.jobs_of(5)[number]
    right, wrong, touched = (tmp_path / name for name in ("right", "wrong", "touched"))
    for folder in (right, wrong, touched):
        folder.mkdir()

    answer = put(job, right, is_done=True)
    claim = put(job, wrong, is_done=False)
    put(job, touched, is_done=True)
    (touched / "extra.txt").write_text("x")

    assert do.is_done(job, right, answer)
    assert not do.is_done(job, wrong, claim)
    assert not do.is_done(job, touched, answer)


async def test_results_are_appended_and_not_measured_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Scripted] = []

    def opening(name: str, environment: object) -> Scripted:
        opened.append(Scripted(["I did it."] * 40))
        return opened[-1]

    monkeypatch.setattr(do, "open_model", opening)
    options = argparse.Namespace(
        strength="large", without=[], results=tmp_path / "r.jsonl", seed=5, jobs=3, model="x", minutes=5.0
    )

    first = await do.measure(options, {})
    options.jobs = 4
    second = await do.measure(options, {})

    assert second[:3] == first
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 4
    assert len(opened[1].requests) == 1
    assert do.score(second)["jobs"] == 4
    assert do.score(second)["solved"] == 0
    marked = do.score(second)["wrong_and_marked"]
    assert marked + do.score(second)["wrong_and_not_marked"] == 4
