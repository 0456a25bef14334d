"""Drawing for people: what a plan looks like, how a run stands, what happened.

    text       untrusted text made harmless and short
    wrapping   long lines broken between words
    marks      one mark, word and colour per status
    questions  what a person was asked about an action, and the answer
    steps      the actions of a run, and how each stands
    turns      what a model said and asked for, where one leads a run
    history    a run put together again from its events
    tree       a run as a tree, live or finished; a run of turns as a tree
    timeline   events as lines
    step_story what became of one action, told in sentences
    turn_story a run of turns told in sentences
    story      a run told in sentences
    advice     what to do next
    report     what verify found, and which tools there are
    policy     what the rules say of a plan, and how cases went
    approvals  what waits for a person, and what was decided
    layout     where the boxes of a plan go
    graph_svg  a plan as a picture

Keep true:
1. Drawing changes nothing and reads nothing but what it is handed.
2. Every text from a plan, a tool or a log passes `text.clean` before it is shown.
3. Nothing is said by colour alone.
"""
