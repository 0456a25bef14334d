"""The coding loop: a model works in a private copy until checks that it cannot bend are green.

contract    what must hold, and what came of checking it
sealing     the files that checks depend on, which a change may not touch
checks      running the checks on a fresh export
workshop    the private repository of a session: attempts, exports, the diff, the published commit
reports     what test programs say of themselves; command_line, what a check runs; conventions, sealed names
signature   what a failure is known by; repairs, what helped against it before; learning, how it gets there
context     the part of a program that a failure is about, from program, python_source and failure_report
style       how a model is led; prompt, what it is told; asking, what it may ask
session     what is kept of a session; store, where
attempt     the iterations of one candidate
work        a session that is being worked on
beginning   whether a session can begin as it is asked for
leading     a session from state to state; drafting, a contract by the model; closing, how it is let go of
coder       what callers use
"""
