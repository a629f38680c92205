# `make demo` and `make test` need only Python 3.11+ and make: each sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test crash check bench docs format clean
.DEFAULT_GOAL := test

.venv/base: setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/dev: .venv/base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,check]'
	touch $@

demo: .venv/base
	$(BIN)/ku demo

test: .venv/dev
	$(BIN)/python -m pytest

crash: .venv/dev
	$(BIN)/python -m pytest --long tests/crash tests/concurrency tests/corruption

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

bench: .venv/base
	$(BIN)/python -m benchmarks

docs: .venv/dev
	$(BIN)/python docs/make_reference.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache
