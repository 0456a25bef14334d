"""Submitted runs: how many a second, and what an action costs, by workers; beside DBOS used directly.

All on one machine and one Postgres on loopback, so that workers share its cores with each other and with the
server: more workers than cores are not expected to be faster here. Rows, commits and connections are those
that Postgres counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.report import Section

SHORT, LONG = 2, 42
"""Actions of a run. What an action costs is the difference of both."""
_PLACET = [sys.executable, "-m", "placet.cli.main"]
_DIRECT = Path(__file__).with_name("scale_direct.py")
QUEUE = "bench"

TOOLS = '''
from placet import tool


@tool
async def act(i: int) -> int:
    """Must not be repeated."""
    return i
'''


def _plan(actions: int) -> dict[str, Any]:
    return {
        "actions": [
            {
                "id": f"a{i}",
                "tool": "act",
                "parameters": {"i": i},
                "dependencies": [f"a{i - 1}"] if i else [],
            }
            for i in range(actions)
        ]
    }


@contextmanager
def _workers(url: str, folder: Path, number: int) -> Iterator[None]:
    command = ["worker", "--db", url, "--queue", QUEUE, "--concurrency", "8", "--json"]
    started = []
    try:
        for _ in range(number):
            started.append(
                subprocess.Popen([*_PLACET, *command], stdout=subprocess.PIPE, cwd=folder, text=True)
            )
        for each in started:
            assert each.stdout is not None
            assert json.loads(each.stdout.readline())["event"] == "started"
        yield
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.communicate(timeout=60)


def _submitted(url: str, folder: Path, runs: int, actions: int) -> float:
    """Seconds from the first submission to the end of the last run."""
    from placet.app.work import PlanJob
    from placet.engine.opening import open_engine
    from placet.engine.protocol import SubmitOptions

    job = PlanJob(folder=str(folder), plan=_plan(actions), permissions="full_access")
    with open_engine(url) as engine:
        before = engine.submissions.depth().get(QUEUE, {}).get("ended", 0)
        began = time.perf_counter()
        for _ in range(runs):
            engine.add(job, SubmitOptions(queue=QUEUE))
        while engine.submissions.depth()[QUEUE].get("ended", 0) < before + runs:
            time.sleep(0.02)
        return time.perf_counter() - began


def _direct(url: str, runs: int, actions: int) -> float:
    ran = subprocess.run(
        [sys.executable, str(_DIRECT), url, str(runs), str(actions)], stdout=subprocess.PIPE, check=True
    )
    return float(ran.stdout.split()[-1])


def _counted(url: str) -> dict[str, int]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        rows = connection.execute(
            "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables"
        ).fetchone()
        commits = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert rows is not None
    assert commits is not None
    return {"rows": int(rows[0] or 0), "transactions": int(commits[0])}


def run(say: Callable[[str], None], *, quick: bool) -> list[Section]:
    """Runs a second and the cost of an action; rows and transactions of a run."""
    from placet.app.governance import examine
    from placet.app.trust import trust
    from tests.servers.postgres import PostgresServer

    runs = 20 if quick else 100
    pace = Section(
        f"{runs} submitted runs, 8 at once per worker",
        ("what", "runs/s", "x one worker", "ms/action", "x one worker "),
    )
    cost = Section("What Postgres does for a run", ("what", "rows", "transactions"))
    with TemporaryDirectory(prefix="placet-bench-") as place, PostgresServer() as server:
        folder = Path(place) / "work"
        (folder / ".placet").mkdir(parents=True)
        (folder / ".placet" / "settings.toml").write_text('tools = "tools.py"\n')
        (folder / ".placet" / "tools.py").write_text(TOOLS)
        for name in ("DATA", "CONFIG", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(place) / name.lower())
        trust(examine(folder, os.environ).seen, os.environ)
        found: list[tuple[str, float, float]] = []
        for name, number, url in (
            ("embedded, one process over SQLite", 1, str(Path(place) / "placet.db")),
            ("one worker through DBOS", 1, server.create_database()),
            ("two workers through DBOS", 2, server.create_database()),
            ("four workers through DBOS", 4, server.create_database()),
        ):
            say(f"scale: {name}")
            with _workers(url, folder, number):
                _submitted(url, folder, 4 * number, SHORT)
                before = _counted(url) if "DBOS" in name else {}
                short = _submitted(url, folder, runs, SHORT)
                after = _counted(url) if "DBOS" in name else {}
                long = _submitted(url, folder, runs, LONG)
            found.append((name, runs / short, (long - short) / runs / (LONG - SHORT) * 1e3))
            if number == 1 and after:
                spent = [(after[key] - before[key]) / runs for key in ("rows", "transactions")]
                cost.rows.append([f"a run of {SHORT} actions, one worker", *spent])
        say("scale: DBOS directly")
        url = server.create_database()
        _direct(url, 4, SHORT)
        before = _counted(url)
        short = _direct(url, runs, SHORT)
        after = _counted(url)
        long = _direct(url, runs, LONG)
        found.append(
            ("DBOS directly, one worker", runs / short, (long - short) / runs / (LONG - SHORT) * 1e3)
        )
        cost.rows.append(
            [
                f"DBOS directly, {SHORT} steps",
                *((after[key] - before[key]) / runs for key in ("rows", "transactions")),
            ]
        )
        one = next(each for each in found if each[0].startswith("one worker"))
        for name, rate, action in found:
            pace.rows.append([name, rate, rate / one[1], action, action / one[2]])
        say("scale: idle workers")
        with _workers(url, folder, 1):
            time.sleep(5)  # Until what the start has done is counted.
            before, began = _counted(url), time.perf_counter()
            time.sleep(5 if quick else 20)
            after, took = _counted(url), time.perf_counter() - began
        idle = [(after[key] - before[key]) / took for key in ("rows", "transactions")]
        cost.rows.append(["an idle worker, each second", *idle])
    pace.notes.append("Workers, Postgres and submitter share this machine's cores.")
    return [pace, cost]


def picture(rows: Sequence[Sequence[Any]]) -> str:
    """Runs a second as an SVG, from the rows of the first table."""
    most = max(row[1] for row in rows)
    parts = []
    for number, (name, rate, ratio, *_) in enumerate(rows):
        y = 34 + number * 34
        parts.append(
            f'<text x="8" y="{y + 15}">{escape(name)}</text>'
            f'<rect x="270" y="{y}" width="{rate / most * 300:.0f}" height="20" rx="3"/>'
            f'<text x="{278 + rate / most * 300:.0f}" y="{y + 15}">{rate:.1f}  ({ratio:.2f}x)</text>'
        )
    height = 44 + len(rows) * 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" font-family="sans-serif" '
        'font-size="13"><title>Submitted runs a second</title>'
        f'<rect width="700" height="{height}" fill="#fff"/><text x="8" y="20" font-weight="bold">'
        f'Submitted runs a second (x one worker)</text><g fill="#111">{"".join(parts)}</g></svg>\n'
    ).replace("<rect x", '<rect fill="#4a7ebb" x')


if __name__ == "__main__":
    tables = run(lambda line: print(line, file=sys.stderr), quick="--quick" in sys.argv)
    print("\n".join(each.text() for each in tables))
    Path(sys.argv[1]).write_text(picture(tables[0].rows), encoding="utf-8")
