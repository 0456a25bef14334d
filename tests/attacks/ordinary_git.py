"""Everyday work with git: in a linked worktree, which is what the coder works in, and in a main checkout."""

from __future__ import annotations

from tests.attacks.ordinary import Ordinary

_SETUP = (
    "git config user.name >/dev/null || { git config user.name A; git config user.email a@example.org; }; "
)

WITH_GIT = [
    Ordinary(
        name="git status",
        repository="worktree",
        text="echo more >> README; git status --short > out; git branch --show-current >> out",
        makes={"out": " M README"},
    ),
    Ordinary(
        name="git diff and log",
        repository="worktree",
        text="echo more >> README; git diff; git log --oneline; git show --stat HEAD",
        says=("+more", "first"),
    ),
    Ordinary(
        name="git commit",
        repository="worktree",
        text=_SETUP + "echo more >> README; git add -A; git commit -q -m second; git log -1 --format=%s",
        says=("second",),
        commits="second",
    ),
    Ordinary(
        name="git commit twice",
        repository="worktree",
        text=_SETUP
        + "for i in 1 2; do echo $i >> README; git commit -qam change-$i; done; git log --format=%s",
        says=("change-1", "first"),
        commits="change-2",
    ),
    Ordinary(
        name="git stash",
        repository="worktree",
        text=_SETUP
        + """
echo more >> README
git stash push -q
grep more README &&
    echo still there
git stash list
git stash pop -q
cat README
""",
        says=("stash@{0}", "more"),
    ),
    Ordinary(
        name="git branch and switch",
        repository="worktree",
        text=_SETUP
        + """
git switch -q -c topic
echo x > new
git add new
git commit -q -m topic
git switch -q agent
test ! -e new
git branch --list
""",
        says=("topic", "agent"),
    ),
    Ordinary(
        name="git reset, restore and amend",
        repository="worktree",
        text=_SETUP
        + """
echo a >> README
git commit -qam a
git commit -q --amend -m b
echo c >> README
git restore README
git reset -q --soft HEAD~1
git commit -q -m d
git status --short
""",
        commits="d",
    ),
    Ordinary(
        name="git merge",
        repository="worktree",
        text=_SETUP
        + """
git switch -q -c side
echo x > x
git add x
git commit -q -m side
git switch -q agent
echo y > y
git add y
git commit -q -m own
git merge -q --no-edit -m merged side
ls
""",
        says=("x", "y"),
        commits="merged",
    ),
    Ordinary(
        name="git in a main checkout",
        repository="main",
        text=_SETUP
        + "echo more >> README; git status --short; git add -A; git commit -q -m second; git log --oneline",
        says=(" M README", "second"),
        commits="second",
    ),
    Ordinary(
        name="git stash in a main checkout",
        repository="main",
        text=_SETUP
        + "echo more >> README; git stash push -q -m kept; git stash list; git stash pop -q; cat README",
        says=("kept", "more"),
    ),
    Ordinary(
        name="git blame and grep",
        repository="main",
        text="git blame README; git grep -n first; git ls-files",
        says=("first", "README"),
    ),
    Ordinary(
        name="a new repository",
        text="""
git init -q -b main inner &&
    cd inner &&
    git config user.name A &&
    git config user.email a@example.org &&
    echo x > x &&
    git add x &&
    git commit -q -m inner &&
    git log --format=%s
""",
        says=("inner",),
    ),
]
