"""A folder as it was: kept before work begins in it, and brought back if the work is given up.

store        snapshots in a folder of their own: taken, restored, dropped, pruned (taking, owner)
claims       who is at work in a folder, and who has been since a snapshot
manifest     what is known of a tree, as data
tree         a tree read by descriptors, and what of it is left out
contents     what files hold: as copies, or in a git object store of our own (git_store)
repository   what is a git repository beneath a workspace, read without running what stands in it
databases    the objects of repositories, linked and brought back
recovery     a workspace brought back: what was, what is others', what is told
restoring    a tree brought back by descriptors (removal, mounts)
branch       the branch of a linked worktree
"""
