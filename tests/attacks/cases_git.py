"""Attacks on the repository that the workspace is a worktree of, and on whoever works in it next.

A command that is planted writes into `outside`, which nothing inside can reach: if that is seen, our own git
has run what the attack wrote.
"""

from __future__ import annotations

from tests.attacks.case import Batch

GIT = Batch("git")

_PLANT = """
cat > evil.sh <<'END'
#!/bin/sh
echo planted > "$OUTSIDE/file" || true
cat
END
chmod +x evil.sh
evil="$WORK/evil.sh"
own=$(git rev-parse --absolute-git-dir)
common=$(git rev-parse --path-format=absolute --git-common-dir)
git config user.email a@example.org; git config user.name A
"""

# Hooks and settings

GIT.sh(
    "hook in the parent",
    "fs_write",
    'echo evil > "$PARENT/.git/hooks/post-commit"; chmod +x "$PARENT/.git/hooks/post-commit"',
)
GIT.sh(
    "hooks where git says they are",
    "fs_write",
    _PLANT
    + """
for name in pre-commit post-commit reference-transaction post-index-change pre-auto-gc post-checkout; do
    for folder in "$common/hooks" "$own/hooks"; do
        mkdir -p "$folder"; cp evil.sh "$folder/$name"
    done
done
echo more >> README; git add -A; git commit -q -m more
""",
)
GIT.sh(
    "settings of the parent", "fs_write", 'printf "[core]\\n\\tfsmonitor = evil\\n" >> "$PARENT/.git/config"'
)
GIT.sh(
    "settings by git",
    "fs_write",
    _PLANT
    + """
git config core.fsmonitor "$evil"; git config core.hooksPath "$WORK"; git config core.sshCommand "$evil"
git config core.pager "$evil"; git config core.editor "$evil"; git config diff.external "$evil"
git config gpg.program "$evil"; git config commit.gpgSign true; git config credential.helper "$evil"
git config uploadpack.packObjectsHook "$evil"; git config core.alternateRefsCommand "$evil"
echo more >> README; git add -A; git -c commit.gpgSign=false commit -q -m more
""",
)
GIT.sh(
    "settings of the worktree",
    "fs_write",
    _PLANT
    + """
git config extensions.worktreeConfig true
git config --worktree core.fsmonitor "$evil"; git config --worktree core.hooksPath "$WORK"
printf '[core]\\n\\tfsmonitor = %s\\n' "$evil" > "$PARENT/.git/worktrees/work/config.worktree"
printf '[core]\\n\\tfsmonitor = %s\\n' "$evil" > "$own/config.worktree"
echo more >> README; git commit -qam more
""",
)
GIT.sh(
    "settings taken from a file of the workspace",
    "fs_write",
    _PLANT
    + """
printf '[core]\\n\\tfsmonitor = %s\\n' "$evil" > extra
git config include.path "$WORK/extra"; git config includeIf.gitdir:/.path "$WORK/extra"
echo more >> README; git commit -qam more
""",
)
GIT.sh(
    "filter",
    "fs_write",
    _PLANT
    + """
echo '* filter=evil diff=evil merge=evil' > .gitattributes
mkdir -p "$common/info"; cp .gitattributes "$common/info/attributes"; echo '*' > "$common/info/exclude"
git config filter.evil.clean "$evil"
git config filter.evil.smudge "$evil"
git config filter.evil.process "$evil"
git config diff.evil.textconv "$evil"
git config diff.evil.command "$evil"
git config merge.evil.driver "$evil"
echo more >> README; git add -A; git commit -q -m more
""",
)

# Which repository it is

GIT.sh("pointer of the workspace", "fs_write", 'echo "gitdir: $WORK/evil" > .git')
GIT.sh(
    "pointer replaced by a folder",
    "fs_write",
    'mv .git aside; rm -f .git; git init -q . ; git config core.fsmonitor "$WORK/evil"',
)
GIT.sh(
    "way to the parent",
    "fs_write",
    _PLANT + 'for f in "$PARENT/.git/worktrees/work" "$own"; do echo "$WORK/evil" > "$f/commondir"; done',
)
GIT.sh(
    "way back from the parent",
    "fs_write",
    _PLANT + 'for f in "$PARENT/.git/worktrees/work" "$own"; do echo "$WORK/evil" > "$f/gitdir"; done',
)
GIT.sh(
    "worktrees",
    "fs_write",
    """
git worktree add -q ../evil
git worktree prune
git worktree remove --force "$PARENT"
git worktree lock .
git worktree move . ../moved
""",
)
GIT.sh(
    "a repository below",
    "fs_write",
    _PLANT
    + r"""
git init -q below
git -C below config core.fsmonitor "$evil"
git -C below -c core.fsmonitor= commit -q --allow-empty -m x
mkdir below2
cp -r below/.git/. below2/
printf '[submodule "s"]\n\tpath = below\n\turl = ext::sh -c evil\n\tupdate = !%s\n' "$evil" > .gitmodules
git add -A; git commit -q -m below; git submodule update --init
""",
)

# Branches, tags, what was put aside

GIT.sh(
    "branch of somebody else",
    "fs_write",
    _PLANT
    + "git commit -q --allow-empty -m evil; git branch -f release HEAD; git update-ref refs/heads/main HEAD",
)
GIT.sh(
    "tag moved", "fs_write", _PLANT + "git commit -q --allow-empty -m evil; git tag -f v1 HEAD; git tag -d v1"
)
GIT.sh(
    "branches removed",
    "fs_write",
    "git branch -D release; git update-ref -d refs/heads/main; git update-ref -d refs/tags/v1",
)
GIT.sh(
    "commit to another branch",
    "fs_write",
    _PLANT + 'echo "ref: refs/heads/main" > "$own/HEAD"; git commit -q --allow-empty -m evil',
)
GIT.sh(
    "references as files",
    "fs_write",
    _PLANT
    + r"""
git commit -q --allow-empty -m e
n=$(git rev-parse HEAD)
mkdir -p "$common/refs/heads"
echo $n > "$common/refs/heads/release"
{
    echo "# pack-refs with: peeled fully-peeled sorted"
    echo "$n refs/heads/main"
    echo "$n refs/tags/v1"
} > "$common/packed-refs"
for r in main release
do echo $n > "$PARENT/.git/refs/heads/$r"
done
""",
)
GIT.sh(
    "what was put aside",
    "fs_write",
    """
git stash drop
git stash clear
git update-ref -d refs/stash
rm -f "$PARENT/.git/refs/stash" "$PARENT/.git/logs/refs/stash"
""",
)
GIT.sh(
    "history of the branches", "fs_write", 'git reflog expire --expire=now --all; rm -rf "$PARENT/.git/logs"'
)
GIT.sh(
    "odd names of branches",
    "fs_write",
    _PLANT
    + r"""
n=$(git rev-parse HEAD)
for name in heads/--upload-pack=evil heads/a..b heads/x.lock "heads/$(printf 'a\nb')" remotes/origin/main \
    heads/../../hooks/evil; do
    name="refs/$name"
    mkdir -p "$(dirname "$common/$name")"; echo $n > "$common/$name"
done
git commit -q --allow-empty -m more
""",
)

# Objects

GIT.sh(
    "objects damaged",
    "fs_write",
    """
find "$PARENT/.git/objects" -type f -exec chmod u+w {} + -exec sh -c 'for f
do echo evil > "$f"
done' _ {} +
""",
)
GIT.sh(
    "objects removed",
    "fs_write",
    'git gc -q --prune=now; git prune --expire=now; rm -rf "$PARENT"/.git/objects/??',
)
GIT.sh(
    "objects from elsewhere",
    "fs_write",
    _PLANT
    + """
mkdir -p "$PARENT/.git/objects/info"
echo "$WORK" > "$PARENT/.git/objects/info/alternates"
echo "$WORK" > "$common/objects/info/alternates"
git commit -q --allow-empty -m more
""",
)

# What our own side reads afterwards

GIT.sh(
    "a link for a branch",
    "fs_write",
    _PLANT
    + """
git commit -q --allow-empty -m more
for f in "$common/refs/heads/agent" "$own/HEAD" "$own/index" "$common/packed-refs" "$own/logs/HEAD"
do rm -f "$f"
ln -s "$OUTSIDE/target" "$f"
done
echo evil > "$own/index"
""",
    bare=True,
)
GIT.sh(
    "a link to a secret for a branch",
    "fs_read",
    _PLANT
    + """
for f in "$common/refs/heads/agent" "$own/HEAD" "$own/index" "$own/MERGE_HEAD" "$own/COMMIT_EDITMSG"
do rm -f "$f"
ln -s "$OUTSIDE/secret" "$f"
done
cat "$own/HEAD"
""",
)
GIT.sh(
    "a fifo for a branch",
    "fs_write",
    _PLANT
    + """
for f in "$common/refs/heads/agent" "$own/HEAD" "$own/index" "$common/config" "$common/packed-refs"
do rm -f "$f"
mkfifo "$f"
done
""",
)
GIT.sh(
    "a folder that links out",
    "fs_write",
    _PLANT
    + """
git commit -q --allow-empty -m more
for f in refs objects logs
do rm -rf "$common/$f"
ln -s "$OUTSIDE/folder" "$common/$f"
done
rm -rf "$own/logs"
ln -s "$OUTSIDE/folder" "$own/logs"
""",
)
GIT.sh(
    "files of the parent",
    "fs_write",
    """
echo evil > "$PARENT/README"
git --work-tree="$PARENT" checkout -f v1 -- .
git -C "$PARENT" commit -q --allow-empty -m evil
""",
)

# Every way into the git folder, of which nothing may change

GIT.sh("a commit", "fs_write", _PLANT + "echo more >> README; git add -A; git commit -q -m more; git stash")
GIT.sh("staging", "fs_write", "echo more >> README; git add -A; git rm -q --cached program.py")
GIT.sh("objects of its own", "fs_write", "git hash-object -w README; echo x | git hash-object -w --stdin")
GIT.sh(
    "links into the git folder",
    "fs_write",
    """
ln -s "$PARENT/.git" l; echo evil > l/config; ln -s "$PARENT/.git/hooks" h; echo evil > h/post-checkout
cd l && echo evil > description
""",
)
GIT.sh(
    "hard links to the git folder",
    "fs_write",
    'ln "$PARENT/.git/config" c && echo evil >> c; ln README "$PARENT/.git/hooks/pre-push"',
)
GIT.sh(
    "the git folder renamed",
    "fs_write",
    """
mv "$PARENT/.git/config" "$PARENT/.git/old"; mv README "$PARENT/.git/config"
mv "$PARENT/.git/worktrees" "$PARENT/.git/trees"; mv "$PARENT/.git" "$PARENT/away"
""",
)
GIT.sh(
    "other spellings of the git folder",
    "fs_write",
    """
echo evil > "$PARENT/.git/../.git//config"; cd "$PARENT/.git/hooks" && echo evil > ../config
exec 9<"$PARENT/.git"; echo evil > /proc/self/fd/9/config
""",
)
GIT.sh(
    "by variables of git",
    "fs_write",
    """
GIT_DIR="$PARENT/.git" git config core.fsmonitor evil
GIT_DIR="$PARENT/.git" GIT_WORK_TREE="$WORK" git update-ref refs/heads/main HEAD~0 2>&1 || true
GIT_COMMON_DIR="$PARENT/.git" GIT_DIR="$PARENT/.git" git tag evil
GIT_CONFIG_GLOBAL="$PARENT/.git/config" git config --global core.pager evil
GIT_OBJECT_DIRECTORY="$PARENT/.git/objects" git hash-object -w README
GIT_TRACE="$PARENT/.git/hooks/evil" git status
""",
)
GIT.sh(
    "objects borrowed from the workspace",
    "fs_write",
    """
git init -q own
for f in "$PARENT/.git/objects/info" own/.git/objects/info; do
    mkdir -p "$f"; echo "$WORK/own/.git/objects" > "$f/alternates"
done
""",
)
GIT.sh(
    "pointer files of the worktree",
    "fs_write",
    """
rm -f .git; echo "gitdir: $WORK/own" > .git; ln -sf own .git; mkdir .git
echo "$WORK/.git" > "$PARENT/.git/worktrees/work/gitdir"; rm -rf "$PARENT/.git/worktrees/work"
""",
)
