# make demo   set up, then train, score and try a small translator on the CPU
# make test   set up, then run every test
# The set-up makes .venv from constraints.txt; it is repeated only when pyproject.toml or constraints.txt changes.

SHELL := bash
.DEFAULT_GOAL := help

# The first Python of at least 3.11; choose another with make PYTHON=...
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Options of pytest for make test: for example make test PYTEST="-x tests/test_config.py"
PYTEST ?=

.PHONY: help setup demo test lint types format bench docs interop-table lock clean

help:
	@echo "make demo    set up, then train, score and try a small translator on the CPU"
	@echo "make test    set up, then run every test (PYTEST=... for options of pytest)"
	@echo "make lint    ruff: rules and formatting;  make types: mypy;  make format: let ruff rewrite"
	@echo "make bench   run the benchmarks that need no model and no data (BENCH=... for others)"
	@echo "make docs    write docs/commands.md and docs/settings.md, then build the site into build/docs"
	@echo "make interop-table    compare every foreign format with its own code and write the table of docs/interop.md"
	@echo "make lock    write constraints.txt anew from pyproject.toml;  make clean: remove .venv"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no Python of at least 3.11 found; give one with make PYTHON=..." >&2; exit 1; }
	@echo "setting up $(VENV) (some minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade -c constraints.txt pip
	@$(PIP) -c constraints.txt hatchling editables
	@$(PIP) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/dragoman demo

test: $(STAMP)
	@$(BIN)/python -m pytest $(PYTEST)

lint: $(STAMP)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(STAMP)
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# The others in benchmarks/ ask for a trained model or for data; each says how to call it.
BENCH ?= benchmarks/products.py benchmarks/train.py benchmarks/decode.py
bench: $(STAMP)
	@for program in $(BENCH); do echo "== $$program" && $(BIN)/python $$program || exit 1; done

# Warnings are errors; every page is built anew, since each holds the titles of the others.
docs: $(STAMP)
	@$(BIN)/python docs/make_commands.py
	@$(BIN)/python docs/make_settings.py
	@$(BIN)/python docs/make_modules.py
	@$(BIN)/python -m sphinx -b html -W --keep-going -q -E -a -d build/doctrees docs build/docs
	@echo "written to build/docs/index.html"

interop-table: $(STAMP)
	@$(BIN)/python docs/make_interop.py

# A virtual environment of its own, so that nothing installed by hand gets into the lock. What only a CUDA
# build of torch brings is left out: torch itself pins it.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip
	.venv-lock/bin/python -m pip install --quiet hatchling editables 'torch==2.13.0'
	.venv-lock/bin/python -m pip install --quiet --no-build-isolation -e '.[dev]'
	{ echo "# Every package that make setup installs; written by make lock."; \
	  .venv-lock/bin/python -m pip freeze --all --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' \
	  | grep -vE '^(nvidia-|cuda-|triton)'; } > constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf $(VENV)
