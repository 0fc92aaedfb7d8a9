# Every target makes .venv and installs what it needs into it, once per change of pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
RECIPES := .venv-recipes

.DEFAULT_GOAL := help
.PHONY: help demo test lowest coverage verify torture peers recipes bench frontier lint docs dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-all  ## fit a sparse Gaussian process to 100 000 rows, compare it and write a report
	$(BIN)/pursuit demo --force

# Two workers share two cores: one BLAS thread each. Each begins with one half of the tests, in
# order, so that what a file fits once for its tests is seldom fitted by both.
test lowest coverage verify: export OMP_NUM_THREADS := 1
test lowest coverage verify: export OPENBLAS_NUM_THREADS := 1
test lowest coverage verify: export VECLIB_MAXIMUM_THREADS := 1
# What one worker has compiled the other need not compile again.
test lowest coverage verify: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.installed-test  ## every invariant at reduced size, under ten minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Old packages call what newer ones that they need in turn have deprecated.
lowest: $(LOWEST)/.installed  ## the same with the lowest version that pyproject.toml allows of each package
	$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -W ignore::DeprecationWarning

coverage: $(VENV)/.installed-test  ## the same, and which lines of the package no test runs
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=xml --cov-fail-under=95

verify: $(VENV)/.installed-test  ## the same tests with larger sizes, under forty minutes
	$(BIN)/python -m pytest -n 2 --dist worksteal --verify

torture: export OMP_NUM_THREADS := 1
torture: export OPENBLAS_NUM_THREADS := 1
torture: export VECLIB_MAXIMUM_THREADS := 1
torture: $(VENV)/.installed-test  ## random problems against independent truths; TORTURE_MINUTES, 30 by default
	$(BIN)/python -m torture

peers: $(VENV)/.installed-test  ## scikit-learn's own tests with our classes in place of its own
	$(BIN)/python -m peers

# In an environment of their own: what these packages need must not change what the tests run with.
recipes: $(RECIPES)/.installed  ## the recipes with other packages: they run and print what the documentation says
	$(RECIPES)/bin/python tools/recipes.py

bench: $(VENV)/.installed-bench  ## time and accuracy beside other libraries
	$(BIN)/python -m benchmarks --all --quiet

frontier: $(VENV)/.installed-bench  ## error against time on six data sets, hours; goes on where it stopped
	$(BIN)/python -m benchmarks frontier

lint: $(VENV)/.installed-lint  ## style, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs  ## documentation into docs/_build/html; warnings and broken links are errors
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

dist: $(VENV)/.installed-dist  ## source distribution and wheel into dist, checked as the package index checks them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:  ## remove environments, caches and everything built
	rm -rf $(VENV) $(LOWEST) $(RECIPES) .coverage coverage.xml build dist docs/_build docs/auto_examples docs/generated
	rm -rf .torture .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# pip is the last thing `venv` installs: where it is, the environment is complete.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "pursuit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

# pyproject.toml is the one place where lowest versions are written.
$(LOWEST)/.installed: pyproject.toml tools/lowest_versions.py
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest_versions.py test > $(LOWEST)/requirements.txt
	$(LOWEST)/bin/python -m pip install --quiet --requirement $(LOWEST)/requirements.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.installed-bench: pyproject.toml benchmarks/requirements.txt | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --editable ".[cli]" --requirement benchmarks/requirements.txt
	@touch $@

$(RECIPES)/.installed: pyproject.toml examples/integrations/requirements.txt
	$(PYTHON) -m venv $(RECIPES)
	$(RECIPES)/bin/python -m pip install --quiet --editable ".[all]" --requirement examples/integrations/requirements.txt
	@touch $@
