# Every target begins with `setup`, which costs nothing when there is nothing to do.
BIN := .venv/bin
# What one process has compiled, the hundreds that tests start need not compile again.
unexport PYTHONDONTWRITEBYTECODE
# A file's tests stay on one worker, so that what a module shares (a node, a broker) is made once; tests/scheduling.py
# says more. The folders come in their order, those that take long (cluster, pipeline, sim) first: a long file that
# begins last would keep the others idle. One worker more than processors, since tests of processes wait a third of
# their time.
WORKERS := -q -n 3 --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/pytest $(WORKERS)
# What it mounts is gone with its last process.
OWN_MOUNTS := unshare --mount --propagation private
.DEFAULT_GOAL := help
.PHONY: help setup run test check static archives browser mutants soak soak-pipeline power-cuts bench bench-quick bench-pipeline lock

help:
	@echo 'make run [SECONDS=n]  the demo: three brokers, orders, Spark landing them, a leader killed, a verdict'
	@echo 'make test             everything: format, lint, types, import contracts, the whole suite'
	@echo 'make check            the same without the slow tests, in under a minute'
	@echo 'make mutants          break one line per failure scenario in a copy, and see its test go red'
	@echo 'make mutants RANDOM=n SEED=m [PACKAGE=log] [FLOOR=90]   draw n lines of each package instead'
	@echo 'make soak             kill leaders and coordinators again and again under load (make test: a few times)'
	@echo 'make soak-pipeline    kill brokers, drivers and executors under Spark, and judge the tables'
	@echo 'make power-cuts       cut the power of whole clusters, as root, with and without a pipeline (make test: 3 times)'
	@echo 'make bench            side by side with Apache Kafka (bench-quick: a short run)'
	@echo 'make bench-pipeline   side by side with Spark'\''s own Kafka connector, and with its Parquet sink'
	@echo 'make setup            only what the others begin with: .venv, packages, jars'

setup:
	@scripts/setup.sh

run: setup
	@exec $(BIN)/highwater demo $(if $(SECONDS),--seconds $(SECONDS))

static: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

check: static
	@$(PYTEST) -n 2 tests/unit tests/tidy -m 'not apache and not slow'

# For the dozens of JVMs that the tests start: tests/class_archives.py says more. Without archives they take longer.
archives: setup
	@[ .apache/spark.jsa -nt .venv/.setup-stamp ] || $(BIN)/python -m tests.class_archives || \
	    echo 'no archives of classes: the tests take longer'

browser: setup
	@scripts/setup.sh browser

# What fails of the tests on real processes runs once more, alone: tests/second_run.py says more.
test: static browser archives
	@$(BIN)/python -m tests.second_run $(WORKERS)

mutants: setup
	@$(BIN)/python tests/mutations/run.py $(if $(RANDOM),--random $(RANDOM)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(PACKAGE),--package $(PACKAGE)) $(if $(FLOOR),--floor $(FLOOR))

soak: setup
	@HIGHWATER_KILLS=100 $(BIN)/pytest -q -s tests/cluster/test_soak.py
	@HIGHWATER_GROUP_MEMBERS=10 $(BIN)/pytest -q -s tests/cluster/test_group_load.py
	@HIGHWATER_COORDINATOR_KILLS=50 $(BIN)/pytest -q tests/cluster/test_groups.py -k outlives_its_coordinator

soak-pipeline: setup
	@HIGHWATER_PIPELINE_KILLS=10 $(BIN)/pytest -q -s tests/pipeline/test_exactly_once.py
	@HIGHWATER_FRESH_PACKAGES=1 $(BIN)/pytest -q tests/pipeline/test_documents.py -k from_nothing
	@HIGHWATER_CHECKPOINT_LOSSES=10 $(BIN)/pytest -q -s tests/pipeline/test_pipeline_runner.py -k lost_at_random
	@HIGHWATER_KILL_MATRIX=1 $(BIN)/pytest -q -s tests/pipeline/test_kill_matrix.py

power-cuts: setup
	@HIGHWATER_POWER_CUTS=100 $(BIN)/pytest -q -s tests/cluster/test_power_cuts.py
	@for kind in delta iceberg parquet; do \
	    folder=$$(mktemp -d) && $(OWN_MOUNTS) $(BIN)/python -m tests.pipeline.power_cuts $$folder 20 $$kind && \
	    rm -r $$folder || exit 1; \
	done

bench: setup
	@$(BIN)/python bench/run.py

bench-quick: setup
	@$(BIN)/python bench/run.py --quick

bench-pipeline: setup
	@$(BIN)/python bench/pipeline.py

lock: setup
	@CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --extra dev --extra spark --strip-extras --allow-unsafe \
	    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements.lock pyproject.toml
