"""Judge a plan before it runs: verify, simulate, compare, simplify. Nothing here has an effect.

verify        every check, in one report
rehearsal     the plan gone through on paper, in serial order
simulation    the state that only exists there
outputs       what references will find
cautions      what would run, and is probably not meant
simulate, equivalent, optimize, transaction   one question each
"""

from placet.verify.equivalent import Difference, Equivalence, equivalent
from placet.verify.optimize import optimize
from placet.verify.report import Issue, KeyConflict, Report
from placet.verify.simulate import simulate
from placet.verify.transaction import Finding, transaction_check
from placet.verify.verify import verify

__all__ = [
    "Difference",
    "Equivalence",
    "Finding",
    "Issue",
    "KeyConflict",
    "Report",
    "equivalent",
    "optimize",
    "simulate",
    "transaction_check",
    "verify",
]
