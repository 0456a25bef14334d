"""Tools that come with Assent: files, search, commands, the web, arithmetic, the clock."""
