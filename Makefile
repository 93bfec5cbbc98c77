# Everything one does with this project. `make help` lists it.

PYTHON ?= python3
ARGS ?=
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv/bin
NPM := scripts/npm
PYTEST := $(VENV)/python -m pytest
# One more than processors, for many tests wait for something.
WORKERS := $(shell processors=$$(getconf _NPROCESSORS_ONLN); echo $$((processors < 7 ? processors + 1 : 8)))
EVERYDAY := $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not (slow or gpu or alone)"
# Tests of whole platforms, by their folders (ALONE in tests/conftest.py): collecting all the others takes longer than
# some of them. They wait a lot, so they run beside the others; what compares times is slow, and runs by itself.
# Each part notes by itself what failed: of one file for all, the last part to end would strike out what others wrote.
WHOLE := $(PYTEST) -m "alone and not (slow or gpu)" -o cache_dir=.pytest_cache
# Some environments forbid Python to keep what it compiled. Then each process of the platform, and each of the hundreds
# that tests start, would compile the project and all packages anew, and each that collects tests every test.
up test test-slow test-gpu chaos: export PYTHONDONTWRITEBYTECODE =
# What pytest returns when no test matched.
NO_TESTS := 5
# The server, and what nodes and users install by itself.
PROJECTS := pyproject.toml platform/nodeagent/pyproject.toml platform/allot/pyproject.toml
API_SCHEMA := docs/api/openapi.yaml
FRONTEND_SOURCES := $(shell find frontend \
	\( -name node_modules -o -name dist -o -name test-results \) -prune -o -type f -print)

.PHONY: help up test test-slow test-user test-pythons test-gpu chaos check format bench dashboard schema constraints clean setup setup-dev

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: ## Run the whole platform on this machine (ARGS="--port 8001 --no-demo")
	@$(MAKE) --no-print-directory -j2 setup
	@$(VENV)/python manage.py up $(ARGS)

test: ## Run all tests but the slow ones, browser tests included (ARGS="-k name")
	@$(MAKE) --no-print-directory -j2 setup-dev
	@scripts/browser
	@scripts/bubblewrap
	@scripts/slurm
	scripts/beside '$(WHOLE)/e2e tests/e2e $(ARGS)' '$(WHOLE)/browser tests/browser $(ARGS)' \
		'$(WHOLE)/up tests/up tests/slurm $(ARGS)' '$(NPM) test' '$(EVERYDAY) $(ARGS)'

test-slow: ## Run the exhaustive tests, and properties on more examples
	@$(MAKE) --no-print-directory -j2 setup-dev
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=thorough $(ARGS) || [ $$? -eq $(NO_TESTS) ]

test-user: ## As root: run the tests of agents and jobs as an ordinary user
	@scripts/ordinary-user-tests

test-pythons: ## Run the tests of agents, jobs and the core on Python 3.12 and 3.13, where they are installed
	@scripts/tests-on-python 3.12
	@scripts/tests-on-python 3.13

test-gpu: ## Run the tests that need a real NVIDIA GPU
	@$(MAKE) --no-print-directory setup-dev
	$(PYTEST) -m gpu $(ARGS) || [ $$? -eq $(NO_TESTS) ]

chaos: ## Hurt a whole platform at random and hold it to account (ARGS="--seed 7 --faults 500 --minutes 20")
	@$(MAKE) --no-print-directory -j2 setup-dev
	PYTHONPATH=platform $(VENV)/python -m tests.chaos $(ARGS)

check: ## Lint, types, import contracts, layout, migrations, API schema, front end
	@$(MAKE) --no-print-directory -j2 setup-dev
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(PYTEST) --quiet tests/test_layout.py tests/test_generated.py
	$(NPM) run lint
	$(NPM) exec -- tsc --noEmit

format: setup-dev ## Put the code into the one format
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

bench: setup-dev ## Run every benchmark and print its raw numbers
	@for script in $(wildcard benchmarks/bench_*.py); do echo "== $$script"; $(VENV)/python $$script || exit 1; done

dashboard: frontend/dist/index.html ## Build the dashboard

schema: setup-dev ## Write what is made of declarations: the job specification's files, the API's schema, the clients' types
	@mkdir -p $(dir $(API_SCHEMA))
	DJANGO_SETTINGS_MODULE=controlplane.settings_offline $(VENV)/python manage.py spectacular --fail-on-warn --file $(API_SCHEMA)
	$(VENV)/python -m scheduler.jobspec
	$(VENV)/datamodel-codegen
	$(NPM) run types

constraints: ## Take the newest versions that pyproject.toml allows into constraints.txt
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --editable platform/nodeagent --editable platform/allot --editable ".[embedded,simulator,dev,bench]"
	{ head -1 constraints.txt; .venv-newest/bin/python -m pip freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt
	rm -rf .venv-newest

clean: ## Remove everything that was built or installed here; the data in .allot stays
	rm -rf .venv frontend/dist frontend/node_modules
	rm -rf .test-database .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

setup: .venv/.installed frontend/dist/index.html
	@:
setup-dev: .venv/.installed-dev frontend/dist/index.html
	@:

.venv/.installed: $(PROJECTS) constraints.txt scripts/python-environment
	@scripts/python-environment "$(PYTHON)" embedded,simulator
	@touch $@

.venv/.installed-dev: $(PROJECTS) constraints.txt scripts/python-environment
	@scripts/python-environment "$(PYTHON)" embedded,simulator,dev
	@touch .venv/.installed $@

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
