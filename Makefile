# Each target does its own set-up on a fresh machine; a second run of the set-up costs nothing.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
BENCH ?= loss --shapes a
# torch is always asked for through constraints.txt: unpinned it may bring another build and gigabytes with it.
# Python compiles what it imports; to compile every file of every package takes half a minute.
INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint docs format results bench native clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.toolkit native ## draw scenes, train captioners with five losses, compare them on a page (a few minutes)
	@$(BIN)/python -m seqsmooth demo

test: export OMP_NUM_THREADS = 1
test: lint docs native ## lint, types, import rule, the site, tests with coverage
	@echo '== pytest'
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov=seqsmooth --cov-report=term-missing:skip-covered --cov-fail-under=95

quick: export OMP_NUM_THREADS = 1
quick: lint native ## lint, and a minute of the tests that matter for what was changed since main
	@echo '== pytest, nearest to the change first'
	@$(BIN)/python tests/quick.py --jobs $(JOBS)

lint: $(VENV)/.dev ## ruff, mypy and the import rule, nothing changed
	@echo '== ruff check'
	@$(BIN)/ruff check --no-cache .
	@echo '== ruff format --check'
	@$(BIN)/ruff format --no-cache --check .
	@echo '== mypy'
	@$(BIN)/mypy
	@echo '== lint-imports'
	@$(BIN)/lint-imports

docs: $(VENV)/.dev ## build the site into site/; a dead link is an error
	@echo '== mkdocs build --strict'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.dev ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

results: $(VENV)/.toolkit ## make docs/results, docs/paper.md and the tables of docs/benchmarks.md from what is committed
	@$(BIN)/python -m benchmarks page docs/benchmarks.md $(wildcard benchmarks/results/*.json)
	@rm -f docs/results/*.svg
	@$(BIN)/python -m seqsmooth report results results --out docs/results.md
	@$(BIN)/python docs/making/paper.py

bench: $(VENV)/.toolkit native ## time losses beside their peers; BENCH='head --shapes a' for others (python -m benchmarks --help)
	@$(BIN)/python -m benchmarks $(BENCH)

native: $(VENV)/.made ## compile the C for the CPU where it changed; without a C compiler plain torch does the work
	@$(BIN)/python hatch_build.py

clean: ## remove the virtual environment, all caches and what was compiled
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage build dist site
	rm -f src/seqsmooth/ops/native/*.so src/seqsmooth/ops/native/not-built.txt
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.made:
	@echo '== making $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.toolkit: $(VENV)/.made pyproject.toml constraints.txt
	@echo '== installing seqsmooth with torch and the toolkit (the first time takes a minute)'
	@$(INSTALL) -e '.[toolkit]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo '== installing seqsmooth with torch, the toolkit and the development tools (the first time takes two minutes)'
	@$(INSTALL) -e '.[toolkit,dev]'
	@touch $(VENV)/.toolkit $@
