"""Runs that outlive their process: who holds one, what it noted, how it ended."""
