# `make` lists what there is. All of it works from a bare checkout; the first target that needs it installs.

VENV ?= .venv
PY := $(VENV)/bin/python
STACK := $(PY) deploy/local.py
# What to run, and how: make test TESTS=tests/unit PYTEST_ARGS=-x
TESTS ?= tests
PYTEST_ARGS ?=
# A second copy beside the first: make up RUN_DIR=.run/second PORT_OFFSET=100 (and the same for down, status, demo)
RUN_DIR ?= .run
PORT_OFFSET ?= 0
export RUN_DIR PORT_OFFSET
# make up STACK_ARGS="--broker apache"
STACK_ARGS ?=

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help demo up down status test test-kafka check fmt bench migrate install requirements

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  \033[1m%-13s\033[0m %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: up ## the main job on real input, start to bill; leaves the stack up
	@STACK_ENV=$(RUN_DIR)/stack.env $(PY) -m deploy.demo

up: $(VENV)/.installed ## start the whole system in the background (settings in .run/stack.env)
	@$(STACK) up $(STACK_ARGS)

down: $(VENV)/.installed ## stop it; the data stays
	@$(STACK) down $(STACK_ARGS)

status: $(VENV)/.installed ## what runs where
	@$(STACK) status $(STACK_ARGS) || true

test: $(VENV)/.installed ## the whole suite on an embedded stack of its own
	@$(STACK) run --ephemeral --no-services -- $(PY) -m pytest $(TESTS) $(PYTEST_ARGS)

test-kafka: $(VENV)/.installed ## the suites that touch Kafka, on Apache Kafka (needs Java 17 and Maven)
	@$(STACK) run --ephemeral --no-services --broker apache -- $(PY) -m pytest -m kafka $(TESTS) $(PYTEST_ARGS)

check: $(VENV)/.installed ## format, lint, types, walls and unit tests; run it before each commit
	@$(PY) -m ruff format --check --quiet . || { echo "error: run 'make fmt'" >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@$(PY) -m pytest tests/unit -q

fmt: $(VENV)/.installed ## format, and mend what can be mended
	@$(PY) -m ruff format --quiet .
	@$(PY) -m ruff check --fix --quiet .

bench: $(VENV)/.installed ## measure the stages and the whole pipeline
	@$(PY) -m benchmarks

migrate: $(VENV)/.installed ## migrate the four databases of the stack that is up
	@$(STACK) run $(STACK_ARGS) --no-services -- sh -ec 'for service in metering pricing wallet gateway; do \
		$(PY) -m services.$$service migrate; echo "$$service is migrated"; done'

install: $(VENV)/.installed ## the virtual environment with all that is pinned
	@echo "Installed in $(VENV)"

$(VENV)/.installed: requirements-dev.txt pyproject.toml
	@./deploy/install.sh $(VENV)

requirements: ## pin again what pyproject.toml asks for (needs uv)
	uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --python-version 3.11 -o requirements.txt
	uv pip compile pyproject.toml --extra dev --generate-hashes --no-emit-index-url --python-version 3.11 -c requirements.txt -o requirements-dev.txt
