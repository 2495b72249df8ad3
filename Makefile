# Everything this project can do, by name. `make` alone lists it.
#
# A fresh machine needs Python 3.11 or newer and make. Everything else goes into .venv; what is installed is remembered in stamp
# files there, so that a second run starts at once.

PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$candidate"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
SYNC := $(UV) sync --quiet --frozen --inexact
STAMPS := $(VENV)/.stamps
LOCKED := pyproject.toml uv.lock

# Tests, demos and Spark start many processes of Python: what one of them has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo demo-pipeline test check bench lock format clean

help: ## list what can be done
	@echo "Holdfast: what was accepted is never lost."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Options: make test TESTS=tests/unit    make bench BENCH='--quick --only a,b'    make demo PYTHON=python3.12"

demo: $(STAMPS)/run ## see it work: events, a crash, nothing lost
	@$(BIN)/python -m examples.demo

demo-pipeline: $(STAMPS)/spark $(STAMPS)/java ## see the pipelines on Spark work, crashes, and each event once; a plot
	@$(BIN)/python -m examples.pipeline_demo

# Tests wait for disks and processes more than they compute: two at a time, whatever the machine has.
TESTS ?= tests
WORKERS ?= 2
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder
test: $(STAMPS)/dev $(STAMPS)/bench $(STAMPS)/packages ## run every test
	$(PYTEST) --durations=20 $(TESTS)

check: $(STAMPS)/dev ## format, lint, types, imports, fast tests: before every commit
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q -m "not slow and not faults and not spark"

BENCH ?=
bench: $(STAMPS)/bench $(STAMPS)/peers ## measure beside NATS, Redis, RabbitMQ, SQLite and the bare disk
	$(BIN)/python -m tests.bench $(BENCH)

lock: $(STAMPS)/uv ## choose the newest versions of what we depend on
	$(UV) lock --upgrade

format: $(STAMPS)/dev ## put the code into its form
	$(BIN)/ruff format src tests examples
	$(BIN)/ruff check --fix src tests examples

clean: ## remove everything that make made
	rm -rf $(VENV) bench-results build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/uv:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; install one, or say where it is: make PYTHON=/path/to/python3"; exit 1; }
	@echo "preparing $(VENV) with $(PYTHON)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups
	@touch $@

$(STAMPS)/dev: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --group dev
	@touch $@ $(STAMPS)/run

# The bench's group brings what draws.
$(STAMPS)/spark: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --extra spark --group bench
	@touch $@ $(STAMPS)/run

$(STAMPS)/bench: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --group bench
	@touch $@ $(STAMPS)/run

# What the tests of full disks need: file systems of their own. Where it cannot be had they are skipped.
$(STAMPS)/packages: .ci/debian-packages $(STAMPS)/java | $(STAMPS)/uv
	@.ci/debian-packages mount e2fsprogs
	@touch $@

# What Spark needs. Where it cannot be had its tests are skipped, and the demo says what to install.
$(STAMPS)/java: .ci/debian-packages | $(STAMPS)/uv
	@command -v java >/dev/null || .ci/debian-packages openjdk-17-jre-headless
	@touch $@

# A peer that cannot be installed is left out by the bench, which says so.
$(STAMPS)/peers: .ci/debian-packages | $(STAMPS)/uv
	@.ci/debian-packages redis-server rabbitmq-server
	@touch $@
