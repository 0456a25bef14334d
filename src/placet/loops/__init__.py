"""Governed loops: when to run, how far, when to stop."""
