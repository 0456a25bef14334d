"""Choosing among plans."""

from placet.planner.score import Feedback, Scored, rank

__all__ = ["Feedback", "Scored", "rank"]
