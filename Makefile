# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# Where torch comes from if no local wheel answers. Default: PyTorch's CPU wheels.
# `make setup TORCH_INDEX=` takes the CUDA build instead.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# What `make run` makes faster, and for how long in all.
TASKS ?= rms_norm linear swiglu logprob
TIME_LIMIT ?= 10m
WORKERS ?= 2
# How long to time identical kernels; 0: only compute from the sessions on record.
STAT_MINUTES ?= 40
# How long the planted bugs may take; what is left over is judged by the next call.
MUTANT_MINUTES ?= 30

BIN := $(VENV)/bin
STAMP := $(VENV)/.kernelsmith-setup
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: setup run rehearse test test-slow lint proof-mutants proof-cheats proof-statistics proof-triton proof-conformance proof-math proof-kills proof-audit proof-night proof-fuzz proof-cuda check-gpu gpu-bundle bench-agent bench figures clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test "$$(uname -s) $$(uname -m)" = "Linux x86_64" || \
	  { echo "error: kernelsmith needs Linux on x86-64, this is $$(uname -s) $$(uname -m). hint: on Windows use WSL2"; exit 3; }
	@command -v $(PYTHON) >/dev/null || \
	  { echo "error: no $(PYTHON). hint: install Python 3.11 or newer, or name one: make setup PYTHON=python3.12"; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $$($(PYTHON) --version) is too old. hint: Python 3.11 or newer: make setup PYTHON=python3.12"; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "error: $(PYTHON) has no venv module. hint: on Debian: apt-get install python3-venv"; exit 3; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || $(PIP) install -q --no-index --no-deps torch==2.13.0 2>/dev/null \
	  || $(PIP) install -q --no-deps $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0 \
	  || { echo "error: torch 2.13.0 could not be installed. hint: set TORCH_INDEX to an index that has it"; exit 3; }
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

run: setup
	$(BIN)/kernelsmith run $(TASKS) --time-limit $(TIME_LIMIT)

# The agent for a minute against a server that plays recorded replies: no key, no model.
rehearse: setup
	$(BIN)/kernelsmith rehearse

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" tests

# The tests that run the gate for minutes: the guide's kernel from its seed to a verified library.
test-slow: setup
	$(BIN)/python -m pytest -m slow tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The long proofs. Each writes JSON under benchmarks/results/.
# Planted bugs through the gate, beside allclose; goes on where it was cut. Two tasks side by side.
proof-mutants: setup
	$(BIN)/python benchmarks/mutants.py --minutes $(MUTANT_MINUTES)
# Every file of tests/adversarial with policy and without, in bubblewrap (about 20 minutes; those
# that are not on record as expected: python benchmarks/cheats.py --missing).
proof-cheats: setup
	$(BIN)/python benchmarks/cheats.py
# Identical kernels of four tasks under the latency rule, then docs/statistics.md. Goes on from
# where it was stopped; wants a machine with nothing else to do.
proof-statistics: setup
	$(BIN)/python benchmarks/null_sessions.py --minutes $(STAT_MINUTES)
	$(BIN)/python benchmarks/null_report.py
	$(BIN)/python benchmarks/figures.py
# TRITON_PYTHONS: interpreters that have another Triton version beside torch and kernelsmith.
proof-triton: setup
	$(BIN)/python benchmarks/triton_versions.py $(TRITON_PYTHONS)
# Every conformance case on three Triton versions, three CPU levels, four program orders.
proof-conformance: setup
	$(BIN)/python benchmarks/conformance.py $(TRITON_PYTHONS)
# The error of every math function of the CPU device against 200 bits.
proof-math: setup
	$(BIN)/python benchmarks/math_ulp.py
# The agent's night on scripted replies, killed fifty times and resumed (about 50 minutes).
proof-kills: setup
	$(BIN)/python benchmarks/agent_kills.py --kills 50 --kills-a-night 10
# One flipped bit among millions of tokens, found in constant memory (minutes; 1.5 GB of disk).
proof-audit: setup
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/audit_demo.py
# The night: ways out of each sandbox, what a warm job costs in each, runs killed and struck at
# random moments, a soak. Docker's rows need an engine (tests/ci/engine.sh starts one where it can).
# NIGHT_MINUTES: for the ways out, and for the kills; what the time does not suffice for is done by
# the next call. About 2 * NIGHT_MINUTES + NIGHT_ENGINE_MINUTES + NIGHT_SOAK_MINUTES + 10 in all.
NIGHT_MINUTES ?= 40
NIGHT_ENGINE_MINUTES ?= 15
NIGHT_SOAK_MINUTES ?= 20
NIGHT_KILLS ?= 300
NIGHT_ENGINE_KILLS ?= 400
NIGHT := $(BIN)/python benchmarks/night
ENGINE_KILLS := --sandbox docker --engine --kills $(NIGHT_ENGINE_KILLS) --minutes $(NIGHT_ENGINE_MINUTES)
proof-night: setup
	tests/ci/engine.sh $(NIGHT)/escapes.py --minutes $(NIGHT_MINUTES)
	tests/ci/engine.sh $(NIGHT)/latency.py
	$(NIGHT)/kills.py --kills $(NIGHT_KILLS) --minutes $(NIGHT_MINUTES)
	tests/ci/engine.sh sh -c '[ -z "$$DOCKER_HOST" ] || exec $(NIGHT)/kills.py $(ENGINE_KILLS)'
	$(NIGHT)/soak.py --minutes $(NIGHT_SOAK_MINUTES)
	$(BIN)/python benchmarks/figures.py
# Hostile sources, traces, IR, files and answers that nobody drew before, for so many minutes.
FUZZ_MINUTES ?= 10
proof-fuzz: setup
	$(BIN)/python benchmarks/fuzz.py --minutes $(FUZZ_MINUTES)
# OPENEVOLVE: its openevolve-run, in a venv of its own.
bench-agent: setup
	$(BIN)/python benchmarks/agent_overhead.py --openevolve $(OPENEVOLVE) --proposals 200 --judged 34 --calls 300
# Seeds and winners compiled for three GPU generations; nothing is run.
proof-cuda: setup
	$(BIN)/python benchmarks/cuda_compile.py $(TRITON_PYTHONS)
# The first minutes on a GPU. `make check-gpu DRY=--dry-run` needs none and shows nothing of one.
check-gpu: setup
	$(BIN)/python benchmarks/gpu_check.py $(DRY)
# What a GPU machine without a network needs beside torch, triton, numpy, scipy and llvmlite, for
# its Python release: wheels in gpu-bundle/. How to use them: benchmarks/gpu_check.py.
GPU_PYTHON ?= 3.12
NOT_BUNDLED := torch|triton|numpy|scipy|llvmlite|sympy|mpmath|networkx|jinja2|fsspec|filelock
NOT_BUNDLED := $(NOT_BUNDLED)|setuptools|mypy|librt|ast_serialize|ruff|import-linter|grimp|build
NOT_BUNDLED := $(NOT_BUNDLED)|hypothesis|sortedcontainers|pytest|execnet|iniconfig|pluggy
NOT_BUNDLED := $(NOT_BUNDLED)|pyproject_hooks|hatchling|trove|pathspec
NOT_BUNDLED := $(NOT_BUNDLED)|transformers|tokenizers|hf-xet|huggingface_hub|regex|safetensors|tqdm|pyarrow
PLATFORMS := manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1
gpu-bundle: setup
	rm -rf gpu-bundle && mkdir gpu-bundle
	grep -viE '^(#|$(NOT_BUNDLED))' constraints.txt > gpu-bundle/names.txt
	$(PIP) download -q --no-deps --only-binary=:all: --implementation cp \
	  --python-version $(GPU_PYTHON) $(PLATFORMS:%=--platform %_x86_64) \
	  -d gpu-bundle -r gpu-bundle/names.txt
	$(PIP) wheel -q --no-deps --no-build-isolation -w gpu-bundle .
	rm gpu-bundle/names.txt && du -sh gpu-bundle
bench: setup
	$(BIN)/python benchmarks/cpu_device.py
	$(BIN)/python benchmarks/lineage_scale.py
	$(BIN)/python benchmarks/verdict_cost.py
# Every figure that wants a quiet machine, about an hour; goes on where it was interrupted.
# FIGURES: further options, such as --plan, --only cpu_device, --again.
figures: setup
	$(BIN)/python benchmarks/quiet_set.py --null-minutes $(STAT_MINUTES) --time-limit $(TIME_LIMIT) $(FIGURES)

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
