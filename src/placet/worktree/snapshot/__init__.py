"""A folder as it was: kept before work begins in it, and restored if the work is given up.

store        snapshots in a folder of their own: taken, restored, dropped, pruned (taking, owner)
claims       which run is at work in a folder, and which have been since a snapshot
manifest     names, modes, times and kinds of everything in a tree, as data
tree         reads a tree by descriptors, and says what of it is left out
blobs        contents of files, in a private git folder
git_state    the repository of a workspace: its commits are undone, other changes reported
recovery     restores a workspace: files, commits, report
restoring    restores a tree by descriptors (removal, mounts)
"""
