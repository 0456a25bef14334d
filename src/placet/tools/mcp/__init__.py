"""Tools of MCP servers, as tools like any other.

    server        what a person has stored of a server, and what a server offers
    declared      servers that a program declares
    content       what a server answered, as JSON
    stdio         a server that is a command: started, spoken to line by line, ended
    http          a server that is a URL
    traffic       what goes over a connection: watched, bounded, sorted out
    link          one live connection to one server
    connections   all of them, in one thread; and the tools that call through them

Keep true:
1. Importing this package imports nothing of the SDK: a stored tool costs nothing until it is called.
2. A server says what it likes; nothing it says about itself lowers a risk or reaches a terminal uncleaned.
"""
