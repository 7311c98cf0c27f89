# Two commands do everything on a fresh machine with Python 3.11+, Java 17+, make and a package index:
#   make demo    sets up and runs the main job
#   make test    sets up and passes the tests
# Everything is written below this folder: .venv, .cache, .airflow, .demo. All paths are relative, because make
# cannot name a file whose path holds a space.

SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

# What a user's shell may carry and what would break an environment of its own.
CLEAN := env -u PYTHONPATH -u PYTHONHOME -u PYTHONSTARTUP -u PYTHONDONTWRITEBYTECODE -u PYTHONWARNINGS \
	-u PYTHONOPTIMIZE -u AIRFLOW_HOME -u AIRFLOW_CONFIG -u SPARK_HOME -u SPARK_CONF_DIR -u SPARK_REMOTE \
	-u PYSPARK_PYTHON -u PYSPARK_DRIVER_PYTHON -u PYSPARK_SUBMIT_ARGS -u VIRTUAL_ENV \
	PAIMON_ENGINE_CACHE="$$PWD/.cache/engine"

# For example: make test PYTEST_ARGS="tests/format -x"
PYTEST_ARGS ?=

# Each worker takes whole files, so that what tests of a file share is made once; more than four would need too much memory.
# tests/conftest.py puts the longest files first, which xdist must not order again by numbers of tests.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# What needs no Java and no server, for the daily loop.
FAST := tests/lsm tests/merge tests/meta tests/predicate tests/test_tidy.py

.PHONY: help setup demo ui lint check test test-install test-airflow docs clean

help:
	@echo 'make demo          set up, then run seven days of real flights through Airflow, Spark and Paimon'
	@echo 'make ui            open the Airflow UI on what the demo left'
	@echo 'make check         lint, types, layers and the fast tests: about a minute, without Java'
	@echo 'make test          set up, then lint, check types and layers, and run the tests'
	@echo 'make test-airflow  the tests that run a real Airflow for minutes each (one to two hours)'
	@echo 'make test-install  install the wheel into an empty environment (some minutes)'
	@echo 'make docs          build the documentation, to .cache/docs/index.html'
	@echo 'make clean         remove everything that the other commands made'

setup:
	@$(CLEAN) sh .setup.sh

demo: setup
	@$(CLEAN) AIRFLOW_HOME="$$PWD/.airflow" $(PYTHON) -m dags_examples.demo

ui: setup
	@$(CLEAN) AIRFLOW_HOME="$$PWD/.airflow" $(PYTHON) -m dags_examples.demo ui

lint: setup
	@$(CLEAN) $(PYTHON) -m ruff check .
	@$(CLEAN) $(PYTHON) -m ruff format --check .
	@$(CLEAN) $(PYTHON) -m mypy
	@$(CLEAN) .venv/bin/lint-imports --no-logo --no-cache

# `exec` makes pytest a child of make itself, with which it ends.
check: lint
	@mkdir -p .cache/tests
	@exec $(CLEAN) PYTEST_DEBUG_TEMPROOT="$$PWD/.cache/tests" $(PYTHON) -m pytest -q $(SIDE_BY_SIDE) $(FAST)

test: lint
	@mkdir -p .cache/tests
	@exec $(CLEAN) PYTEST_DEBUG_TEMPROOT="$$PWD/.cache/tests" $(PYTHON) -m pytest $(SIDE_BY_SIDE) $(PYTEST_ARGS)

test-airflow: setup
	@mkdir -p .cache/tests
	@exec $(CLEAN) PYTEST_DEBUG_TEMPROOT="$$PWD/.cache/tests" $(PYTHON) -m pytest --long -m long $(PYTEST_ARGS)

test-install: setup
	@mkdir -p .cache/tests
	@exec $(CLEAN) PYTEST_DEBUG_TEMPROOT="$$PWD/.cache/tests" $(PYTHON) -m pytest --install tests/packaging

docs: setup
	@$(CLEAN) AIRFLOW_HOME="$$PWD/.cache/docs-airflow" $(PYTHON) -m sphinx -W --keep-going -q -b html docs .cache/docs
	@echo 'Open .cache/docs/index.html in a browser.'

clean:
	rm -rf .venv .cache .airflow .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
