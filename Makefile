# Two commands are all a fresh machine needs: `make demo` and `make test`. Python 3.11+ is the only assumption.
PYTHON ?= python3
PODFIT := .venv/bin/podfit

.PHONY: help demo test lowest bench attack oracle e2e browser node lint docs site facts models release package lock clean

help:  ## what there is
	@grep -hE '^[a-z0-9.]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-7s %s\n", $$1, $$2}'

.venv: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"podfit needs Python 3.11 or newer, {sys.executable} is {sys.version.split()[0]}; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@echo "installing into .venv, about a minute, once"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@.venv/bin/python -m compileall -q webhook
	@touch .venv

demo: .venv  ## the real server over TLS, which denies and patches the manifests in examples/
	.venv/bin/python -m examples.demo

test: .venv  ## all tests but those of the next target
	.venv/bin/python -m pytest -q -n 2 tests

lowest:  ## tests with the lowest versions that pyproject.toml allows: of the base, and of each extra by itself
	rm -rf .lowest
	$(PYTHON) -m venv .lowest/uv
	.lowest/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(call lowest_of,base,,tests/kube/test_manifest.py tests/kube/test_patch.py tests/evaluation/policy tests/vllm/command/test_script.py tests/cli/test_commands.py)
	$(call lowest_of,cluster,--extra cluster,tests/cluster)
	$(call lowest_of,server,--extra server,tests/server)
	$(call lowest_of,ui,--extra ui,tests/ui)
	$(call lowest_of,mcp,--extra mcp,tests/mcp/test_mcp.py)
	$(call lowest_of,lsp,--extra lsp,tests/lsp)
	$(call lowest_of,hub,--extra hub,tests/cli/test_models_command.py)

define lowest_of
	.lowest/uv/bin/uv venv --quiet --python $(PYTHON) .lowest/$(1)
	.lowest/uv/bin/uv pip install --quiet --python .lowest/$(1) --resolution lowest-direct $(2) -r pyproject.toml
	.lowest/uv/bin/uv pip install --quiet --python .lowest/$(1) hatchling hypothesis jsonschema pytest pytest-xdist
	.lowest/uv/bin/uv pip install --quiet --python .lowest/$(1) --no-deps --no-build-isolation -e .
	.lowest/$(1)/bin/python -m pytest -q -n 2 $(3)
endef

e2e: .venv  ## against a real API server; ARGS="-k diff" for some, ARGS=--update to accept the output
	.venv/bin/python -m tests.e2e.binaries
	.venv/bin/python -m pytest -q tests/e2e $(ARGS)

browser: .venv  ## the local page in Chromium (Debian's package); ARGS=--screenshots draws those of docs/ui.md
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.lock
	.venv/bin/python -m pytest -q tests/browser $(ARGS)

node: .venv  ## the image and the chart on a node of its own (root); BASE=python:3.13-slim, ARGS="-k install"
	.venv/bin/python -m tests.node $(if $(BASE),--base=$(BASE)) $(ARGS)

lint: .venv  ## ruff, mypy --strict, pylint's names, words and sentence lengths, and everything generated is fresh
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/pylint webhook/podfit
	.venv/bin/python -m scripts.facts.build --check
	.venv/bin/python -m scripts.docs --check
	.venv/bin/python -m scripts.style

facts: .venv  ## build webhook/podfit/data from the reviewed tables in facts/
	.venv/bin/python -m scripts.facts.build

models: .venv  ## add models to facts/: IDS="org/name ID=FOLDER" or IDS=FILE
	.venv/bin/python -m scripts.facts.add_models $(IDS)

release: .venv  ## read a vLLM release from PyPI: VERSION=0.34.0, or newest; ARGS=--check compares with its extract
	.venv/bin/python -m scripts.facts.release $(VERSION) $(ARGS)

docs: .venv  ## regenerate the rules' pages, the default policy and the golden output
	.venv/bin/python -m scripts.docs

.venv-docs: requirements/docs.lock
	@$(PYTHON) -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch .venv-docs

site: .venv-docs  ## build the documentation site into .cache/site/html and check its links
	.venv-docs/bin/python -m scripts.site

bench: .venv  ## accuracy against real start-ups (STARTUPS=FILE), speed, every option (PARSERS=DIR), and check and fix compared with their peers (MANIFESTS=DIR), and the running server
	.venv/bin/python -m benchmarks.accuracy $(STARTUPS)
	.venv/bin/python -m benchmarks.accuracy benchmarks/found.jsonl --all
	.venv/bin/python -m benchmarks.groups benchmarks/found.jsonl $(STARTUPS)
	.venv/bin/python -m benchmarks.speed
	.venv/bin/python -m benchmarks.nodes
	.venv/bin/python -m benchmarks.logs
	.venv/bin/python -m benchmarks.options $(PARSERS)
	$(if $(MANIFESTS),.venv/bin/python -m benchmarks.peers $(MANIFESTS))
	.venv/bin/python -m benchmarks.client
	.venv/bin/python -m benchmarks.load
	.venv/bin/python -m tests.e2e.binaries
	.venv/bin/python -m benchmarks.soak
	.venv/bin/python -m benchmarks.cluster

attack: .venv  ## hostile clients, reviews, scripts and objects: each is answered in time, memory and time are bounded
	.venv/bin/python -m benchmarks.attacks
	.venv/bin/python -m benchmarks.fuzz
	.venv/bin/python -m benchmarks.fuzz_scripts
	.venv/bin/python -m benchmarks.hostile
	.venv/bin/python -m tests.e2e.binaries
	.venv/bin/python -m benchmarks.hostile_cel

oracle: .venv  ## compare podfit's plans with vLLM's own code; ARGS="--releases 0.33.0 --cases 100 --seed 2" (docs/oracle.md)
	.venv/bin/python -m oracle $(ARGS)

package:  ## build wheel and sdist twice into dist/, check them, and install the wheel; PYTHONS="python3.11 python3.13"
	rm -rf .package
	$(PYTHON) -m venv .package
	.package/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/package.lock
	.package/bin/python -m scripts.package $(PYTHONS)

# Pins keep their extras: with hashes, pip does not take `pydantic==…` for a requirement of `pydantic[email]`.
COMPILE := uv pip compile --universal --generate-hashes --no-strip-extras --no-header --no-annotate --python-version 3.11 -q
lock:  ## pin the dependencies again (needs uv)
	$(COMPILE) -o requirements/base.lock pyproject.toml
	$(COMPILE) -o requirements/server.lock --extra server --extra ui pyproject.toml
	$(COMPILE) -o requirements/dev.lock --all-extras --group dev pyproject.toml
	for group in browser build docs package; do $(COMPILE) -o requirements/$$group.lock --group $$group || exit 1; done

clean:  ## remove what the other targets made
	rm -rf .venv .venv-docs .lowest .package build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache certs/*.pem certs/*.crt certs/*.key
