# `make run` starts the dashboard, `make test` runs every check. Both set up .venv by
# themselves and redo it only when the requirements change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
APP_READY := $(VENV)/.app-ready
DEV_READY := $(VENV)/.dev-ready

.PHONY: run test check lint format bench clean

run: $(APP_READY)
	$(BIN)/streamlit run app.py

test: lint
	$(BIN)/pytest

check: lint
	$(BIN)/pytest -m "not slow"

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(APP_READY)
	$(BIN)/python -m specviz bench

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(APP_READY): requirements.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(DEV_READY): requirements-dev.txt $(APP_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@
