"""Faces for programs: what speaks a protocol instead of to a person."""
