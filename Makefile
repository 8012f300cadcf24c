# Everything that is done to this repository. Each target sets up what it needs: .venv with stamp files in it.
# A new machine needs Python 3.11 or later and make, nothing else.

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/ready

# The first interpreter that is new enough and can make virtual environments: `make PYTHON=python3.12 test`.
PYTHON ?= $(firstword $(foreach p,python3.11 python3 python python3.12 python3.13,\
  $(if $(shell $(p) -c 'import ensurepip, sys; print(1 if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(p))))

PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTEST := $(BIN)/python -m pytest
TESTS  := sh tools/tests.sh $(PYTEST)
SOURCE  = $(shell find src -name '*.py')
FULL   := HYPERFRAMES_HYPOTHESIS=$${HYPERFRAMES_HYPOTHESIS:-full}
# Tests picked by ARGS may all be of one kind; pytest then calls the other kind's empty run a failure (5).
NONE_IS_FINE = $(if $(strip $(ARGS)),|| [ $$? -eq 5 ])
CHECKS := fast types lint layers

.DEFAULT_GOAL := help
.PHONY: help demo test check fast lint types layers bench rivals docs size requirements nightly coverage debian hooks clean

help:  ## say what can be made
	@grep -hE '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed 's/:.*  ## /\t/' | expand -t 14 | sort

# Set-up ---------------------------------------------------------------------------------------------------------------

$(READY)-venv:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or later with venv found" >&2; \
	  echo "hint: install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(READY)-demo: $(READY)-venv pyproject.toml
	@echo "installing into $(VENV) (about a minute; downloads Python packages only)"
	$(PIP) install --quiet --editable .
	@touch $@

$(READY)-dev: $(READY)-venv pyproject.toml
	@echo "installing into $(VENV) (about a minute; downloads Python packages only)"
	$(PIP) install --quiet --editable '.[all]' --group dev
	@touch $@ $(READY)-demo

# Use ------------------------------------------------------------------------------------------------------------------

demo: $(READY)-demo  ## set up, install, and run the main job on the clip that ships with the package
	$(BIN)/hyperframes demo

# Tests ----------------------------------------------------------------------------------------------------------------

debian:
	@sh tools/debian.sh

test: $(READY)-dev debian  ## set up what all tests need and run them all
	$(FULL) $(TESTS) -n 2 --dist worksteal -m 'not alone' $(ARGS) $(NONE_IS_FINE)
	$(FULL) $(TESTS) -m alone $(ARGS) $(NONE_IS_FINE)

fast: $(READY)-dev $(if $(filter true,$(CI)),debian)  ## run the tests that are quick and need no real files
	$(TESTS) -q -n 2 --dist worksteal -m 'not slow and not media and not alone' --durations=0 --durations-min=1 $(ARGS)

nightly: $(READY)-dev debian  ## run the property tests with 5,000 examples each
	HYPERFRAMES_HYPOTHESIS=nightly $(PYTEST) -n 2 -m hypothesis $(ARGS)

coverage: $(READY)-dev debian  ## run all tests and report which branches none of them takes
	HYPERFRAMES_HYPOTHESIS=check $(PYTEST) -n 2 --dist worksteal --cov --cov-report=term $(ARGS)

bench: $(READY)-dev debian  ## run the benchmarks as timings
	$(PYTEST) benchmarks --benchmark-enable --benchmark-only $(ARGS)

rivals: $(READY)-dev debian  ## compare with ffmpeg, VapourSynth, dask, ... in environments of their own (half an hour)
	$(BIN)/python benchmarks/rivals/runner.py $(ARGS)
	$(BIN)/python tools/benchmarks.py

# Gates ----------------------------------------------------------------------------------------------------------------

check: $(READY)-dev  ## lint, types, layers and the fast tests, side by side: under a minute on an idle machine
	@$(MAKE) --no-print-directory --keep-going --jobs=3 --output-sync=target $(CHECKS)

lint: $(READY)-dev  ## ruff and numpydoc
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/numpydoc lint --config . $(SOURCE)

types: $(READY)-dev  ## mypy, strict
	$(BIN)/mypy

layers: $(READY)-dev  ## imports point down the flow
	$(BIN)/lint-imports --no-logo

requirements: $(READY)-dev  ## write docs/requirements.md
	$(BIN)/python tools/requirements.py

docs: $(READY)-dev requirements  ## write the pages that are made from code: requirements, operators, commands, names in Python, benchmarks
	$(BIN)/python tools/operators.py
	$(BIN)/python tools/commands.py
	$(BIN)/python tools/api.py
	$(BIN)/python tools/benchmarks.py

hooks: $(READY)-dev  ## run the quick gates before every commit
	$(BIN)/pre-commit install

size: $(READY)-venv  ## lines per file, and the difference to main
	@$(BIN)/python tools/size.py

clean:  ## remove everything that was made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks hyperframes-demo
