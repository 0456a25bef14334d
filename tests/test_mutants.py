"""Every defect of `make mutants` still fits the code; one that does not would prove nothing."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.defects import DEFECTS

SOURCE = Path(__file__).parents[1] / "src" / "placet"


def test_every_defect_fits_the_code() -> None:
    stale = [each.name for each in DEFECTS if (SOURCE / each.file).read_text().count(each.old) != 1]

    assert stale == []
