"""The files of the local models, for tests: fetched once per machine, and kept outside the clone.

`python -m tests.servers.local_model` makes sure they are there, and says how far it has come. A test asks for
`model_files()`, which waits where another process is fetching them.

Keep true: what is not there and cannot be fetched fails, with the reason. Nothing is skipped.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from placet.errors import PlacetError
from placet.inference.local.pull import pull
from placet.inference.local.weights import CATALOGUE, MB, Weights, is_there, megabytes, models_folder

KEPT = Path("~/.cache/placet-tests").expanduser()
_BETWEEN_S = 5.0


def model_environment() -> dict[str, str]:
    """Our environment, with the folders in which tests keep models and share their server."""
    # Of one machine's person, not of one test run: two runs share the gigabytes in memory, too.
    run = KEPT / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.environ.get("PLACET_MODELS") or str(KEPT / "models")
    # Nothing stays behind when the tests are over.
    linger = os.environ.get("PLACET_LINGER_S", "0")
    return {**os.environ, "PLACET_MODELS": folder, "XDG_RUNTIME_DIR": str(run), "PLACET_LINGER_S": linger}


def model_files(name: str) -> dict[str, str]:
    """An environment in which this model is there; fetches it first where it is not."""
    environment = model_environment()
    weights = CATALOGUE[name]
    if not is_there(weights, environment):
        _say(f"{name}: fetching {weights.title} ({megabytes(weights.download)})")
        pull(weights, environment, progress=_lines(weights), say=_say)
    return environment


def _lines(weights: Weights) -> Callable[[int, int], None]:
    told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _BETWEEN_S:
            told = time.monotonic()
            _say(f"{weights.name}: {done // MB:,} of {total // MB:,} MB")

    return progress


def _say(words: str) -> None:
    # Beside the result: what is measured with these files may be printed as JSON.
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    """Fetch what is missing."""
    for name, weights in CATALOGUE.items():
        environment = model_environment()
        try:
            model_files(name)
        except (PlacetError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        _say(f"{name}: {weights.title}, in {models_folder(environment)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
