# Every verb is one line; CI calls the same ones. `make demo` and `make test` need Python 3.11+, make and a JDK 17+.
PYTHON ?= python3
BIN := .venv/bin
ENV := .venv/.ready
PYTEST := $(BIN)/python -m pytest -q
# So many processes of tests side by side, each with a Spark and a broker of its own.
JVMS ?= 2
# What was measured is shown in docs/, also if a target was missed.
SHOWN = missed=$$?; $(BIN)/python tools/docs.py; exit $$missed
# Tests start commands and workers, which need not compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help dev kernel demo test test-fast test-jvm test-security test-kill lint format docs wheel rewrite parity-setup parity-record plans-record parity-full bench bench-quick bench-latency bench-growth clean fuzz

help:            ## Show the verbs
	@grep -E '^[a-z-]+: .*##|^[a-z-]+: +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

dev: kernel      ## Set up .venv with everything for development

kernel: $(ENV)   ## Build the Java kernel's jar (a no-op when it is fresh)
	@$(BIN)/python tools/kernel.py build

demo: kernel     ## See it run: embedded Kafka, a page-view generator, the pv/uv script
	@$(BIN)/tidemill demo

test: test-fast test-jvm   ## All tests

test-fast: $(ENV)          ## Tests without a JVM: under a minute
	$(PYTEST) -n auto -m "not spark and not kafka"

test-jvm: kernel           ## Tests with Spark and Kafka, in two processes or JVMS=n; parity cases in one, which is warm sooner
	$(PYTEST) -n $(JVMS) --dist loadfile --no-loadscope-reorder -m "spark or kafka" --ignore=tests/security --ignore=tests/parity
	$(PYTEST) -m "spark or kafka" tests/parity

test-security: kernel      ## Tests against secured brokers and a real KDC, which is installed where it may; skipped without one, unless CI=true
	$(PYTEST) -n $(JVMS) --dist loadfile --no-loadscope-reorder tests/security

test-kill: kernel          ## Kill an exactly-once job 25 times, or KILLS=n: every row arrives once, in order; and a chain of operators, and windows, a third as often
	KILLS=$(or $(KILLS),25) $(PYTEST) -s tests/faces/test_kills.py

fuzz: kernel     ## Try 10,000 mutated and generated scripts, or FUZZ=n: each gives a plan or diagnostics, and is printed right; and new examples for the property tests
	FUZZ=$(or $(FUZZ),10000) $(PYTEST) -s tests/sql/test_mutations.py tests/sql/test_printer.py tests/sql/test_format.py
	for round in 1 2 3 4 5 6 7 8 9 10; do FUZZ=1 $(PYTEST) tests/formats tests/tables tests/plan tests/dialects || exit 1; done
	FUZZ=$(or $(FUZZ),4000) $(PYTEST) tests/run/test_changelog_properties.py

lint: $(ENV)     ## Ruff and strict mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python tools/docs.py --check

format: $(ENV)   ## Let ruff format everything
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

rewrite: $(ENV)  ## Rewrite the golden files of data-driven tests
	REWRITE=1 $(PYTEST) -m "not spark and not kafka" tests/sql tests/tables tests/plan

docs: $(ENV)     ## Write the generated parts of docs/
	$(BIN)/python tools/docs.py

parity-setup: $(ENV)       ## Install Flink, whose answers the parity tests are recorded from
	@$(BIN)/python tools/flink/install.py $(FLINK_PYTHON)

parity-record: $(ENV)      ## Record Flink's answers: new and changed cases, CASE=name or glob, ALL=1
	@$(BIN)/python tools/flink/record.py $(if $(ALL),--all) $(if $(CASE),'$(CASE)')

plans-record: $(ENV)       ## Record Flink's plans: new and changed statements, PLAN=name or glob, ALL=1
	@$(BIN)/python tools/flink/record_plans.py $(if $(ALL),--all) $(if $(PLAN),'$(PLAN)')

parity-full: kernel        ## Replay every parity case in every way
	PARITY=full $(PYTEST) tests/parity

bench: kernel    ## Beside Flink, taking turns: all workloads, or ONLY="pv_uv nexmark/"; about 90 minutes of a quiet machine
	$(BIN)/python -m bench.suite $(if $(ONLY),--only $(ONLY)) $(BENCH); $(SHOWN)

bench-quick: kernel        ## A part of it, with fewer rows, in ten minutes
	$(BIN)/python -m bench.suite --quick $(if $(ONLY),--only $(ONLY)) $(BENCH)

bench-latency: kernel      ## How long a row is on its way, beside Flink; and the batches of a job that falls behind
	$(BIN)/python -m bench.latency $(BENCH); $(SHOWN)

bench-growth: kernel       ## Time per row as input, state, partitions and sinks grow; start-up; empty batches
	$(BIN)/python -m bench.growth $(if $(ONLY),--only $(ONLY)) $(BENCH); $(SHOWN)

wheel: kernel    ## Build the wheel, kernel jar and Kafka client inside
	rm -rf build/lib build/bdist.* && $(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:           ## Remove what the build made (not the per-user cache)
	rm -rf .venv build dist src/tidemill/jars kernel/build src/*.egg-info

$(ENV): pyproject.toml tools/setup.py
	@$(PYTHON) tools/setup.py
