"""A server that answers in all three wire formats, written by somebody who has not seen our code.

    with Aimock([{"match": {"userMessage": "hi"}, "response": {"content": "hello"}}]) as server:
        ...                                     # ask `server.url`

`python -m tests.servers.aimock` makes sure that it is there and prints its version.

It is an npm package; `tests/inference/aimock/package.json` names its version. It runs on the Node that the
conformance tests bring: one is enough.

Keep true:
1. It listens on loopback only, on a port that the system chose.
2. It ends with whoever started it, however that ends: it leaves when its standard input closes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tests.servers import conformance
from tests.servers.npm import ROOT, NpmPackages, PackagesMissing

PACKAGE = "@copilotkit/aimock"
PACKAGES = NpmPackages(
    "the wire-format server aimock",
    pins=ROOT / "tests" / "inference" / "aimock",
    cache=ROOT / ".venv" / "aimock",
    command="python -m tests.servers.aimock",
)
STOP_LIMIT_S = 30
_SCRIPT = """
import { createInterface } from "node:readline";
const { LLMock } = await import(process.argv[1]);
const lines = createInterface({ input: process.stdin });
lines.on("close", () => process.exit(0));
lines.once("line", async (line) => {
  const { fixtures, ...options } = JSON.parse(line);
  const mock = new LLMock({ ...options, host: "127.0.0.1", port: 0 });
  mock.addFixtures(fixtures);
  await mock.start();
  console.log(mock.url);
});
"""


class Aimock:
    """The server, with the answers that it gives, in the words of its own fixtures."""

    def __init__(self, fixtures: Sequence[dict[str, Any]], chunk_size: int = 20) -> None:
        """`chunk_size` is how many characters one event of a stream brings."""
        self._server = subprocess.Popen(
            [*programs()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._input, self._output = self._server.stdin, self._server.stdout
        self.pid = self._server.pid
        options = {"fixtures": list(fixtures), "chunkSize": chunk_size, "strict": True, "logLevel": "silent"}
        self._input.write(json.dumps(options) + "\n")
        self._input.flush()
        self.url = self._output.readline().strip()
        if not self.url:
            self.close()
            raise RuntimeError("aimock did not start: it has no answer to its fixtures.")

    def close(self) -> None:
        self._input.close()
        self._output.close()
        try:
            self._server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def __enter__(self) -> Aimock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def programs() -> list[str]:
    """The command that runs it; installs what is missing first.

    Raises:
        PackagesMissing: still not there; the message says what to do.
    """
    node, _ = conformance.programs()
    module = PACKAGES.modules() / PACKAGE / "dist" / "index.js"
    return [node, "--input-type=module", "--eval", _SCRIPT, str(module)]


def main() -> int:
    try:
        programs()
    except PackagesMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(f"aimock {PACKAGES.version(PACKAGE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
