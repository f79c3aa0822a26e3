# make demo       installs specplan into .venv and answers one real question
# make test       installs what tests need, then lint, types, import layers, tests
# make bench      start-up time, memory and speed on this machine, against what was promised
# make profiles   fits the profiles of the measured GPUs again (extra silicon)
# make accuracy   scores everything again and writes docs/accuracy.md
PYTHON ?= python3
VENV ?= .venv
# PyTorch runs the kernel tests on the CPU. Its plain wheel brings CUDA (3 GB): name a CPU build, or nothing (TORCH=) to
# leave those tests out.
TORCH ?= torch==2.13.0 triton>=3.7.1
EXTRAS ?= plot,silicon

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PIP_ROOT_USER_ACTION := ignore

.PHONY: demo test lint tests chromium test-slow bench profiles accuracy clean

demo: $(VENV)/installed
	$(BIN)/specplan recommend --model examples/llama-3.3-70b-h200.yaml

test: lint tests

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(VENV)/installed-dev chromium
	$(BIN)/python -m pytest -m "not slow"

# The report is tested in Debian's Chromium. Without the right to install it those tests are skipped (never under CI).
BROWSER := chromium chromium-driver
chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	    command -v apt-get >/dev/null && apt=$$([ "$$(id -u)" = 0 ] || echo "sudo -n") && \
	    $$apt apt-get -qq update && \
	    $$apt env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $(BROWSER) >/dev/null; } || \
	    echo "could not install $(BROWSER): browser tests will be skipped"

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

bench: $(VENV)/installed-dev
	$(BIN)/python tests/bench.py

profiles: $(VENV)/installed-dev
	$(BIN)/python -m specplan.microbench.fit_profile

accuracy: $(VENV)/installed-dev
	$(BIN)/python -m specplan.planner.validate.page
	$(BIN)/python -m specplan.microbench.accuracy

clean:
	rm -rf $(VENV) dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "specplan needs Python 3.11 or newer; name it with: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(PIP) install -e .
	@$(BIN)/python -m compileall -q cli.py commands gpu_profiles microbench planner specplan/__*.py	# as pip does for what it copies
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --upgrade "pip>=25.1"      # the first that knows dependency groups
	$(PIP) install --group dev -e ".[$(EXTRAS)]"
	$(if $(TORCH),$(PIP) install $(foreach part,$(TORCH),"$(part)"))
	@touch $@
