# `make demo` and `make test` need only Python 3.11+ and make: each sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# The systems that ku-rag is measured beside stay out of the environment that it is made in.
BENCH := .venv-bench/bin
BENCH_EXTRAS := bench-sentences,bench-lancedb,bench-chroma,bench-milvus,bench-qdrant,bench-plot

.PHONY: demo test crash check bench peers scale docs format clean
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

.venv-bench/peers: setup.cfg pyproject.toml
	test -x $(BENCH)/python || $(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(BENCH_EXTRAS)]'
	touch $@

peers: .venv-bench/peers
	$(BENCH)/python -m benchmarks.peers --write

scale: .venv-bench/peers
	$(BENCH)/python -m benchmarks.scale --write

docs: .venv/dev
	$(BIN)/python docs/make_reference.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-bench benchmarks/.cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache
