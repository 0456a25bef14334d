"""Find the folder that counts as the project, and create its `.placet` folder.

The project is the nearest folder, from the current one upwards, that holds a `.placet` folder or is the top
of a git repository. `placet init`, `placet agent new` and `placet loop new` write there. A loop works on its
repository as a whole, wherever its file is.

Rules, settings, records and the default workspace follow a `.placet` folder that exists: running something in
a repository neither creates files in it nor gives tools more of it than the current folder.

Keep true:
1. Looking creates nothing.
2. A `.placet` folder that was created for something that failed is removed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from placet.errors import InputError
from placet.storage.location import PROJECT_FOLDER, project_folder


def project_root(start: Path) -> Path | None:
    """The folder of the project around `start`; None outside of any.

    Raises:
        TrustError: something that is no folder is called `.placet`.
    """
    from placet.sandbox.git_folder import look_up

    holder = project_folder(start)
    found = look_up(str(start))
    top = found.top if found is not None else None
    if holder is None:
        return Path(top) if top is not None else None
    if top is None or holder.parent.resolve().is_relative_to(top):
        return holder.parent
    return Path(top)


@contextmanager
def with_project_folder(root: Path) -> Iterator[None]:
    """Create the `.placet` folder of a project, if there is none, for whoever writes something into it.

    Raises:
        InputError: it cannot be created.
    """
    folder = root / PROJECT_FOLDER
    is_new = True
    try:
        folder.mkdir()
    except FileExistsError:
        is_new = False
    except OSError as error:
        raise InputError(f"Cannot create {folder}: {error.strerror or error}.") from None
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise
