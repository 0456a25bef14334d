"""Git inside a sandbox, by a view that stands in for the repository's git folder.

trusted      the only way our own side runs git
repository   where the git folder of a workspace is, and whose commits these are
settings     the config that the view gets: data only
nested       submodules and worktrees beneath, which git outside looks into
folder       a folder into which others write, handled by descriptor
refs         branches and tags, read as files
checkout     what one side has: refs, HEAD, index, a merge that is going on; and what both agreed on
soundness    whether git inside can use what commands have left
view         the folder that is mounted inside, brought up to date before a command
bring_over   what changed inside, brought to the repository after a command (quarantine, index, writing,
             lock_note)
"""
