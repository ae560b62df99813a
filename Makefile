# Everything a newcomer runs. Needs GNU make and Python 3.11 or newer; the rest is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -n 2

# Headless everywhere. Compiled programs are kept between runs of the tests.
export MPLBACKEND := Agg
export PIP_DISABLE_PIP_VERSION_CHECK := 1
JAX_CACHE := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.jax_cache \
	JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

# Compiling is most of the minutes of the tests: theirs go without what makes programs fast, those of test-slow with it.
# Left out where a later release of XLA does not know such a flag, and would not start.
XLA_QUICK := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false
QUICK = if XLA_FLAGS="$(XLA_QUICK)" $(BIN)/python -c 'import jax; jax.devices()' >/dev/null 2>&1; then export XLA_FLAGS="$(XLA_QUICK)"; fi

# What a verdict of the tests depends on: the files, the packages and the selection. Empty outside of a git checkout.
STATE = git rev-parse --git-dir >/dev/null 2>&1 && { git ls-files -coz --exclude-standard | sort -z | xargs -0 sha256sum 2>/dev/null; \
	$(BIN)/python -m pip freeze 2>/dev/null; echo '$(ARGS)'; } | sha256sum

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help install demo test test-slow lint figures bench bench-gpu constraints clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/.installed ## the program into .venv, as .venv/bin/rolloutlab

demo: $(VENV)/.installed ## power against temperature on toy models and on a transformer, and every kernel against the truth: tables and figures (installs on first use)
	$(BIN)/rolloutlab power-vs-temperature --alpha 2
	$(BIN)/rolloutlab power-on-transformers --preset smoke
	$(BIN)/rolloutlab validate --preset demo --figures results/validation

test: $(VENV)/.installed-dev ## the tests that take minutes, once for each state of the files; ARGS="-k name" selects
	@state=$$($(STATE)); \
	if [ -z "$$CI" ] && [ -n "$$state" ] && [ "$$state" = "$$(cat $(VENV)/.tested 2>/dev/null)" ]; then \
		echo "these tests have passed on exactly these files and packages; to run them again: rm $(VENV)/.tested"; \
	else \
		rm -f $(VENV)/.tested; \
		$(QUICK); \
		$(JAX_CACHE) $(PYTEST) --dist worksteal -m "not slow and not gpu" $(ARGS) && echo "$$state" > $(VENV)/.tested; \
	fi

test-slow: $(VENV)/.installed-slow ## sweeps, clean installs, the commands in the documents
	$(JAX_CACHE) $(PYTEST) -m "slow and not gpu" $(ARGS)

# The optional packages too: the modules that use them are checked like the others.
lint: $(VENV)/.installed-slow ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

figures: $(VENV)/.installed ## rebuild the figures from the committed tables
	$(BIN)/rolloutlab figures

bench: $(VENV)/.installed-dev ## every benchmark: ours against a plainly and well written reference
	@set -e; for name in $$($(BIN)/python -m experiments.benchmarks --list | cut -d ' ' -f 1); do \
		$(BIN)/python -m experiments.benchmarks $$name; done

bench-gpu: ## decoding and SMC against the memory bandwidth of an accelerator, in the JAX of $(PYTHON): JAX and flax are all it needs
	@PYTHONPATH=. $(PYTHON) -m experiments.benchmarks.gpu

constraints: ## resolve the newest versions of all dependencies into constraints.txt
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(PYTHON) -m venv "$$folder/venv" && "$$folder/venv/bin/pip" install --quiet uv && \
	"$$folder/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
		--extra dev --extra cuda --extra math --extra spark pyproject.toml constraints.in --output-file "$$folder/constraints.txt" && \
	mv "$$folder/constraints.txt" constraints.txt

clean: ## back to a fresh clone; results/ stays
	rm -rf $(VENV) .jax_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp carries the time at which its installation *began* and appears when it has succeeded, so that neither an
# interrupted installation nor an edit made during one passes for up to date.
$(VENV)/.installed: EXTRAS :=
$(VENV)/.installed-dev: EXTRAS := [dev]
$(VENV)/.installed-slow: EXTRAS := [dev,math,spark]
$(VENV)/.installed $(VENV)/.installed-dev $(VENV)/.installed-slow: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: $(PYTHON) is not Python 3.11 or newer with venv: install one, or name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@touch $@.begun
	$(BIN)/python -m pip install --quiet --editable '.$(EXTRAS)' --constraint constraints.txt
	@mv $@.begun $@
