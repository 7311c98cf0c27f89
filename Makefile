# Two commands do everything on a fresh machine with Python 3.11+, Java 17, make and a package index:
#   make demo    sets up and runs the main job
#   make test    sets up and passes the tests
# Everything is written below this folder: .venv, .cache, .airflow, .demo. All paths are relative, so the folder's own
# path may hold spaces.

SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv/bin
# What a user's shell may carry and what would break an isolated environment.
CLEAN_ENV := env -u PYTHONPATH -u PYTHONHOME -u PYTHONDONTWRITEBYTECODE -u AIRFLOW_HOME -u AIRFLOW_CONFIG -u SPARK_HOME \
	-u SPARK_REMOTE -u PYSPARK_PYTHON -u PYSPARK_DRIVER_PYTHON -u PYSPARK_SUBMIT_ARGS -u VIRTUAL_ENV
PYTEST_ARGS ?=

.PHONY: help setup demo ui test lint unit bench clean

help:
	@echo 'make demo   set up, then run seven days of real flights through Airflow, Spark and Paimon'
	@echo 'make ui     open the Airflow UI on what the demo left'
	@echo 'make test   set up, then lint, check types and layers, and run all tests'
	@echo 'make clean  remove everything that the other commands made'

setup:
	@$(CLEAN_ENV) sh .setup.sh

demo: setup
	@$(CLEAN_ENV) $(VENV)/python -m dags_examples.demo

ui: setup
	@$(CLEAN_ENV) $(VENV)/python -m dags_examples.demo ui

lint: setup
	@$(CLEAN_ENV) $(VENV)/ruff check .
	@$(CLEAN_ENV) $(VENV)/ruff format --check .
	@$(CLEAN_ENV) $(VENV)/mypy
	@$(CLEAN_ENV) $(VENV)/lint-imports

test: lint
	@$(CLEAN_ENV) $(VENV)/python -m pytest $(PYTEST_ARGS)

clean:
	rm -rf .venv .cache .airflow .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
