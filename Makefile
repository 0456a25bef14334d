# Everything here works from a fresh clone with Python 3.11 or newer. Run `make` for the list.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Two more than the cores of a small machine: many tests wait for other processes.
PYTEST_ARGS ?= -q -n 4 --dist worksteal
BENCH_ARGS ?=
EVAL_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test fmt api docs docs-serve bench eval-calls eval-turns eval-do eval-code eval-agents eval-loops eval-flows eval-secrets eval-memory eval-skills mutants soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## a model does a small job, and you see every step (MODEL=openai:... to use a key)
	@$(BIN)/python examples/demo.py $(if $(MODEL),--model '$(MODEL)')

# Every step runs even if an earlier one failed, so that one run shows everything there is to mend.
# A few tests that failed are run once more, alone, and named if they pass then: `tests/second_look.py` says why.
# The local model is over 1 GB: it is fetched beside the first steps, and kept for the next time. Types are
# checked beside the tests, which leave a core to spare now and then.
test: $(STAMP) ## format, lint, strict types, tests (what CI runs)
	@failed=""; note=""; \
	step() { \
	    name="$$1"; shift; \
	    printf '==> %s\n' "$$name"; \
	    "$$@" || failed="$$failed\n  $$name"; \
	}; \
	tests() { \
	    $(BIN)/python -m pytest $(PYTEST_ARGS) && return; \
	    note=' (some tests on a second look only: see UNSTEADY above)'; \
	    $(BIN)/python -m tests.second_look; \
	}; \
	types() { wait $$checking; code=$$?; cat "$$said"; rm -f "$$said"; return $$code; }; \
	said=$$(mktemp); \
	$(BIN)/mypy >"$$said" 2>&1 & checking=$$!; \
	$(BIN)/python -m tests.servers.local_model & fetching=$$!; \
	step 'format (mend it with: make fmt)' $(BIN)/ruff format --check --quiet .; \
	step 'lint' $(BIN)/ruff check --quiet .; \
	step 'postgres' $(BIN)/python -m tests.servers.postgres; \
	step 'programs' $(BIN)/python -m tests.servers.programs; \
	step 'MCP conformance' $(BIN)/python -m tests.servers.conformance; \
	step 'aimock' $(BIN)/python -m tests.servers.aimock; \
	step 'temporal' $(BIN)/python -m tests.servers.temporal; \
	step 'local model' wait $$fetching; \
	step 'tests' tests; \
	step 'types' types; \
	if [ -n "$$failed" ]; then printf "\nFAILED:$$failed\n" >&2; exit 1; fi; \
	printf '\nall checks passed%s\n' "$$note"

setup: $(STAMP) ## make .venv, and nothing else

fmt: $(STAMP) ## format the code and mend what the linter can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

api: $(STAMP) ## write the Python API reference from the docstrings
	@$(BIN)/python -m apidocs

# mkdocs-material speaks of its successor at every start; that is nothing to act on while building.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

docs: $(STAMP) ## build the documentation site into site/, ready to open; any warning is an error
	@$(MKDOCS) build --quiet
	@echo "open site/index.html"

docs-serve: $(STAMP) ## show the site on http://127.0.0.1:8000, renewed while you write
	@$(MKDOCS) serve --no-strict --dev-addr 127.0.0.1:8000

bench: $(STAMP) ## measure: ratios against bare asyncio and a peer, in one run (BENCH_ARGS=--json)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

eval-calls: $(STAMP) ## ten single tool calls with the real model on this machine, with the score
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals calls $(EVAL_ARGS)

eval-turns: $(STAMP) ## ten small jobs of two to five steps with the same model, solved or not
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals turns $(EVAL_ARGS)

eval-do: $(STAMP) ## everyday jobs with the assistant and the same model: solved, wrong and marked, wrong and not marked
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals do $(EVAL_ARGS)

eval-code: $(STAMP) ## small programs with one bug each, mended in the coding loop with the same model, or not
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals code $(EVAL_ARGS)

eval-agents: $(STAMP) ## the example agents on their scenarios three times, and five agents built, with the same model
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals agents $(EVAL_ARGS)

eval-loops: $(STAMP) ## a loop that keeps a changelog, round by round with the same model
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals loops $(EVAL_ARGS)

eval-flows: $(STAMP) ## flow rules on ordinary tasks and injections, without and with sources; needs no model
	@$(BIN)/python -m evals flows $(EVAL_ARGS)

eval-secrets: $(STAMP) ## secrets that are found by name or shape, and harmless text that is taken for one
	@$(BIN)/python -m evals secrets $(EVAL_ARGS)

eval-skills: $(STAMP) ## a skill learned, tried, degraded and repaired with the local model; and the rule by which skills stay
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals skills $(EVAL_ARGS)

eval-memory: $(STAMP) ## paraphrased questions over conversations: is the fact found, and how much else
	@$(BIN)/python -m tests.servers.local_model
	@$(BIN)/python -m evals memory $(EVAL_ARGS)

soak: $(STAMP) ## the property, fault and kill tests with twenty times the examples
	@$(BIN)/python -m tests.servers.postgres
	@PLACET_SOAK=1 $(BIN)/python -m pytest -q -n auto --timeout 7200 tests/properties tests/faults \
	    tests/durable tests/engine tests/attacks tests/examples tests/turns tests/render tests/verify tests/coder tests/agents tests/loops tests/memory tests/packaging tests/docs/test_commands.py tests/test_redaction.py

mutants: $(STAMP) ## break the code in small ways, one at a time; each must turn a test red
	@$(BIN)/python tests/mutants/run.py "$(ONLY)"

clean: ## remove the environments and caches
	rm -rf .venv benchmarks/.peer-venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PIP_CONSTRAINT also reaches the environment in which the package itself is built. On a terminal a dot every
# two seconds says that it goes on; the dots end with the shell of the recipe, also after Ctrl-C.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Placet needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	    echo "Name another one with: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "Setting up .venv (once; one to three minutes)"
	@dots=""; if [ -t 1 ]; then (while sleep 2 && kill -0 $$$$ 2>/dev/null; do printf .; done) & dots=$$!; fi; \
	rest() { if [ -n "$$dots" ]; then kill $$dots; echo; fi; }; \
	$(PYTHON) -m venv .venv || { rest; \
	    echo "Could not make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	    $(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'; code=$$?; \
	rest; exit $$code
	@touch $@
