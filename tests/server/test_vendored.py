"""What the page ships of others is what was vendored, under licences that lie beside it."""

from __future__ import annotations

import re

from tests.servers.vendored import PACKAGES, SUMS, VENDOR, sums


def test_vendored_files_are_as_they_were_vendored() -> None:
    assert (VENDOR / SUMS).read_text() == sums()


def test_every_vendored_file_is_from_a_pinned_package_with_its_licence() -> None:
    files = {name for _, made in PACKAGES.values() for name in made.values()}
    licences = {f"{package.removeprefix('@').replace('/', '-')}.LICENSE" for package in PACKAGES}

    assert {path.name for path in VENDOR.iterdir()} == files | licences | {SUMS}


def test_modules_import_only_files_of_the_page() -> None:
    """The Content-Security-Policy forbids import maps, so a bare import would fail in a browser."""
    page = VENDOR.parent
    for path in page.rglob("*.js"):
        for target in re.findall(r"""(?:from|import)\s*["']([^"']+)["']""", path.read_text("utf-8")):
            assert target.startswith("./"), f"{path.name} imports {target}"
            assert (path.parent / target).is_file(), f"{path.name} imports {target}"
