"""Checks that decide whether a change is done: contract, running on an export, sealing, reports.

Used by `coder` and `loops`. Models and runs are unknown here: a change is a folder of files or a tree.
"""
