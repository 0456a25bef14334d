"""What the plan knows: keys, JSON values, and a log of every change."""
