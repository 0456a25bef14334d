"""Judge a plan before it runs: verify, simulate, compare, simplify. Nothing here has an effect.

verify        every check, in one report
rehearsal     the plan gone through on paper, in serial order
simulation    the state that only exists there
outputs       what references will find
cautions      what would run, and is probably not meant
simulate, equivalent, optimize, transaction   one question each
"""

import sys
from types import ModuleType
from typing import Any

from assent.verify.equivalent import Difference, Equivalence, equivalent
from assent.verify.optimize import optimize
from assent.verify.report import Issue, KeyConflict, Report
from assent.verify.simulate import simulate
from assent.verify.transaction import Finding, transaction_check
from assent.verify.verify import verify

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


class _Package(ModuleType):
    """`assent.verify` names this package and the function in it; importing the package hides the function.
    So the package can be called, and `from assent import verify` works whatever was imported before."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        """The function `verify`."""
        return verify(*args, **kwargs)


sys.modules[__name__].__class__ = _Package
