"""The only place where data becomes effect."""
