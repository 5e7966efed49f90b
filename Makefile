# make demo        localise two sounds in a made-up clip with the built-in weights, then open demo/index.html
# make test        install and run every test; WORKERS=4 runs four at a time instead of three
# make check       ruff, mypy --strict, import directions
# make train-demo  train both stages from scratch on the made-up world and write a report
# make reproduce   every table and figure of the paper on one page, on made-up clips; REPRODUCE_FLAGS="--data DIR" on others
# make docs        build the documentation into site/
# make clean       remove everything the above made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAIN_FLAGS ?=
REPRODUCE_FLAGS ?= --quick
WORKERS ?= 3
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check train-demo reproduce docs clean

help:
	@sed -n 's/^# make/make/p' Makefile

# One stamp file per set of extras: installing again happens only when the project file changes.
$(VENV)/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/%: $(VENV)/base
	$(PIP) -e '.[$*]'
	@touch $@

demo: $(VENV)/base
	$(BIN)/soundwhere demo --out demo

train-demo: $(VENV)/report
	$(BIN)/soundwhere train --config configs/made-up-world.toml --out train-demo --report $(TRAIN_FLAGS)

reproduce: $(VENV)/report
	$(BIN)/soundwhere reproduce --out reproduction $(REPRODUCE_FLAGS)

# A file's tests stay on one worker, as they share servers, browsers and exported models; long files come first.
# Compiled files are kept, whatever the environment says: hundreds of processes would compile the package again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_import_direction.py

docs: $(VENV)/docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) demo train-demo reproduction site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
