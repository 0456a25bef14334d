"""A whole job on a repository of several files: a wrong fix, what the checks said, the right fix, approval, a
commit; and what was learned from it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from placet import MarkOutput
from placet.coder.session import CodeLimits
from placet.inference import Scripted
from placet.inference.model import Request
from tests.coder.repositories import fingerprint
from tests.coder.workbench import Workbench, call, git, user_text

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": (
        '"""Prices in cents."""\n\n\ndef discounted(price: int, percent: int) -> int:\n'
        '    """The price less so many percent, rounded down."""\n    return price - price * percent // 10\n'
    ),
    "shop/basket.py": (
        "from shop.prices import discounted\n\n\n"
        "class Basket:\n    def __init__(self):\n        self.items = []\n\n"
        "    def add(self, price, percent=0):\n        self.items.append(discounted(price, percent))\n\n"
        "    def total(self):\n        return sum(self.items)\n"
    ),
    "shop/cli.py": "from shop.basket import Basket\n\n\ndef main():\n    print(Basket().total())\n",
    "tests/test_basket.py": (
        "from shop.basket import Basket\n\n\ndef test_total():\n    basket = Basket()\n    basket.add(100)\n"
        "    basket.add(200, 10)\n    assert basket.total() == 280\n\n\ndef test_empty():\n"
        "    assert Basket().total() == 0\n"
    ),
    "tests/test_prices.py": (
        "from shop.prices import discounted\n\n\n"
        "def test_ten_percent():\n    assert discounted(200, 10) == 180\n\n\n"
        "if __name__ == '__main__':\n    test_ten_percent()\n"
    ),
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "README.md": "# A shop\n",
}
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -p no:cacheprovider"
CHECK = f"PYTHONPATH=. {sys.executable} -S tests/test_prices.py"
"""For what is not about pytest, which takes ten times as long to start."""
WRONG = call("edit_file", path="shop/prices.py", old="price * percent // 10", new="price * percent // 1000")
RIGHT = call(
    "replace_function",
    path="shop/prices.py",
    name="discounted",
    source=(
        'def discounted(price: int, percent: int) -> int:\n    """Less."""\n'
        "    return price - price * percent // 100\n"
    ),
)
CLOSING = "A percentage is of 100; the division in discounted was by another number."


async def test_from_a_wrong_fix_to_a_published_commit(tmp_path: Path) -> None:
    here = Workbench(tmp_path, FILES)
    # Work of the person that is under way: a staged file, a changed one, a stash, a hook.
    top = here.repository
    (top / "README.md").write_text("# My shop\n")
    git(top, "stash")
    (top / "shop" / "cli.py").write_text("# mine\n")
    (top / "staged.txt").write_text("staged\n")
    git(top, "add", "staged.txt")
    (top / "new.txt").write_text("not added\n")
    hook = top / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch HOOK_RAN\n")
    hook.chmod(0o755)
    before = fingerprint(top)

    model = Scripted([call("read_file", path="shop/prices.py"), WRONG, "fixed", RIGHT, CLOSING])
    with here.coder(model) as coder:
        session = await coder.run("the discount is wrong", [PYTEST], watch=here.watch)
        assert session.state == "needs_approval"
        assert [each.is_green for each in session.attempts[0].iterations] == [False, True]
        assert fingerprint(top) == before
        diff = await coder.diff(session.id)
        assert "+    return price - price * percent // 100" in diff
        assert "mine" not in diff

        # The first message shows what the failing test is about, the second what the wrong fix came to.
        first, second = user_text(model.requests[0]), user_text(model.requests[3])
        assert "def discounted" in first
        assert "test_ten_percent" in first
        assert "// 1000" in second

        session = await coder.approve(session.id)
    assert session.state == "merged"
    branch = f"placet/{session.id}"
    after = fingerprint(top)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # A folder for branches of ours, and the branch in it; and the same for its log.
    assert {name.partition("refs/heads/")[2] for name in changed} == {"placet", branch}
    assert git(top, "log", "--format=%s", f"HEAD..{branch}").strip() == "the discount is wrong"
    assert git(top, "diff", "--name-only", "HEAD", branch).split() == ["shop/prices.py"]
    assert CLOSING in git(top, "log", "-1", "--format=%B", branch)


async def test_the_persons_changes_can_be_included(tmp_path: Path) -> None:
    here = Workbench(tmp_path, FILES)
    top = here.repository
    (top / "shop" / "cli.py").write_text("# mine\n")
    (top / "new.txt").write_text("not added\n")
    before = fingerprint(top)
    with here.coder([RIGHT, CLOSING]) as coder:
        session = await coder.run("the discount is wrong", [CHECK], include_changes=True)
        assert fingerprint(top) == before
        diff = await coder.diff(session.id)
        assert "mine" not in diff
        session = await coder.approve(session.id)
    branch = f"placet/{session.id}"
    assert git(top, "show", f"{branch}:shop/cli.py") == "# mine\n"
    assert git(top, "show", f"{branch}:new.txt") == "not added\n"
    assert git(top, "rev-list", "--count", f"HEAD..{branch}").strip() == "1"


async def test_the_commit_has_the_intent_cut_between_words_and_the_closing_text_as_it_was(
    tmp_path: Path,
) -> None:
    here = Workbench(tmp_path, FILES)
    intent = "the discount is wrong by a factor of ten for every price that has been entered without decimals"
    with here.coder([RIGHT, "It was the divisor.\n\n- 1000 became 100"]) as coder:
        session = await coder.run(intent, [CHECK], approve=True)

    said = git(here.repository, "log", "-1", "--format=%B", session.branch)
    subject, _, body = said.partition("\n\n")
    assert len(subject) <= 72
    assert intent.startswith(subject.removesuffix("…") + " ")
    assert intent in body
    assert "It was the divisor.\n\n- 1000 became 100\n" in body


async def learn(here: Workbench) -> None:
    with here.coder([call("read_file", path="README.md"), WRONG, "fixed", RIGHT, CLOSING]) as coder:
        coder.runtime.policies.add("reads", MarkOutput(tool="read_file", marks=["secret"]))
        session = await coder.run("the discount is wrong", [CHECK])
        assert session.is_green
        await coder.deny(session.id)


async def test_the_same_failure_later_brings_the_hint_and_another_does_not(tmp_path: Path) -> None:
    here = Workbench(tmp_path, FILES)
    await learn(here)

    model = Scripted([RIGHT, "applied it"])
    with here.coder(model) as coder:
        session = await coder.run("prices look odd", [CHECK])
    assert session.is_green
    assert CLOSING in user_text(model.requests[0])
    (iteration,) = session.attempts[0].iterations
    assert iteration.hint is not None
    assert iteration.labels is not None
    assert iteration.labels["secret"][0] == f"repair {iteration.hint}", "the session that learned it read one"

    other = Scripted([call("write_file", path="ok.txt", text="x"), "made"])
    with here.coder(other) as coder:
        session = await coder.run("make ok.txt", ["test -f ok.txt || { echo no such thing; exit 9; }"])
    assert session.is_green
    assert CLOSING not in user_text(other.requests[0])


async def test_a_hint_that_did_not_help_loses_rank(tmp_path: Path) -> None:
    here = Workbench(tmp_path, FILES)
    await learn(here)

    def idle(request: Request) -> Any:
        return "I could not find it"

    shown = []
    for _ in range(4):
        model = Scripted(idle)
        with here.coder(model, limits=CodeLimits(iterations=1)) as coder:
            await coder.run("prices look odd", [CHECK])
        shown.append(CLOSING in user_text(model.requests[0]))
    assert shown[0] is True
    assert shown[-1] is False, shown


async def test_candidates_side_by_side_and_the_first_green_one_wins(tmp_path: Path) -> None:
    here = Workbench(tmp_path, FILES)
    temperatures: set[float | None] = set()
    stuck = asyncio.Event()

    async def model(request: Request) -> Any:
        temperatures.add(request.temperature)
        if request.temperature == 0.0:
            # The first candidate never answers: only because another one is green does this end.
            await stuck.wait()
        return RIGHT if len(request.messages) == 2 else CLOSING

    with here.coder(model) as coder:
        session = await coder.run("the discount is wrong", [CHECK], candidates=3)
    assert session.state == "needs_approval"
    assert session.winner in (2, 3)
    assert len(temperatures) == 3
    assert "green first" in session.attempts[0].ended
