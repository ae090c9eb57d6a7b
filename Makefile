# `make run` and `make test` need Python 3.11 or newer, make and git, and set up everything else by themselves.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
IMAGE ?= advisor-gateway
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# The first Python on the path that is new enough.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Processes are started a hundred times: what is not kept would be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

define new-environment
$(if $(PYTHON),,$(error Python 3.11 or newer is needed; name it with PYTHON=/path/to/python))
$(PYTHON) -m venv --clear $(VENV)
$(PIP) install --require-hashes --requirement requirements-setup.lock || true
endef

# What a lock file names, into an environment; by pip where uv could not be installed, or does not reach the packages.
install = { $(BIN)/uv pip install --quiet --system-certs --python $(1)/bin/python --require-hashes $(2) \
	|| $(PIP) --python $(1)/bin/python install --require-hashes $(2); }

.PHONY: help run check test lint types imports unit format hundred real-model peers schemathesis llmock browser chaos soak bench bench-peers count lock image container-test scale-test clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: $(VENV)/runtime ## start the gateway on http://127.0.0.1:8000
	$(BIN)/python -m app serve

check: $(VENV)/runtime ## validate settings and tools, and show the tools
	$(BIN)/python -m app check

test: lint types imports unit ## everything that has to hold; what CI runs

lint: $(VENV)/development
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/development
	$(BIN)/mypy

imports: $(VENV)/development
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/development
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --cov --cov-report=term

format: $(VENV)/development ## put the code in form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

hundred: $(VENV)/development ## the unit suite a hundred times: a test that fails now and then is a fault
	for turn in $$(seq 100); do echo "turn $$turn" && $(BIN)/python -m pytest -q -m "not (server or real_model or peers or schemathesis or llmock or browser or scale)" || exit 1; done

real-model: $(VENV)/real-model ## drive a real llama.cpp server (downloads 130 MB once)
	$(BIN)/python -m pytest -m real_model -rs tests/real_model

peers: $(VENV)/peers ## read our stream with clients that others wrote (needs node and curl)
	$(BIN)/python -m pytest -m peers -rs tests/peers

schemathesis: $(VENV)/schemathesis/ready ## look for answers that the OpenAPI document does not promise
	$(BIN)/python -m pytest -m schemathesis -rs tests/openapi

llmock: $(VENV)/llmock/ready ## let a hostile model server grade the gateway
	$(BIN)/python -m pytest -m llmock -rs --numprocesses 3 tests/llmock

browser: $(VENV)/browser ## follow runs with Chromium over a line that is cut every second (needs node and Chromium)
	$(BIN)/python -m pytest -m browser -rs tests/browser

chaos: $(VENV)/development ## 10,000 runs before a server that fails in every way; fewer: make chaos ARGS="--runs 1000"
	$(BIN)/python -m benchmarks.chaos $(ARGS)

soak: $(VENV)/development ## 1,000 streams held open for 5 minutes, then 10,000 cuts; less: make soak ARGS="--minutes 1 --streams 200 --cuts 500"
	$(BIN)/python -m benchmarks.soak $(ARGS)

bench: $(VENV)/development ## what a request, a token, a stream and a start cost, beside others; less: make bench ARGS="--rounds 1 --only burst"
	$(BIN)/python -m benchmarks.speed $(ARGS)

bench-peers: $(VENV)/development $(VENV)/bench-peers/ready ## the same with pydantic-ai, openai-agents, LangChain and Haystack
	$(BIN)/python -m benchmarks.speed --peers $(ARGS)

count: $(VENV)/development ## count the calls of a request and of a token, and fail where they grew by a tenth; new baseline: make count ARGS=--write
	$(BIN)/python -m benchmarks.counting $(ARGS)

lock: $(VENV)/development ## write the lock files anew from pyproject.toml
	$(BIN)/uv pip compile --group pyproject.toml:setup $(LOCK) --output-file requirements-setup.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --constraint requirements.lock $(LOCK) --output-file requirements-dev.lock
	$(BIN)/uv pip compile --group pyproject.toml:real-model --no-deps $(LOCK) --output-file requirements-real-model.lock
	$(BIN)/uv pip compile --group pyproject.toml:schemathesis $(LOCK) --output-file requirements-schemathesis.lock
	$(BIN)/uv pip compile --group pyproject.toml:llmock $(LOCK) --output-file requirements-llmock.lock
	$(BIN)/uv pip compile --group pyproject.toml:bench-peers $(LOCK) --output-file requirements-bench-peers.lock

LOCK := --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --quiet

image: ## build the container image
	docker build --tag $(IMAGE) .

container-test: ## build the image and show that it serves, as nobody and on a read-only file system
	.ci/container-test

scale-test: $(VENV)/development ## start the profile "scale", kill one thing after the other, and see what callers saw
	.ci/scale-test

clean: ## remove everything that was made
	rm -rf $(VENV) .mypy_cache .ruff_cache .coverage build dist *.egg-info tests/{peers,browser}/node_modules

# Another lock makes another virtual environment: what it no longer names is gone.
$(VENV)/runtime: requirements-setup.lock requirements.lock
	$(new-environment)
	$(call install,$(VENV),--requirement requirements.lock)
	touch $@

$(VENV)/development: requirements-setup.lock requirements.lock requirements-dev.lock
	$(new-environment)
	$(call install,$(VENV),--requirement requirements-dev.lock)
	touch $(VENV)/runtime $@

$(VENV)/real-model: $(VENV)/development requirements-real-model.lock
	$(call install,$(VENV),--no-deps --requirement requirements-real-model.lock)
	touch $@

$(VENV)/peers $(VENV)/browser: $(VENV)/%: $(VENV)/development tests/%/package-lock.json
	@command -v npm >/dev/null || { echo "missing: node and npm" >&2; exit 1; }
	npm ci --prefix tests/$* --ignore-scripts --no-audit --no-fund
	touch $@

# In environments of their own: their pytest plugins would be loaded into every run of our tests, and what the frameworks
# need is not what the gateway does.
$(VENV)/schemathesis/ready $(VENV)/llmock/ready $(VENV)/bench-peers/ready: $(VENV)/%/ready: $(VENV)/development requirements-%.lock
	$(PYTHON) -m venv --clear --without-pip $(VENV)/$*
	$(call install,$(VENV)/$*,--requirement requirements-$*.lock)
	touch $@
