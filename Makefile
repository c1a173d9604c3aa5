# Every target sets up what it needs: a virtual environment in .venv with the versions of
# requirements.lock, which are enough for the demo, and of requirements-dev.lock, and stepsim itself,
# editable. Nothing outside this folder is touched.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
TORCH_STAMP := $(VENV)/.installed-torch
OUT ?= demo-out
ROOM ?= units
ENGINES ?= 1
# Set PYTHON=/path/to/python3.12 to choose the interpreter that makes the environment.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PYTEST := $(BIN)/python -m pytest -p no:benchmark

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Bytecode is kept, as that of an installed package is: without it every process starts later.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-recorded slow test-torch thorough checked lowest packages arm64 mutants lint warm bench bench-check bench-baseline bench-peers bench-page docs \
	wheel setup clean distclean

help:
	@echo 'make demo    simulate a Qwen3-30B-A3B MoE layer with several tilings, write $(OUT)/'
	@echo 'make test    lint, type check, layer check and the tests, in five minutes on two cores once all is installed'
	@echo 'make test-recorded  the tests that replay the shared data: STEPSIM_SHARED, or ../shared'
	@echo 'make slow    the slow tests, and all draws of property tests'
	@echo 'make test-torch  installs PyTorch for processors and ONNX, and runs the tests that need them'
	@echo 'make thorough  the long tests, and thousands of new draws of property tests and fuzzers'
	@echo 'make checked  tests of the engines, with every access of theirs to an array checked'
	@echo 'make lowest  the numbers of all engines with the oldest versions of libraries'
	@echo 'make arm64   the numbers of all engines on arm64, emulated; downloads packages of Debian'
	@echo 'make packages  builds, checks and installs all distributions, with oldest and newest libraries'
	@echo 'make mutants  finds changes of the code that no test detects: ROOM=engine, units, memory, ops or metrics'
	@echo 'make setup   the environment of development; the demo needs less than half of it'
	@echo 'make lint    the checks of make test without the tests'
	@echo 'make bench   speed of the engine'
	@echo 'make bench-check  fails when something is slower than bench/baseline.json'
	@echo 'make bench-baseline  writes that file again'
	@echo 'make bench-peers  the engine compared with SimPy, an event queue and C++'
	@echo 'make bench-page  measures the tables of docs/performance.md again'
	@echo 'make docs    documentation in docs/_build/html'
	@echo 'make wheel   a wheel with the compiled engine for this kind of machine, in dist/'
	@echo 'make clean   remove what the targets above made, except .venv'

demo: $(STAMP)
	$(BIN)/stepsim demo --out $(OUT)

# The tests come last, so that their summary ends the output. Those of one file share a process, and
# with it what is made once for them.
test: export STEPSIM_SHARED := /nonexistent
test: $(DEV_STAMP)
	@mkdir -p build
	@# One of the two cores compiles meanwhile: once, not once in each of the processes that follow.
	$(MAKE) -j 2 --output-sync=target lint warm
	$(PYTEST) -q -n 2 --dist loadfile -m 'not slow and not long and not recorded and not torch' \
		--junitxml=build/tests.xml

# All tests that replay the shared data, slow or not, but for the long ones.
test-recorded: $(DEV_STAMP)
	@mkdir -p build
	$(BIN)/stepsim warmup
	$(PYTEST) -q -n 2 --dist loadfile -m 'recorded and not torch and not long' --junitxml=build/recorded.xml

# Whole commands, clusters, kills, browsers, and property tests with all their draws.
slow: export STEPSIM_SHARED := /nonexistent
slow: export STEPSIM_DRAWS := all
slow: $(DEV_STAMP)
	@mkdir -p build
	$(BIN)/stepsim warmup
	$(PYTEST) -q -n 2 --dist loadfile --no-loadscope-reorder \
		-m '(slow or hypothesis) and not long and not recorded and not torch' --junitxml=build/slow.xml

# No other target installs these, as they are large. If the index cannot be reached, pip uses PyPI.
test-torch: $(TORCH_STAMP)
	@mkdir -p build
	$(PYTEST) -q -n 2 -m torch --junitxml=build/torch.xml tests/design

$(TORCH_STAMP): $(DEV_STAMP) requirements-torch.lock
	$(BIN)/python -m pip install --quiet -c requirements.lock -c requirements-dev.lock -r requirements-torch.lock --retries 1 \
		--index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple
	@touch $@

thorough: $(DEV_STAMP)
	$(BIN)/stepsim warmup
	STEPSIM_DRAWS=new $(PYTEST) -q -n auto -o timeout=0 -m 'hypothesis or fuzz or chaos or wheel or long'

# Every access of the engines to their arrays is compared with the length. Tests of the settings of
# the compiler expect none.
checked: export NUMBA_BOUNDSCHECK := 1
checked: export STEPSIM_DRAWS := all
checked: $(DEV_STAMP)
	$(BIN)/stepsim warmup
	$(PYTEST) -q -n 2 --dist loadfile -m 'not torch' \
		$(addprefix --ignore=tests/kernels/,test_cache_key.py test_entry_point.py test_shipping.py) \
		tests/kernels tests/parity tests/simulation tests/dram tests/noc tests/hardware tests/explain

lowest:
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet -r requirements-lowest.lock
	STEPSIM_CACHE_DIR=build/lowest/cache build/lowest/bin/python -m tests.equal_numbers.digest

# An hour and a half: every engine is compiled by an emulated compiler.
arm64: $(DEV_STAMP)
	$(BIN)/python -m tests.equal_numbers.arm64 build/arm64

# An hour: an environment for each extra, twice. ENGINES=runs makes the wheel of the platform smaller.
packages: $(DEV_STAMP)
	nice $(BIN)/python -m tests.packages --page --engines $(ENGINES)

# Hours for a whole room: every change runs the tests of its room.
mutants: $(DEV_STAMP)
	@mkdir -p build
	STEPSIM_DRAWS=all $(BIN)/python -m tests.mutation $(ROOM) --out build/mutants-$(ROOM).txt

warm: $(STAMP)
	$(BIN)/stepsim warmup runs recorded

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV_STAMP)
	$(BIN)/python -m pytest bench -q

bench-check: $(DEV_STAMP)
	$(BIN)/python -m bench.check

bench-baseline: $(DEV_STAMP)
	$(BIN)/python -m bench.check --baseline

bench-peers: $(DEV_STAMP)
	$(BIN)/python -m bench.peers

bench-page: $(DEV_STAMP)
	$(BIN)/python -m bench.peers --page
	$(BIN)/python -m bench.yardsticks --page
	$(BIN)/python -m bench.stages --page
	$(BIN)/python -m bench.whole_process --page

docs: $(DEV_STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html'

# `python -m build` makes the wheel for all machines, which compiles on the first run.
wheel: $(DEV_STAMP)
	STEPSIM_PLATFORM_WHEEL=1 $(BIN)/python -m build --wheel --no-isolation

setup: $(DEV_STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n '$(PYTHON)' || { \
		echo 'stepsim needs Python 3.11 or newer; python3 is' \
			"$$(python3 --version 2>/dev/null || echo missing)." \
			'Install one, or name it: make PYTHON=/path/to/python3.12' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'stepsim needs Python 3.11 or newer; $(PYTHON) is' \
			"$$('$(PYTHON)' --version 2>/dev/null || echo missing)" >&2; exit 1; }
	@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { \
		echo '$(PYTHON) cannot make virtual environments.' \
			'On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || '$(PYTHON)' -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(STAMP) requirements-dev.lock
	$(BIN)/python -m pip install --quiet -c requirements.lock -r requirements-dev.lock
	@touch $@

clean:
	rm -rf build dist docs/_build docs/reference $(OUT) .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		.import_linter_cache .benchmarks
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
