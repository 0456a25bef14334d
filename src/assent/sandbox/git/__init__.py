"""Git inside a sandbox, by a view that stands in for the repository's git folder.

trusted      the only way our own side runs git
repository   where the git folder of a workspace is, and whose commits these are
settings     the config that the view gets: data only
submodules   folders that git outside looks into
folder       a folder into which others write, handled by descriptor
refs         branches and tags, read as files
checkout     what one side has: refs, HEAD, index, a merge that is going on; and what both agreed on
view         the folder that is mounted inside, brought up to date before a command
bring_over   what changed inside, brought to the repository after a command (quarantine, index, writing)
"""
