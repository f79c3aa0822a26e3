# make demo     installs specplan into .venv and answers one real question
# make test     installs what tests need, then lint, types, import layers, tests
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PIP_ROOT_USER_ACTION := ignore

.PHONY: demo test lint tests chromium test-slow test-kernels bench clean

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

# Kernels on a CUDA device, or in Triton's interpreter without one. PyTorch brings CUDA (3 GB), so it stays out of `test`.
test-kernels: $(VENV)/installed-torch
	$(BIN)/python -m pytest -m gpu

# Start-up time, memory and grid speed of this machine, as JSON.
bench: $(VENV)/installed-dev
	$(BIN)/python tests/bench.py

# Regenerate docs/accuracy.md and the README's tables from the data in the checkout.
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
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --upgrade "pip>=25.1"      # the first that knows dependency groups
	$(PIP) install --group dev
	@touch $@

$(VENV)/installed-torch: $(VENV)/installed-dev
	$(PIP) install "$(TORCH)" "triton>=3.7.1"
	@touch $@
