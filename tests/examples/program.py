"""Run a program (`program.py PYTHON PROGRAM ARGUMENTS...`) to which another file is its interpreter, so that
the tests choose how the command lines start that it runs."""

import os
import runpy
import sys

sys.executable, *sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
