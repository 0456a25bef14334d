"""Choosing among plans."""

from assent.planner.score import Feedback, Scored, rank

__all__ = ["Feedback", "Scored", "rank"]
