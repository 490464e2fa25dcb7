# Every target does its own set-up: all that is needed is Python 3.11 or newer with its venv module.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOG := $(VENV)/install.log

# Tests start hundreds of programs, which would be compiled anew each time.
unexport PYTHONDONTWRITEBYTECODE

# Stores of tests live in memory where there is plenty: making and deleting thousands of files is half their time.
ROOMY := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 2>/dev/null && echo /dev/shm)
ifneq ($(ROOMY),)
  export PYTEST_DEBUG_TEMPROOT ?= $(ROOMY)
endif

FAST := -m "not slow and not server and not postgres" --ignore=tests/redis --ignore=tests/postgres

CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PROCESSES ?= $(shell echo $$(( $(CORES) + 2 )))
FAST_PROCESSES ?= $(shell echo $$(( $(CORES) + 1 )))

.DEFAULT_GOAL := help
.PHONY: help setup demo pictures test test-fast test-postgres test-redis chaos mutants lint format types contracts bench clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
	  printf '  make %-10s  %s\n' "$$target" "$$text"; done

setup: $(STAMP) ## Create .venv and install Headgate with its tools (once)

demo: $(STAMP) ## Watch limits at work
	@$(BIN)/headgate demo $(ARGS)

# Style, types and contracts are checked while the tests run, and reported behind them. Slow tests come first, and wait
# more than they compute: two more processes than cores run one test after the other.
test: $(STAMP) ## Everything CI checks: lint, types, import contracts, all tests
	@log=$$(mktemp); $(MAKE) --no-print-directory --keep-going lint types contracts >$$log 2>&1 & checks=$$!; \
	trap 'kill $$checks 2>/dev/null; rm -f $$log' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/pytest -n $(PROCESSES) --dist=load --maxschedchunk=1 -m "chaos or not (slow and (postgres or redis6))"; tests=$$?; \
	wait $$checks; checked=$$?; cat $$log; \
	test $$tests = 0 || echo "TESTS FAILED: see above"; \
	test $$checked = 0 || echo "LINT, TYPES OR CONTRACTS FAILED: see just above"; \
	test $$tests = 0 && test $$checked = 0

test-fast: $(STAMP) ## The quick tests, which need no server
	@$(BIN)/pytest -n $(FAST_PROCESSES) --dist=load --maxschedchunk=4 $(FAST) $(ARGS)

test-postgres: $(STAMP) ## All tests on PostgreSQL, also those that take long (CONTRIBUTING.md: other versions)
	@HEADGATE_DEADLOCK_SECONDS=60 $(BIN)/pytest -m postgres $(ARGS)

test-redis: $(STAMP) ## All tests on Redis and Valkey, also those that take long on the older one
	@$(BIN)/pytest -m server -n $(PROCESSES) --dist=load --maxschedchunk=1 $(ARGS)

# docs/operations/proof.md says what these two show.
ENGINE ?= all
MINUTES ?= 1
SEED ?= 1

chaos: $(STAMP) ## Do harm for a while and judge what came of it: ENGINE=postgres MINUTES=10 SEED=7
	@$(BIN)/python -m tests.chaos --engine $(ENGINE) --minutes $(MINUTES) --seed $(SEED) $(ARGS)

mutants: $(STAMP) ## Break one rule at a time and name the test that notices: ENGINE=sqlite
	@$(BIN)/python -m tests.mutants --engine $(ENGINE) $(ARGS)

lint: $(STAMP) ## Check style and formatting
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(STAMP) ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

types: $(STAMP) ## Check types (strict in src)
	@$(BIN)/pyright

contracts: $(STAMP) ## Check that imports point down only
	@$(BIN)/lint-imports --no-logo

bench: $(STAMP) ## Measure; make bench ARGS="..." passes arguments on
	@$(BIN)/python -m bench $(ARGS)

pictures: $(STAMP) ## Take the pictures of the operators' guide anew, in a real browser
	@$(BIN)/python -m tests.web.browser.pictures

clean: ## Remove .venv, caches and build results
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written only by a complete installation, so an interrupted one is taken up again.
$(STAMP): pyproject.toml | $(BIN)/python
	@rm -f $@
	@printf 'Installing Headgate and its tools into $(VENV) (a minute or two the first time) '
	@{ $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off 'pip>=25.1' 2>&1 \
	  && $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e '.[all]' --group dev 2>&1 \
	  && touch $@; } | tee $(LOG) | while read -r line; do printf .; done; echo
	@test -e $@ || { tail -n 25 $(LOG); echo "The installation failed; the whole log is in $(LOG)."; exit 1; }

# Some distributions ship venv without ensurepip. An outer pip can then put pip into the environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Headgate needs Python 3.11 or newer, and '$(PYTHON)' is not. Name one: make PYTHON=python3.12 ..."; \
	  exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	    && $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check pip; } 2>/dev/null \
	  || { rm -rf $(VENV); \
	    echo "'$(PYTHON) -m venv' cannot create an environment with pip."; \
	    echo "On Debian and Ubuntu: apt install python3-venv. Or name another Python: make PYTHON=... "; \
	    exit 1; }
