"""`python -m evals NAME [--json]`: run one of them."""

from __future__ import annotations

import sys

from evals import agents, calls, do, loops, secrets, skills, turns
from evals.code import score
from evals.flows import score as flows
from evals.memory import score as memory

EVALS = {
    "calls": calls.main,
    "turns": turns.main,
    "do": do.main,
    "code": score.main,
    "agents": agents.main,
    "loops": loops.main,
    "flows": flows.main,
    "secrets": secrets.main,
    "memory": memory.main,
    "skills": skills.main,
}


def main(arguments: list[str]) -> int:
    """The exit code: 0 measured, 2 no such one, or it could not be run."""
    name, *rest = arguments or [""]
    if name not in EVALS:
        print(f"usage: python -m evals {{{','.join(EVALS)}}} [--json] [--model NAME] ...", file=sys.stderr)
        return 2
    return EVALS[name](rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
