"""What happened: an append-only log of events and spans, and where they go."""
