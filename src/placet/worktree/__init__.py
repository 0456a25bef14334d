"""Work on a git repository from outside of it: find it, take and restore trees, check out, export, publish.

git          the only way our own side runs git
repository   where the repository of a folder is, and which of its settings count
objects      a private object store that borrows the person's objects
checkout     files of a work tree, taken into a tree; and a tree, written out as files
worktree     private copies of a repository to work in
publish      the one commit that a session gives to the person, on a new branch
commit       the commit that the tool git_commit makes
snapshot     a folder as it is now, kept whole, and brought back; its repository only by taking commits back
file_index   the files of a folder, for telling what was changed between two looks
scratch      folders for the moment
"""
