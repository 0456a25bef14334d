"""What stands around a model, at the one seam: a wrapper is a model, and may be wrapped again.

    wrapped      what all of them share: the name of the model inside, and how it is closed
    stopping     waiting for something until it is called off or its time is up
    limits       a total time, and a request's own cancel
    retry        once more, where that may help
    reasoning    what a model thought, apart from what it said
    recording    every answer into a file
    replaying    answers out of such a file, and no model
    digests      what tells one request from another, without reading the conversation anew each time
    record_file  the file of a recording: whole lines, for its owner alone
    divergence   in what a request differs from all that were recorded

Keep true:
1. A wrapper implements `stream` alone; `generate` is derived from it, in `Wrapped`.
2. Nothing is kept of a stream that was closed: closing goes through to the innermost.
"""
