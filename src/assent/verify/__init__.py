"""Judge a plan before it runs: verify, simulate, compare, simplify. Nothing here has an effect."""

from assent.verify.report import Issue, Report
from assent.verify.verify import verify

__all__ = ["Issue", "Report", "verify"]
