"""What a person is asked before an action runs, and what the person said; kept beyond the process."""
