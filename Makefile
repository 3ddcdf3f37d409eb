# Everything here needs make and a Python of at least 3.11 with venv; the rest goes into .venv.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
GLINER := .venv-gliner
# Of the stores that `make plots` measures. A million memories take half an hour more.
SIZES ?= 1000,10000,100000

# The first of these that runs, is new enough and can make virtual environments.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help demo test test-gliner check bench plots inspect docs build clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(READY) ## see it work: store, kill the server, ask in other words (about 15 seconds)
	@$(BIN)/r3-lite demo

test: $(READY) ## run the tests
	$(BIN)/pytest

test-gliner: $(GLINER)/.ready ## test entities by GLiNER with the real package and a tiny model (installs torch)
	$(GLINER)/bin/python -m pytest -p no:warnings tests/real_gliner.py

check: $(READY) ## check style and types, then run the tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest

bench: $(READY) ## measure start-up, latency, scale and retrieval (some minutes)
	$(BIN)/python -m benchmarks

plots: $(READY) ## measure stores of several sizes and draw docs/latency.svg (some minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m benchmarks.scale --sizes $(SIZES) --json benchmarks/results/scale.json
	$(BIN)/python -m benchmarks.plots benchmarks/results/scale.json

inspect: $(READY) ## open the MCP inspector on the server (needs Node)
	@command -v npx >/dev/null || { echo "The inspector runs on Node: install it from https://nodejs.org"; exit 1; }
	PATH="$(CURDIR)/$(BIN):$$PATH" npm_config_yes=true fastmcp dev inspector fastmcp.json

docs: $(READY) ## write docs/tools.md and docs/demo.svg anew from the running server
	$(BIN)/python scripts/document_tools.py
	$(BIN)/python scripts/record_demo.py

build: $(READY) ## make the wheel and the source archive in dist
	$(BIN)/python -m build

clean: ## remove the virtual environment and everything that was made
	rm -rf $(VENV) $(GLINER) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python of at least 3.11 with venv was found. Install one, or say make PYTHON=…"; exit 1; }
	@echo "Installing r3-lite and its tools into $(VENV) with $$($(PYTHON) --version) (once; about 400 MB on disk)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Apart from the rest, for its size: up to 1.5 GB, and more where pip knows of no torch for processors alone.
$(GLINER)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python of at least 3.11 with venv was found. Install one, or say make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(GLINER)
	$(GLINER)/bin/python -m pip install --disable-pip-version-check torch==2.13.0
	$(GLINER)/bin/python -m pip install --disable-pip-version-check --editable '.[gliner]' pytest hypothesis
	@touch $@
