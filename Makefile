# Everything this project can do, by name. `make` alone lists it.
#
# A fresh machine needs Python 3.11 or newer and make. Everything else goes into .venv; what is installed is remembered in stamp
# files there, so that a second run starts at once.

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# An optimised build (PGO, LTO) is a quarter faster: of several that fit, the first such one is taken that can make environments. It
# leaves with 0, others that are new enough with 2. `holdfast.cli.interpreter` has the same rule.
OPTIMISED := import sys, sysconfig; from importlib.util import find_spec; sys.version_info < (3, 11) and sys.exit(1); \
	known = sysconfig.get_config_vars(); options = known.get("CONFIG_ARGS") or ""; \
	is_cleared = bool(known.get("PGO_PROF_GEN_FLAG")) and known.get("PGO_PROF_USE_FLAG") == ""; \
	is_built = "--enable-optimizations" in options or "--with-lto" in options or is_cleared; \
	sys.exit(0 if is_built and find_spec("ensurepip") else 2)
CHOICE = found=; for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	"$$candidate" -c '$(OPTIMISED)' >/dev/null 2>&1; \
	case $$? in 0) found=$$candidate; break ;; 2) found=$${found:-$$candidate} ;; esac; done; echo "$$found"
# Chosen once, and only when an environment is made.
PYTHON ?= $(eval PYTHON := $$(shell $$(CHOICE)))$(PYTHON)

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
.PHONY: help demo demo-pipeline demo-continuity demo-relay demo-cluster test test-long soak lint check docs bench lock format clean

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

demo-continuity: $(STAMPS)/continuity ## see a service go on while its servers hang, die and lie
	@$(BIN)/python -m examples.continuity_demo

demo-relay: $(STAMPS)/run ## see a branch office behind a thin line: its relay killed, the line cut, nothing lost or twice
	@$(BIN)/python -m examples.branch_office

demo-cluster: $(STAMPS)/cluster ## see one server on many processes: nodes, the primary and a NATS server killed, nothing lost
	@$(BIN)/python -m examples.cluster_demo

# Tests wait for disks and processes more than they compute: four at a time, also on two cores.
TESTS ?= tests
WORKERS ?= 4
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder
test: $(STAMPS)/dev $(STAMPS)/bench $(STAMPS)/docs $(STAMPS)/packages ## show that every promise holds: about ten minutes on two cores
	$(PYTEST) --durations=20 $(TESTS)

# How much each test then tries is decided in tests/effort.py, which also says how to replay a failure.
test-long: $(STAMPS)/dev $(STAMPS)/bench $(STAMPS)/docs $(STAMPS)/packages ## the same with many more faults, from new seeds: about half an hour
	HOLDFAST_TEST=long $(PYTEST) --durations=20 $(TESTS)

SOAK ?= 10
soak: $(STAMPS)/dev ## a cluster under load with faults at random for ten minutes; SOAK=60 for an hour
	HOLDFAST_TEST=long HOLDFAST_SOAK=$(SOAK) $(BIN)/pytest -n 0 -s tests/faults/test_cluster_soak.py

CODE := src tests examples docs/reference
lint: $(STAMPS)/dev ## format, lint, types, imports
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## format, lint, types, imports, fast tests: before every commit
	$(PYTEST) -q -m "not slow and not faults and not spark"

docs: $(STAMPS)/docs ## build the guide, the documents and the API reference into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html; for its search, serve it: python3 -m http.server --directory build/site"

BENCH ?=
bench: $(STAMPS)/bench $(STAMPS)/peers ## measure beside NATS, Redis, RabbitMQ, SQLite, the bare disk, nginx, HAProxy and Envoy
	$(BIN)/python -m tests.bench $(BENCH)

lock: $(STAMPS)/uv ## choose the newest versions of what we depend on
	$(UV) lock --upgrade

format: $(STAMPS)/dev ## put the code into its form
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

clean: ## remove everything that make made
	rm -rf $(VENV) bench-results build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/uv:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer was found; install one, or say where it is: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { found=$$("$(PYTHON)" --version 2>/dev/null) || found="no Python that runs"; \
		echo "$(PYTHON) is $$found; Holdfast needs Python 3.11 or newer: leave PYTHON out, or name one, as in: make PYTHON=python3.12"; exit 1; }
	@echo "preparing $(VENV) with $(PYTHON)"
	@$(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null || { rm -rf $(VENV); "$(PYTHON)" -m venv $(VENV); } || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; install its venv module (python3-venv), or name another: make PYTHON=…"; exit 1; }
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups
	@touch $@

$(STAMPS)/dev: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --group dev
	@touch $@ $(STAMPS)/run

# Engine and listener speak HTTP.
$(STAMPS)/continuity: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --extra continuity
	@touch $@ $(STAMPS)/run

# The client of NATS, and its server.
$(STAMPS)/cluster: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --extra cluster
	@touch $@ $(STAMPS)/run

# The bench's group brings what draws.
$(STAMPS)/spark: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --extra spark --group bench
	@touch $@ $(STAMPS)/run

$(STAMPS)/bench: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --group bench
	@touch $@ $(STAMPS)/run

# What builds the site, and what the guide's pages use beside Holdfast.
$(STAMPS)/docs: $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --group docs
	@touch $@ $(STAMPS)/run

# What the tests of full disks need, file systems of their own, promtool, which checks the alerts, and nginx as a server behind an engine.
# Where they cannot be had their tests are skipped.
$(STAMPS)/packages: Makefile .ci/debian-packages $(STAMPS)/java | $(STAMPS)/uv
	@.ci/debian-packages mount e2fsprogs prometheus nginx-light
	@touch $@

# What Spark needs. Where it cannot be had its tests are skipped, and the demo says what to install.
$(STAMPS)/java: .ci/debian-packages | $(STAMPS)/uv
	@command -v java >/dev/null || .ci/debian-packages openjdk-17-jre-headless
	@touch $@

# A peer that cannot be installed is left out by the bench, which says so.
$(STAMPS)/peers: .ci/debian-packages $(LOCKED) | $(STAMPS)/uv
	@$(SYNC) --no-default-groups --group peers
	@.ci/debian-packages redis-server rabbitmq-server nginx-light haproxy
	@touch $@
