"""Everyday work with git: in a linked worktree, which is what the coder works in, and in a main checkout."""

from __future__ import annotations

from tests.attacks.ordinary import Ordinary

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
        name="git in a main checkout",
        repository="main",
        text="echo more >> README; git status --short; git diff --stat; git log --oneline; git stash list",
        says=(" M README", "README | 1 +", "first"),
    ),
    Ordinary(
        name="git branches and worktrees",
        repository="worktree",
        text="git branch --list; git worktree list; git rev-parse HEAD; git describe --always",
        says=("agent", "main", "parent"),
    ),
    Ordinary(
        name="git archive",
        repository="main",
        text="git archive HEAD | tar -xO README; git ls-tree HEAD; git cat-file -p HEAD; git rev-list HEAD",
        says=("first", "README", "tree "),
    ),
    Ordinary(
        name="git with an index of its own",
        repository="main",
        text="""
export GIT_INDEX_FILE=/tmp/index
git read-tree HEAD
git update-index -q --refresh
git diff-files --name-only
git ls-files
""",
        says=("README",),
    ),
    Ordinary(
        name="git clone",
        repository="main",
        text="""
git clone -q . copy &&
    cd copy &&
    git config user.name A &&
    git config user.email a@example.org &&
    echo more >> README &&
    git commit -qam second &&
    git stash list &&
    git log --format=%s
""",
        says=("second", "first"),
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
