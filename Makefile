# make demo   the whole story: install, judge a frozen panel, train a few runs and watch them
# make test   the whole suite            make lint   ruff, mypy, codespell
# make bench  measured figures against their targets; make bench ONLY="T1 T2" for some
# make panels  every panel into panels/: what is there is left, others are fetched from FROM (as
#             gmb panel fetch --from) or, without FROM, trained, which takes hours
# make docs   the documentation as a site, into site/; make docs-serve shows it as you write
# make leaderboard   every published score on every panel, recomputed, into build/leaderboard: minutes
#             the first time, seconds where nothing has changed; a part of make docs
#
# The demo installs what it needs (the extra train), the others the rest as well (test); by uv where
# it is on the PATH, else by pip. make test SYSTEM_PYTHON=python3.13 tests with that Python.

VENV := .venv
PYTHON := $(VENV)/bin/python
SYSTEM_PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
MAKE_VENV = $(UV) venv --quiet --seed --python $(SYSTEM_PYTHON) $(VENV)
INSTALL = $(UV) pip install --quiet --python $(PYTHON)
else
MAKE_VENV = $(SYSTEM_PYTHON) -m venv $(VENV)
INSTALL = $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile
endif

.PHONY: demo test test-core lint bench panels docs docs-serve leaderboard clean another-python

demo: $(VENV)/.installed-train
	$(VENV)/bin/gmb demo --out runs/demo
	@echo "first   . $(VENV)/bin/activate    (so that gmb is found)"

test: $(VENV)/.installed-test
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal

# What needs no torch, where nothing else is installed: a short test with another Python.
test-core: $(VENV)/.core
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -q -p no:cacheprovider -m "not slow" \
		tests/core tests/design tests/test_plugins.py

$(VENV)/.core: setup.cfg constraints.txt pyproject.toml | $(PYTHON)
	$(INSTALL) -c constraints.txt -e . pytest pytest-timeout hypothesis
	@touch $@

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell

bench: $(VENV)/.installed-test
	$(PYTHON) -m benchmarks $(ONLY)

# The package ships copies of some with fewer columns, which are cut where they lack.
# Those that were published; a recipe alone is built by gmb panel build NAME.
PANELS := $(shell awk '/^[a-z0-9-]+:$$/ {name = $$1} /^  published:/ {sub(":", "", name); print name}' gmb_hf/hub/recipes.yaml)

panels: $(VENV)/.installed-train $(PANELS:%=panels/%/README.md)
	$(PYTHON) -c "from gmb_hf.hub.panels import ship; ship()"

panels/%/README.md:
	GMB_PANELS=panels $(VENV)/bin/gmb panel $(if $(FROM),fetch $* --from $(FROM),build $*)

# mkdocs.yml is strict: a broken link, an unknown reference or a page that is in no menu fails. The
# variable silences a notice about a version 2 of mkdocs, which is not used here.
docs: leaderboard
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build

docs-serve: leaderboard
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs serve --watch gmb_hf

leaderboard: $(VENV)/.installed-docs
	$(VENV)/bin/gmb leaderboard build $(wildcard submissions) $(addprefix --rounds ,$(wildcard rounds)) --trial docs/trial --out build/leaderboard

# One stamp for each extra; test holds all that train does.
$(VENV)/.installed-%: setup.cfg constraints.txt pyproject.toml | $(PYTHON)
	$(INSTALL) -c constraints.txt -e '.[$*]'
	@touch $@ $(if $(filter test,$*),$(VENV)/.installed-train)

$(PYTHON):
	@$(SYSTEM_PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "error: $(SYSTEM_PYTHON) is too old, Python 3.11 or later is needed; try make SYSTEM_PYTHON=python3.11"; exit 2; }
	$(MAKE_VENV)

# An environment of another Python than the one that is asked for is made anew.
ifeq ($(origin SYSTEM_PYTHON),command line)
version_of = $(shell $(1) -c "import sys; print(*sys.version_info[:2])" 2>/dev/null)
ifeq ($(call version_of,$(SYSTEM_PYTHON)),)
$(error $(SYSTEM_PYTHON) does not run; give the path of a Python: make SYSTEM_PYTHON=/usr/bin/python3.11)
endif
HELD := $(wildcard $(PYTHON))
ifneq ($(HELD),)
ifneq ($(call version_of,$(SYSTEM_PYTHON)),$(call version_of,$(HELD)))
$(HELD) $(wildcard $(VENV)/.installed-* $(VENV)/.core): another-python
another-python:
	rm -rf $(VENV)
endif
endif
endif

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
