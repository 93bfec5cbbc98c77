# Everything one does with this project. `make help` lists it.

PYTHON ?= python3
ARGS ?=
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv/bin
NPM := scripts/npm
PYTEST := $(VENV)/python -m pytest
# Tests by tiers, at most as many at once as there are processors (tests/tiers.py).
TIERS := $(VENV)/python -m tests.tiers
# Where they are wanted, further arguments for pytest.
WITH_ARGS = $(if $(ARGS),-- $(ARGS))
# Some environments forbid Python to keep what it compiled. Then each process of the platform, and each of the hundreds
# that tests start, would compile the project and all packages anew, and each that collects tests every test.
export PYTHONDONTWRITEBYTECODE =
# What pytest returns when no test matched.
NO_TESTS := 5
# The server, and what nodes and users install by itself.
PROJECTS := pyproject.toml platform/nodeagent/pyproject.toml platform/allot/pyproject.toml
API_SCHEMA := docs/api/openapi.yaml
FRONTEND_SOURCES := $(shell find frontend \
	\( -name node_modules -o -name dist -o -name test-results \) -prune -o -type f -print)

DOCUMENTATION := mkdocs.yml scripts/documentation.py $(shell find docs -name '*.md' -o -name '*.png')

.PHONY: help up test test-again test-slow test-user test-pythons test-gpu test-set-up reproduce nightly precommit chaos \
	check check-server check-dashboard format bench dashboard docs schema constraints clean setup setup-dev

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: ## Run the whole platform on this machine (ARGS="--port 8001 --no-demo")
	@$(MAKE) --no-print-directory -j2 setup
	@$(VENV)/python manage.py up $(ARGS)

test: test-set-up ## Run the tests of every day, browser and whole platforms included (ARGS="-k name")
	$(TIERS) $(WITH_ARGS)

test-%: test-set-up ## Run one tier of them: core, server, node, dashboard, platform, up or clock
	$(TIERS) $* $(WITH_ARGS)

test-again: ## Run what failed in the last `make test` once more, each test by itself
	$(TIERS) --again

test-set-up:
	@$(MAKE) --no-print-directory -j2 setup-dev
	@scripts/browser
	@scripts/bubblewrap
	@scripts/slurm

test-slow: test-set-up ## Run the exhaustive tests, and properties on more examples
	$(PYTEST) -m "(slow or hypothesis) and not reproduction" --timeout=1800 --hypothesis-profile=thorough $(ARGS) || [ $$? -eq $(NO_TESTS) ]

test-user: ## As root: run the tests that differ for an ordinary user as one, with the system's Python
	@scripts/ordinary-user-tests

test-pythons: ## Run the tests of agents, jobs and the core on Python 3.12 and 3.13, where they are installed
	@scripts/tests-on-python 3.12
	@scripts/tests-on-python 3.13

reproduce: test-set-up ## Run published results again, and hold ours to them
	$(PYTEST) -m reproduction --timeout=7200 --hypothesis-profile=thorough $(ARGS)

nightly: ## Run everything that `make test` leaves out, and write one page of results: .nightly/report.md
	@$(MAKE) --no-print-directory test-set-up
	@$(VENV)/python scripts/nightly.py $(ARGS)

precommit: setup-dev ## Check what was changed since the last commit, within a minute
	@$(VENV)/python -m scripts.precommit

test-gpu: ## Run the tests that need a real NVIDIA GPU
	@$(MAKE) --no-print-directory setup-dev
	$(PYTEST) -m gpu $(ARGS) || [ $$? -eq $(NO_TESTS) ]

chaos: ## Hurt a whole platform at random and hold it to account (ARGS="--seed 7 --faults 500 --minutes 20")
	@$(MAKE) --no-print-directory -j2 setup-dev
	PYTHONPATH=platform $(VENV)/python -m tests.chaos $(ARGS)

check: ## Linters, types and import contracts, of the server and the front end
	@$(MAKE) --no-print-directory -j2 setup-dev
	@$(MAKE) --no-print-directory -j2 --output-sync=target check-server check-dashboard

check-server:
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

check-dashboard:
	$(NPM) run lint
	$(NPM) exec -- tsc --noEmit

format: setup-dev ## Put the code into the one format
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

bench: setup-dev ## Run every benchmark (ARGS="decide round": these), print raw numbers, keep them in .bench
	@$(VENV)/python -m scripts.bench $(ARGS)

dashboard: frontend/dist/index.html ## Build the dashboard

docs: site/index.html ## Build the documentation that the server shows at /docs/

screenshots: setup-dev ## Take the pictures of README and docs again, of a platform that is started for it
	$(VENV)/python -m scripts.screenshots

schema: setup-dev ## Write what is made of declarations: the job specification's files, what documents say of reasons and measures, the API's schema, the clients' types
	@mkdir -p $(dir $(API_SCHEMA))
	DJANGO_SETTINGS_MODULE=controlplane.settings_offline $(VENV)/python manage.py spectacular --fail-on-warn --file $(API_SCHEMA)
	$(VENV)/python -m scheduler.jobspec
	$(VENV)/python -m scripts.declared
	$(VENV)/datamodel-codegen
	$(NPM) run types

constraints: ## Take the newest versions that pyproject.toml allows into constraints.txt
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --editable platform/nodeagent --editable platform/allot --editable ".[embedded,simulator,docs,dev,bench]"
	{ head -1 constraints.txt; .venv-newest/bin/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-newest

clean: ## Remove everything that was built or installed here; the data in .allot stays
	rm -rf .venv frontend/dist frontend/node_modules site
	rm -rf .test-database .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

setup: .venv/.installed frontend/dist/index.html site/index.html
	@:
setup-dev: .venv/.installed-dev frontend/dist/index.html site/index.html
	@:

.venv/.installed: $(PROJECTS) constraints.txt scripts/python-environment
	@scripts/python-environment "$(PYTHON)" embedded,simulator,docs
	@touch $@

.venv/.installed-dev: $(PROJECTS) constraints.txt scripts/python-environment
	@scripts/python-environment "$(PYTHON)" embedded,simulator,docs,dev
	@touch .venv/.installed $@

site/index.html: $(DOCUMENTATION) | $(if $(filter setup-dev,$(MAKECMDGOALS)),.venv/.installed-dev,.venv/.installed)
	@echo "Building the documentation ..."
	@NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet
	@touch $@

# Without a recent Node.js its wheel is installed into .venv, which must be there first.
ifneq ($(shell scripts/node-is-recent && echo yes),yes)
frontend/node_modules/.installed: | $(if $(filter setup-dev,$(MAKECMDGOALS)),.venv/.installed-dev,.venv/.installed)
endif

frontend/node_modules/.installed: frontend/package.json frontend/package-lock.json
	@echo "Installing the dashboard's packages ..."
	@$(NPM) ci --no-audit --no-fund --no-progress --loglevel=error
	@touch $@

frontend/dist/index.html: frontend/node_modules/.installed $(FRONTEND_SOURCES)
	@echo "Building the dashboard ..."
	@$(NPM) exec -- vite build --logLevel warn
	@touch $@
