"""All attacks and all ordinary commands, each under a name of its own."""

from __future__ import annotations

from tests.attacks.case import Case, by_name
from tests.attacks.cases_files import FILES
from tests.attacks.cases_git import GIT
from tests.attacks.cases_kernel import KERNEL
from tests.attacks.cases_limits import LIMITS
from tests.attacks.cases_network import NETWORK
from tests.attacks.cases_processes import PROCESSES
from tests.attacks.cases_secrets import SECRETS
from tests.attacks.cases_terminal import TERMINAL
from tests.attacks.ordinary import Ordinary
from tests.attacks.ordinary_git import WITH_GIT
from tests.attacks.ordinary_programs import WITH_PROGRAMS

BATCHES = [FILES, GIT, SECRETS, NETWORK, PROCESSES, KERNEL, LIMITS, TERMINAL]
TOGETHER = [[FILES, SECRETS, PROCESSES, TERMINAL], [GIT, NETWORK], [KERNEL, LIMITS]]
"""What one process runs: each takes longer to start than some of the kinds take."""
CASES: dict[str, Case] = by_name(BATCHES)
ORDINARY: dict[str, Ordinary] = {command.name: command for command in (*WITH_GIT, *WITH_PROGRAMS)}
