# Everything sets itself up: only python3 and make are needed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types bench accuracy coverage study docs clean

demo: .venv/installed
	$(BIN)/smered demo

test: .venv/installed-dev lint types
	$(BIN)/pytest -n 2 --dist worksteal
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -m plain -W "ignore:overflow encountered" \
		--cov=smered.kernels --cov-report=term --cov-fail-under=95

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy

bench: .venv/installed-dev
	$(BIN)/python -m benchmarks

# Accuracy on public files with truth: DATA names their folder; about 20 minutes on two cores.
DATA ?= ../shared/data
accuracy: .venv/installed-dev
	$(BIN)/pip install --quiet -e '.[accuracy]'
	$(BIN)/python -m benchmarks.accuracy $(DATA)

# Coverage of intervals on simulated surveys: about an hour on two cores; it goes on where it was.
coverage: .venv/installed-dev
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.surveys

# The study of docs/study.md: about 20 minutes on two cores; it goes on where it was.
study: .venv/installed-dev
	$(BIN)/smered study --out study
	mkdir -p docs/figures
	cp study/study.md docs/study.md
	cp study/figures/*.svg docs/figures/

docs: .venv/installed-dev
	$(BIN)/mkdocs build

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs,diagnostics,databases,analyses,ray]'
	touch $@ .venv/installed
