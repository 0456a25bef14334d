"""Models on this machine: their files, how they get here, and the server that all processes share."""
