"""Texts as vectors, on this machine."""
