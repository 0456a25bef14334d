"""Agents as data: written down, held to their tools, tried on scenarios, combined."""
