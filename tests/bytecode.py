"""Compiled modules are kept, also where Python may not keep them (PYTHONDONTWRITEBYTECODE).

Imported before anything else: pytest rewrites the assertions of tests and of its plugins, Hypothesis among
them, and compiling those again takes longer than loading all the rest.
"""

import sys

sys.dont_write_bytecode = False
