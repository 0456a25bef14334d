"""Every page is followed as a reader would: its Python runs, its commands print what it says they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import Trial, name_of, pages


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    Trial(name_of(page), page.read_text(encoding="utf-8"), tmp_path).run()
