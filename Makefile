# The two commands of the README: `make demo` and `make test`. Both set up what they need from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two more than there are cores: most tests wait for processes of their own to start and end.
JOBS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 2 )))

# The versions of torch that `make matrix` runs the truth cases on; MATRIX_2_15=/path/to/python names an interpreter of one.
MATRIX ?= 2.8 2.11 2.13 2.15

.PHONY: setup demo test slow matrix check docs site unit chromium screenshot clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

demo: setup
	$(BIN)/dynalyze explain samples/breaks.py
	$(BIN)/dynalyze explain --no-bench samples/llama.py

test: setup chromium check
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

# What `make test` leaves out for time: slow siblings of its tests, second forms of one check, twenty architectures, ten kills of a sweep.
slow: setup chromium
	DYNALYZE_KILLS=10 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

# The truth cases on other versions of torch, one after the other: hours. Not in CI. It writes docs/reference/torch-versions.md.
matrix: setup
	nice $(BIN)/python tests/integration/matrix.py $(MATRIX)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tests/line_budget.py

# The pages of docs/reference that say what the code says: options, keys of the report, rules.
docs: setup
	$(BIN)/python docs/make_reference.py

# A page for each finding, recipe and graph-break id, in site/.
site: setup
	rm -rf site
	$(BIN)/python docs/make_site.py

# Browser tests use the system's Chromium; nothing is downloaded from elsewhere.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "No Chromium found: the browser tests will be skipped. Install your system's package to run them."; fi

# The picture in the README: the first screen of a real page, as the browser test that checks it sees it.
screenshot: setup chromium
	DYNALYZE_REQUIRE_BROWSER=1 DYNALYZE_SCREENSHOT=docs/images/page.png \
	  $(BIN)/python -m pytest -q tests/browser/test_page.py -k every_planted_fault

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist build dynalyze-reports
