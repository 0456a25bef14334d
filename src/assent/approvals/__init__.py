"""What a person is asked before an action runs, and what the person said: objects that outlive the process."""
