# Two commands: `make run` does the main job, `make test` passes every test. `make -j2 lint` checks the sources, `make bench`
# compares with the peers, `make fuzz` and `make fuzz-engine` look for input that a reader fails on, `make sanitize` for wrong
# uses of memory and races, and `make soak` for what grows.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
ENGINE := $(VENV)/.engine

# Installs what a lock file names into an environment. UV=/path/to/uv does it in a tenth of pip's time.
UV ?=
install = $(if $(UV),$(UV) pip install --python $(1)/bin/python,$(1)/bin/python -m pip install --disable-pip-version-check) \
	--quiet --require-hashes --only-binary :all: -r

# Set in many containers: each worker of the tests, and each program that they start, would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-quick test-long bench fuzz fuzz-engine sanitize soak calibration mutants docs wheel setup-wheel engine release version setup lint lint-rust lint-python lock clean

# Status 3 is a run that is done, but with degraded points, as its report says.
run: setup
	$(BIN)/hwdyno run || test $$? -eq 3

# More at once than the two processors of a small machine: many tests wait for kernels, peers and servers.
WORKERS ?= 5
# A failure is red at once; what is marked `timing` is tried again, alone, once (tests/retries.py).
test: setup
	cargo test --locked --quiet -- --test-threads=$(WORKERS)
	$(BIN)/python tests/retries.py -n $(WORKERS) --dist worksteal -m "not long"

# The quick half: every file is collected, and those run whose tests use programs of others, without long waits.
QUICK := $(wildcard tests/*/test_network*.py tests/*/test_peers_*.py) tests/measure/test_agent_programs.py tests/cli/test_command_line.py \
	tests/measure/test_training_bad_luck.py
test-quick: setup
	@mkdir -p target
	$(BIN)/python -m pytest --collect-only -qq >target/collected.txt || { tail -n 40 target/collected.txt; exit 1; }
	$(BIN)/python tests/retries.py -n $(WORKERS) --dist worksteal -m "not long and not slow and not browser and machine" $(QUICK)

# What is long runs whole; LONG="signals fuzz" chooses parts.
test-long: setup
	.ci/long $(LONG)

bench: setup
	cargo build --locked --release --quiet -p hwdyno-engine --bin hwdyno-engine
	$(BIN)/python -m benchmarks

# Each reader for so many seconds: ten minutes in all.
FUZZ_SECONDS ?= 14
FUZZ := target/fuzz-env
fuzz: setup $(FUZZ)/.atheris
	PYTHONPATH="$(CURDIR)/tests:$(CURDIR)/python:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
		$(FUZZ)/bin/python -m fuzz --seconds $(FUZZ_SECONDS)

# How often curves, capacities and intervals hold on simulated machines; docs/dev/calibration.md keeps the tables.
calibration: setup
	PYTHONPATH="$(CURDIR)/tests" $(BIN)/python -m calibration

# Which changes of single lines the tests notice, by mutmut: hours for all. MUTANTS="hwdyno.analysis.curves.knee*" tries some.
# mutmut wants sources under src/, so it works on a copy.
MUTANTS_ENV := target/mutants-env
MUTANTS_TREE := target/mutants
mutants: setup $(MUTANTS_ENV)/.installed
	rm -rf $(MUTANTS_TREE)/src && mkdir -p $(MUTANTS_TREE)
	cp -r pyproject.toml tests docs crates $(MUTANTS_TREE)/ && cp -r python $(MUTANTS_TREE)/src
	cd $(MUTANTS_TREE) && PYTHONPATH="$$($(CURDIR)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
		$(CURDIR)/$(MUTANTS_ENV)/bin/mutmut run $(MUTANTS)

$(MUTANTS_ENV)/.installed: $(VENV)/.python tests/mutmut.lock
	$(BIN)/python -m venv $(MUTANTS_ENV)
	$(call install,$(MUTANTS_ENV)) tests/mutmut.lock
	@touch $@

# The fuzzer stands apart from the locked environment: it has no wheel for every Python that hwdyno runs on.
$(FUZZ)/.atheris: $(VENV)/.python
	$(BIN)/python -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: atheris==3.0.0
	@touch $@

fuzz-engine: setup
	PYTHONPATH="$(CURDIR)/tests" $(BIN)/python -m fuzz.engine --seconds $(FUZZ_SECONDS)

# The site, built offline into target/site, with every link and anchor checked.
DOCS := target/docs-env
docs: setup $(DOCS)/.installed
	rm -rf target/site target/site-source
	$(BIN)/python docs/pages.py target/site-source
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs/site \
		--doctree-dir target/site-source/.doctrees target/site-source target/site

$(DOCS)/.installed: $(VENV)/.python docs/requirements.lock
	$(BIN)/python -m venv $(DOCS)
	$(call install,$(DOCS)) docs/requirements.lock
	@touch $@

# Wheels for x86_64 and aarch64 and the source distribution, in target/dist. Needs no setup and no .venv.
# MACHINES="--machine x86_64" builds one.
RELEASE := target/release-env
wheel: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m release wheels --out target/dist $(MACHINES)

# `make setup` with the wheel's engine, which `make wheel` then need not compile again.
setup-wheel: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m release setup

# The bare engines as static files, for hosts without Python.
engine: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m release engines --out target/dist

# All that a release has, from a clean tag: wheels twice, source, engines, SBOMs, audits and checksums.
# Offline: AUDIT="--offline --pypa CLONE --rustsec CLONE"
release: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m release all --out target/dist $(AUDIT)

# One commit and one tag: make version VERSION=0.2.0
version: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m release version --version "$(VERSION)"

$(RELEASE)/.installed: release/requirements.lock
	$(PYTHON) -m venv $(RELEASE)
	$(call install,$(RELEASE)) release/requirements.lock
	@touch $@

# Needs the nightly toolchain: rustup toolchain install nightly --component miri,rust-src
sanitize:
	tests/sanitizers/run.sh

SOAK_MINUTES ?= 120
soak: setup
	PYTHONPATH="$(CURDIR)/tests:$(CURDIR)/python" $(BIN)/python -m soak --minutes $(SOAK_MINUTES)

setup: $(ENGINE)

lint: lint-rust lint-python

lint-rust:
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	cargo metadata --locked --format-version 1 --manifest-path crates/engine/fuzz/Cargo.toml >/dev/null

lint-python: setup
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy

# Rewrites the lock files from pyproject.toml; needs uv.
# UPGRADE=--upgrade takes newer packages.
COMPILE := uv pip compile --quiet --universal --python-version 3.10 --generate-hashes $(UPGRADE)
lock:
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --group pyproject.toml:docs -o docs/requirements.lock
	$(COMPILE) --group pyproject.toml:mutants -o tests/mutmut.lock
	$(COMPILE) --group pyproject.toml:release -o release/requirements.lock

clean:
	rm -rf $(VENV) target

$(VENV)/.python: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "hwdyno needs Python 3.10 or newer; set PYTHON=/path/to/it" >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "hwdyno needs a Rust toolchain (cargo) to build its engine; see rustup.rs" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: install your system's python3-venv package" >&2; exit 1; }
	$(call install,$(VENV)) requirements.lock
	@touch $@

# The engine is rebuilt by itself when a Rust file changed.
BUILD_TOOLS ?= $(CURDIR)/$(BIN)
$(ENGINE): $(VENV)/.python pyproject.toml $(RUST)
	PATH="$(BUILD_TOOLS):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
