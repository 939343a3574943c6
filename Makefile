# Everything a contributor types. `make help` lists it.

PYTHON ?= python3
BIN := .venv/bin
PYTEST_ARGS ?=
# Each process of the suite has servers and a Java runtime of its own.
JOBS ?= 2

# Commands and workers that tests start would compile all modules anew without it.
unexport PYTHONDONTWRITEBYTECODE

# PG=16 runs the suite on another version of PostgreSQL.
PG_OPTION := $(if $(PG),--pg $(PG))
# KEEP=1 leaves the demo running.
KEEP_OPTION := $(if $(KEEP),--keep)

.DEFAULT_GOAL := help
.PHONY: help demo browser test test-unit test-long check check-types check-pages check-lint check-imports check-rest docs pictures campaign soak growth bench walk profile bench-page clean

help: ## list the targets
	@while IFS= read -r line; do \
	  case "$$line" in \
	    [a-z]*:*"## "*) printf '%-12s %s\n' "$${line%%:*}" "$${line##*## }" ;; \
	  esac; \
	done < $(firstword $(MAKEFILE_LIST))

# The stamp is newer than the two files as long as the environment is what they say.
.venv: .venv/.installed ## create the virtual environment
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[demo,dev]'
	@touch $@

demo: .venv ## run the main job on embedded servers (KEEP=1 leaves it running)
	$(BIN)/snaptide demo $(KEEP_OPTION)

browser: .venv ## find the browser of the console's tests; as root, install it where it is missing
	@$(BIN)/python -m tests.chromium

test: .venv browser ## run every test (PG=16 for another PostgreSQL, JOBS=4 on more cores, PYTEST_ARGS)
	$(BIN)/pytest --numprocesses $(JOBS) --dist worksteal $(PG_OPTION) $(PYTEST_ARGS)

test-unit: .venv ## run the quick tests that need no server
	$(BIN)/pytest --numprocesses $(JOBS) --dist worksteal -m "not slow" tests/unit $(PYTEST_ARGS)

test-long: .venv ## the fold, compiled pushes, a large transaction, numbers of sites and a check of many differences at length (FOLDS=100000 LOGS=300 CALLS=5000000 SITES=50 INSERTS=100000 DIFFERENCES=1000000)
	SNAPTIDE_FOLD_CASES=$(or $(FOLDS),100000) \
	SNAPTIDE_COMPILED_CASES=$(or $(LOGS),300) \
	SNAPTIDE_LARGE_CALLS=$(or $(CALLS),5000000) \
	SNAPTIDE_NUMBERS_SITES=$(or $(SITES),50) \
	SNAPTIDE_NUMBERS_INSERTS=$(or $(INSERTS),100000) \
	SNAPTIDE_DIFFERENCES=$(or $(DIFFERENCES),1000000) $(BIN)/pytest $(PG_OPTION) $(PYTEST_ARGS) \
	  tests/integration/test_net_change_property.py \
	  tests/integration/test_compiled_property.py \
	  tests/integration/test_large_transaction.py \
	  tests/integration/test_numbers_property.py \
	  tests/integration/test_check_million.py

# Two at a time: one core would idle while types are checked.
check: .venv ## format, lint, types, imports, spelling, compose file, docs
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target \
	  check-types check-pages check-lint check-imports check-rest

check-types:
	$(BIN)/mypy

# With --quiet, MkDocs does not count its warnings: a link to a missing anchor passes.
check-pages:
	$(if $(wildcard mkdocs.yml),$(BIN)/mkdocs build --strict)

check-lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-imports:
	$(BIN)/lint-imports

check-rest:
	$(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

docs: .venv ## generate the reference, build the pages into site/
	$(BIN)/python -m docs.generate
	$(BIN)/mkdocs build --strict

pictures: .venv browser ## take the docs' pictures of the console
	$(BIN)/pytest tests/acceptance/test_console_stories.py --pictures docs/howto/pictures

growth: .venv ## change rows for a week in fast forward (CHANGES=10000000)
	SNAPTIDE_GROWTH_CHANGES=$(or $(CHANGES),10000000) $(BIN)/pytest \
	  tests/integration/test_growth.py -s -k bounded $(PG_OPTION)

soak: .venv ## play HISTORIES=20000 random histories (SEED=1; goes on where it was, ONLY=WORLD:HISTORY plays one again); HOURS=8: the state machine; KIND=conditions: histories of conditions that ask other tables; KIND=checks RUNS=500: checks under load, with rows planted; KIND=group: load eight masters (MINUTES=10 RATE=1000 SHAPE=star); KIND=contracts: contracts of 20 sites while workers are killed (MINUTES=10)
ifeq ($(KIND),group)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),10) \
	  --rate $(or $(RATE),1000) --shape $(or $(SHAPE),mesh)
else ifeq ($(KIND),contracts)
	SNAPTIDE_CONTRACTS_SECONDS=$$(( $(or $(MINUTES),10) * 60 )) \
	SNAPTIDE_CONTRACTS_SEED=$(or $(SEED),0) $(BIN)/pytest --log-cli-level=INFO --timeout 0 \
	  tests/faults/test_contracts_under_load.py -p no:randomly $(PG_OPTION)
else ifdef HOURS
	SNAPTIDE_ORACLE_SECONDS=$$(( $(HOURS) * 3600 )) \
	SNAPTIDE_ORACLE_SEED=$(or $(SEED),0) SNAPTIDE_ORACLE_EXAMPLES=20 \
	SNAPTIDE_ORACLE_STEPS=50 $(BIN)/pytest tests/oracle/test_oracle.py -s -p no:randomly $(PG_OPTION)
else ifeq ($(KIND),checks)
	$(BIN)/python -m tests.oracle.checks --runs $(or $(RUNS),500) \
	  --seed $(or $(SEED),1) $(if $(ONLY),--only $(ONLY)) $(PG_OPTION)
else
	$(BIN)/python -m tests.oracle.$(or $(KIND),histories) --histories $(or $(HISTORIES),20000) \
	  --seed $(or $(SEED),1) $(if $(ONLY),--only $(ONLY)) $(PG_OPTION)
endif

campaign: .venv ## crash by the thousand (KIND=async, sync or masters, CRASHES=1000 SEED=1, JOBS=4 on more cores); goes on where it was
	$(BIN)/python -m tests.campaign $(if $(KIND),--kind $(KIND)) \
	  $(if $(CRASHES),--crashes $(CRASHES)) $(if $(SEED),--seed $(SEED)) --jobs $(JOBS)

bench: .venv ## run the benchmarks (ONLY=push for one; ONLY=scale-out alone has Spark's cluster, ONLY=sites has SITES=10,100,1000 of them, ROWS=, AGAINST=FILE to compare with an earlier run)
	$(if $(SITES),SNAPTIDE_BENCH_SITES=$(SITES)) $(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(ROWS),--rows $(ROWS)) \
	  $(if $(AGAINST),--against $(AGAINST))

walk: .venv ## count the files, calls and statements of the main flows (FLOW=push shows those of one)
	$(BIN)/python -m benchmarks.walk $(if $(FLOW),--flow "$(FLOW)")

profile: .venv ## show where a benchmark's time goes (ONLY=refresh ROWS=100000)
	$(BIN)/python -m benchmarks.profile --only $(ONLY) $(if $(ROWS),--rows $(ROWS))

bench-page: .venv ## write the docs' page of the figures of runs (FROM="a.json b.json")
	$(BIN)/python -m benchmarks.page $(or $(FROM),benchmarks.json)

clean: ## remove what was built, the environment too
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db
