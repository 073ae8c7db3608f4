# Everything happens in .venv. A second run finds it ready: each stamp is newer than what it was made from.
PYTHON ?= python3
PIP_ARGS ?=   # for example --extra-index-url and the address of an index with CPU builds of torch
BIN := .venv/bin
JOBS ?= 2   # test files that run side by side; each on one thread
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: run test test-all slowest check docs bench lock audit wheel clean

run: .venv/installed-run
	@$(BIN)/regard translate \
		"Je suis étudiant." "Où est la gare, s'il vous plaît ?" "Elle a lu ce livre deux fois parce qu'il est court."
	@echo
	@echo "Try next:"
	@echo "  $(BIN)/regard translate \"...\"           a sentence of your own; --alignment shows which word came from which"
	@echo "  $(BIN)/regard translate < fr.txt        a whole file, line by line"
	@echo "  $(BIN)/regard studio                    a page to look inside: what the model looks at as you type"
	@echo "  $(BIN)/regard serve                     the same over HTTP, as LibreTranslate's and DeepL's clients want it"
	@echo "  $(BIN)/regard train --help              a translator of your own from two text files"
	@echo "  $(BIN)/regard lab                       what lectures claim of these models, and experiments that test it"
	@echo "  make test                              see every test pass"

test: .venv/installed-dev
	$(PYTEST)

test-all: .venv/installed-dev
	$(PYTEST) -m "not alone"
	$(PYTEST) -n 0 -m alone

slowest: .venv/installed-dev   # make test, and its slowest tests into docs/test-all.md
	$(PYTEST) --junitxml=build/tests.xml
	$(BIN)/python tools/slowest_tests.py build/tests.xml

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/installed-dev   # a site with search that needs no network; open build/docs/index.html
	$(BIN)/python -m sphinx --fail-on-warning --quiet --builder html docs build/docs

bench: .venv/installed-dev
	$(BIN)/regard bench

lock: .venv/installed-dev   # after a change of pyproject.toml or constraints.txt; needs pip-tools
	$(BIN)/python requirements/lock.py

audit: .venv/installed-dev   # asks a public database of vulnerabilities; needs pip-audit
	$(BIN)/pip-audit --no-deps --disable-pip -r requirements/run.txt -r requirements/dev.txt

wheel: .venv/installed-dev
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './data/*' -prune -exec rm -rf {} +

.venv/bin/python:
	@echo "Making .venv; the first time takes a few minutes, most of them for PyTorch."
	@$(PYTHON) -m venv .venv

# Everything but torch is installed from locked versions whose hashes are checked; torch is the build of your choice.
LOCKED = pip install --quiet --require-hashes --no-deps
.venv/installed-run: pyproject.toml constraints.txt requirements/run.txt setup.py | .venv/bin/python
	@$(BIN)/$(LOCKED) -r requirements/run.txt
	@$(BIN)/pip install --quiet $(PIP_ARGS) -c constraints.txt torch
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/pip check --quiet
	@touch $@

.venv/installed-dev: .venv/installed-run requirements/dev.txt
	@$(BIN)/$(LOCKED) -r requirements/dev.txt
	@$(BIN)/pip check --quiet
	@touch $@
