"""What stands around a call: earlier answers, and how often a tool may start."""
