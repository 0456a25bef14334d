"""Few failures are looked at again, alone; what fails again, or is much, stays failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.second_look import MOST, look


def test_what_passes_alone_is_named_and_what_fails_again_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_some.py"
    file.write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    good, bad = f"{file}::test_good", f"{file}::test_bad"

    codes = {what: look(which) for what, which in {"good": [good], "bad": [bad], "both": [bad, good]}.items()}
    named = [line.strip() for line in capfd.readouterr().err.splitlines() if str(file) in line]

    assert codes == {"good": 0, "bad": 1, "both": 1}
    assert named == [good]


@pytest.mark.parametrize("count", [0, MOST + 1])
def test_nothing_and_too_much_are_not_looked_at_again(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert look([f"tests/test_none.py::test_{n}" for n in range(count)]) == 1
    assert capfd.readouterr().out == ""
