# Each target makes what it needs. `make help` lists them.
PYTHON ?= python3
STACK ?=# prod for preview, local for up and down
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup setup-dev preview test test-fast test-long check format tools up down rehearse golden clean bench-preview bench-check
.DEFAULT_GOAL := help

include serving.mk

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## environment of the program, in .venv
setup-dev: $(VENV)/.dev ## the same, with what tests and checks need

# Byte code is compiled once: importing the provider SDKs is most of a preview.
$(VENV)/.runtime: requirements.txt constraints.txt pyproject.toml
	@echo "setting up $(VENV) (about a minute, once)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Python 3.11, 3.12 or 3.13 is needed; name it with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt "setuptools==84.2.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib components preview llmp policies >/dev/null || true
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "adding test tools to $(VENV) (about a minute, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

preview: $(VENV)/.runtime ## what `pulumi up` would make of STACK (prod)
	@$(BIN)/python -m llmp preview --stack $(or $(STACK),prod)

SERVERS := slow or server or engine
SLOW := $(SERVERS) or serving_real

# Servers wait more than they work, so two files run beside each other; vLLM takes both cores, and some tests measure time.
test: test-fast ## every tier whose real parts are here; says why another is skipped
	@$(BIN)/python -m pytest -n 2 --dist loadfile --durations 12 -m "($(SERVERS)) and not (serving_real or alone or long)"
	@$(BIN)/python -m pytest -m "(serving_real or alone) and not long"

test-long: $(VENV)/.dev ## cases too long for every run: the AWS half of prod and multinode under the real engine
	@$(BIN)/python -m pytest -m long

test-fast: $(VENV)/.dev ## the tiers that need no server, in under a minute
	@$(BIN)/python -m pytest -n 2 -q -m "not ($(SLOW))"

bench-preview: $(VENV)/.runtime ## how long a preview takes, and its memory
	@$(BIN)/python -m bench.preview_time $(or $(STACK),prod)

bench-check: $(VENV)/.dev ## `llmp check` on 1,000 files, with checkov on the same files beside it
	@$(BIN)/python -m tests.bench_check

check: $(VENV)/.dev ## format, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(VENV)/.dev ## write the format that check wants
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

tools: ## the real engine, API server, provider and operators, found or built once (about 25 minutes)
	@$(PYTHON) -m tools build

golden: $(VENV)/.dev ## rewrite the kept outputs after a wanted change
	@$(BIN)/python -m pytest tests/golden --update-golden -q
	@$(BIN)/python -m components.settings.json_schema

LIVE ?=
up: $(VENV)/.dev tools ## bring STACK (local) up on this machine by the real engine; LIVE names models that answer, or none
	@$(BIN)/python -m rehearsal up --stack $(or $(STACK),local) $(if $(LIVE),--live $(LIVE))

down: $(VENV)/.dev ## take it down again; nothing is left
	@$(BIN)/python -m rehearsal down --stack $(or $(STACK),local)

rehearse: $(VENV)/.dev tools ## play the scenarios on STACK (prod): ONLY=1,2,13 or ONLY=ci, REPORT=FILE, ATTEMPTS=1
	@$(BIN)/python -m rehearsal.rehearse --stack $(or $(STACK),prod) $(if $(ONLY),--only $(ONLY)) $(if $(REPORT),--report $(REPORT)) $(if $(ATTEMPTS),--attempts $(ATTEMPTS))

clean: ## end what is up here, and remove what the targets made in this checkout
	@test ! -d .rehearsal || find .rehearsal -type d -name plane -prune | while read -r plane; do \
	  folder=$$(dirname "$$plane"); \
	  LLMP_REHEARSAL=$$(dirname "$$folder") $(BIN)/python -m rehearsal down --discard --stack "$$(basename "$$folder")" || exit 1; \
	done
	@rm -rf .rehearsal $(VENV) .mypy_cache .ruff_cache .pytest_cache
