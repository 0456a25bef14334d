"""The command line: parse, call, draw, exit. Nothing is decided here.

    main      the group of commands, and how errors become exit codes
    inputs    the options that commands share
    output    what goes to stdout, what to stderr, and what a closed pipe means
    progress  a run while it goes on
    wording   what only the command line can say
    run  verify  graph  explain  tools    one command each

Keep true:
1. Results go to stdout, talk to stderr; with `--json` stdout holds one JSON object and nothing else.
2. Modules here import only click at the top, so that `placet --help` is instant.
3. Exit codes: 0 done as asked, 1 it ran and did not succeed, 2 bad input or usage, 3 the plan is invalid or
   refused, 4 waiting for a person; 130 after Ctrl-C, 143 after SIGTERM.
"""
