# make demo   the whole story: install, judge a frozen panel, train a few runs and watch them
# make test   the whole suite            make lint   ruff, mypy, codespell
# make bench  measured figures against their targets; make bench ONLY="T1 T2" for some

VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
SYSTEM_PYTHON ?= python3

.PHONY: demo test lint bench clean

demo: $(INSTALLED)
	$(VENV)/bin/gmb demo --out runs/demo
	@echo "first   . $(VENV)/bin/activate    (so that gmb is found)"

test: $(INSTALLED)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/codespell

bench: $(INSTALLED)
	$(PYTHON) -m benchmarks $(ONLY)

$(INSTALLED): setup.cfg constraints.txt pyproject.toml
	@$(SYSTEM_PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
		{ echo "error: $(SYSTEM_PYTHON) is too old, Python 3.11 or later is needed; try make SYSTEM_PYTHON=python3.11"; exit 2; }
	$(SYSTEM_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[test]'
	@touch $(INSTALLED)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
