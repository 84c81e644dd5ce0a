# Two commands do everything on a fresh machine with Python 3.11+ (with venv), git and make:
#   make demo   the main job: record live, calibrate, replay, report
#   make test   lint, types, import contracts, tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo fidelity hostile test test-gpu test-npu-wheel lint check-docs docs picture published policies peers where-lag-wins answers answers-syncs \
    answers-syncs-live clean

demo: $(VENV)/.engine
	$(BIN)/simtool validate --sl 7 --concurrency 8 --num-prompts 32 --repeats 5 \
	    --out traces/local/demo --report reports/demo.html --force

test: lint
	$(BIN)/python -m pytest -n 2 --cov --cov-report= --cov-fail-under=95

# every link and every command line in the pages leads somewhere
check-docs: $(VENV)/.dev
	$(BIN)/python -m pytest tests/test_pages.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# On a machine with a CUDA GPU; elsewhere it says what was not run, and docs/hardware.md says when it last ran.
test-gpu: $(VENV)/.dev
	$(BIN)/python -m pytest -m gpu -rs tests/gpu

# The real torch_npu wheel in an environment of its own, without CANN or an NPU: on stubs, then on a stand-in for CANN.
# It says why where it cannot run.
test-npu-wheel:
	PYTHON=$(PYTHON) tests/engine/npu/lane

# 1,000 hostile inputs, and every writer killed at each of its file operations, commands stopped; long (docs/reliability.md).
hostile: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python benchmarks/hostile.py inputs
	PYTHONPATH=. $(BIN)/python benchmarks/hostile.py kills
	PYTHONPATH=. $(BIN)/python benchmarks/hostile.py stops
	PYTHONPATH=. $(BIN)/python benchmarks/hostile.py interrupts

# Rebuilds docs/fidelity.md, docs/fidelity-tables.md and what verdicts say of them; an hour, on a machine with nothing else to do.
fidelity: $(VENV)/.engine
	PYTHONPATH=. $(BIN)/python -m benchmarks.fidelity.run
	PYTHONPATH=. $(BIN)/python -m benchmarks.fidelity.across
	PYTHONPATH=. $(BIN)/python -m benchmarks.fidelity.pages

docs: $(VENV)/.dev
	$(BIN)/python -m simtool.trace.schema_page > docs/trace-format.md
	$(BIN)/python -m simtool.cli.documents.page > docs/scripting.md
	$(BIN)/python -m simtool.cli.documents.transcripts docs/questions.md README.md

# docs/pictures/step.svg: a step of each placement, live beside replayed
picture: $(VENV)/.engine
	$(BIN)/python docs/pictures/make.py

# docs/published.md: what others published, predicted from what else they published; a minute or two
published: $(VENV)/.engine
	$(BIN)/simtool validate --published --out docs/published.md --force

# the tables of docs/policies.md: every policy replayed on traces that ship; a minute or two of computing
policies: $(VENV)/.engine
	PYTHONPATH=. $(BIN)/python benchmarks/policies.py

# docs/peers.md: other public simulators on what a shipped trace can tell them; PEERS names their builds and checkouts:
#   make peers PEERS="--inference-lab COMMAND --frontier CHECKOUT --frontier-python PYTHON"
peers: $(VENV)/.engine
	PYTHONPATH=. $(BIN)/python -m benchmarks.peers $(PEERS)

# docs/where-lag-wins.md and its picture: drawn texts on made machines, replayed; under a minute of computing
where-lag-wins: $(VENV)/.engine
	PYTHONPATH=reports $(BIN)/python -m published_runs.plane

# from the live traces that ship; on two quiet cores a matter of minutes
answers: $(VENV)/.engine
	$(BIN)/simtool answers $(patsubst %/manifest.json,%,$(wildcard traces/*/manifest.json)) \
	    --figures models/profiles/xllm-2280-like.toml --page reports/answers.html --force

# The same with the syncs of the pull request's code. SYNCS_LIVE: folder of recordings of the arms; without it the page would
# lose its live part, so a page that is there stays.
SYNCS = traces/local/syncs
answers-syncs: $(VENV)/.engine
	PYTHONPATH=reports $(BIN)/python -m xllm_2280.syncs traces/sl7-lag --profile models/profiles/measured-sl7.json \
	    --figures models/profiles/xllm-2280-like.toml $(if $(SYNCS_LIVE),--live $(SYNCS_LIVE) --force)

# Records the arms with and without syncs, interleaved, and writes the page with intervals; three minutes of a quiet machine.
answers-syncs-live: $(VENV)/.engine
	$(BIN)/simtool validate --sl 7 --concurrency 8 --out $(SYNCS) --force --policy lag --policy lag-overlap \
	    --policy xllm-2280/this-step --policy xllm-2280/lag --policy xllm-2280/lag-overlap \
	    --policy docs/placements/xllm-fill-pinned.toml --policy docs/placements/xllm-pinned.toml \
	    --policy docs/placements/xllm-early-index.toml
	$(MAKE) answers-syncs SYNCS_LIVE=$(SYNCS)/live

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.engine: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[engine]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[engine,dev]'
	touch $@ $(VENV)/.engine

clean:
	rm -rf $(VENV) .venv-npu traces/local reports/*.html
