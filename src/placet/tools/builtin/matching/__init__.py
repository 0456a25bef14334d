"""Which paths fit a glob, and which lines beneath a folder fit a regular expression.

    globs    patterns for paths
    walk     what is beneath an open folder
    needles  which files cannot hold a match
    lines    grep, also as a program of its own

Keep true:
1. `lines` is started as a program for every grep: only quick imports, only from the standard library.
2. Imports within this folder are relative: the program finds it as `matching`, without the rest of Placet.
"""
