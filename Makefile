# The ways to build, test and run tune. `make help` lists them; plain `make` builds.
#
# Everything goes through here because cargo must find libtorch before it compiles anything, and this
# file is what fetches it (pinned, once per machine).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-builtin-rules

# --- What can be set, in the environment or as `make NAME=value` -----------------------------------

# Where fetched and built things live. Outside the checkout, so that all clones share them.
TUNE_CACHE ?= $(HOME)/.cache/tune
# Build scripts run elsewhere: a relative path would mislead them.
override TUNE_CACHE := $(abspath $(TUNE_CACHE))
export TUNE_CACHE

# One place for all clones: torch-sys alone takes minutes to compile, its artefacts fit every clone.
CARGO_TARGET_DIR ?= $(TUNE_CACHE)/target
export CARGO_TARGET_DIR

# A libtorch 2.11.0 of one's own (site-packages/torch, for one); set but empty means unset.
OWN_LIBTORCH := $(TUNE_CACHE)/libtorch-2.11.0/torch
ifeq ($(strip $(LIBTORCH)),)
override LIBTORCH := $(OWN_LIBTORCH)
else
override LIBTORCH := $(abspath $(LIBTORCH))
endif
export LIBTORCH

PYTHON ?= python3
CARGO ?= cargo
PREFIX ?= $(HOME)/.local

# For which machines `make wheel` and `make dist` build: this one's architecture, or aarch64.
HOST_ARCH := $(shell uname -m)
ARCH ?= $(HOST_ARCH)
# Where they put it, and the libtorch that they link.
ifeq ($(ARCH),$(HOST_ARCH))
WHEELS ?= $(CARGO_TARGET_DIR)/dist
LIBTORCH_OF_ARCH := $(LIBTORCH)
else
WHEELS ?= $(CARGO_TARGET_DIR)/dist/$(ARCH)
LIBTORCH_OF_ARCH := $(TUNE_CACHE)/libtorch-2.11.0-$(ARCH)/torch
endif

# Trials in parallel, and arguments to add to any of the runs below (ARGS="--timeout 2h").
PAR ?= 2
ARGS ?=

# $(call unless-set,NAME,arguments): the arguments, unless NAME is set. An HPO_* variable reaches tune
# through the environment, where an argument on the command line would overrule it.
unless-set = $(if $(strip $($(1))),,$(2))

# The small study of `make run`.
RUN_ARGS ?= criteria --study quickstart --trials 5 --parallel $(PAR)

# --- Derived -----------------------------------------------------------------------------------------

TUNE := $(CARGO_TARGET_DIR)/release/tune
# One that runs on this machine, where TUNE is for others.
TUNE_HERE ?= $(TUNE)
# What it loads where a trial needs libtorch.
LIBRARY := libtune_torch.so
# The shipped tasks. With the default PREFIX it is where tune looks when it is started outside a project.
DATA_DIR := $(PREFIX)/share/tune
# A set is complete when the copy of its pins that it carries is ours; cmp answers in a millisecond.
unless-complete = cmp -s .ci/pins/$(1) "$(TUNE_CACHE)/$(2)/.pins-$(1)" || $(PYTHON) .ci/fetch.py $(1)

.PHONY: build run test test-all soak fuzz check check-exports bench search-bench bench-search-cost bench-night bench-recovery bench-utilisation speed-bench \
        install image wheel test-wheel dist test-dist put-in-place uninstall clean help \
        fetch libtorch libtorch-of-arch libtorch-cuda model data detection-data \
        this-clone fmt clippy doc msrv test-setup test-rust test-without-libtorch standin test-gpu-standin test-web test-web-if-there test-python test-python-callbacks test-cluster test-partition deny lint-scripts semver say-no-server \
        tune-criteria tune-criteria-max tune-criteria-supermax

##@ Build and run

build: libtorch this-clone ## Build the release binary (the default)
	$(CARGO) build --release --locked

run: build model ## Fetch what is missing, build, search 5 trials (RUN_ARGS)
	"$(TUNE)" $(RUN_ARGS) $(ARGS)

install: build ## Install to PREFIX (default ~/.local); runs from any directory
	@$(MAKE) --no-print-directory put-in-place

# A release is laid out by it, too.
put-in-place:
	install -D -m 755 "$(TUNE)" "$(DESTDIR)$(PREFIX)/bin/tune"
	install -D -m 755 "$(dir $(TUNE))$(LIBRARY)" "$(DESTDIR)$(PREFIX)/lib/tune/$(LIBRARY)"
	@# What shells complete, and the manual pages.
	@for at in bash:bash-completion/completions/tune zsh:zsh/site-functions/_tune fish:fish/vendor_completions.d/tune.fish; do \
	    file="$(DESTDIR)$(PREFIX)/share/$${at#*:}"; \
	    mkdir -p "$$(dirname "$$file")" && "$(TUNE_HERE)" completions "$${at%%:*}" > "$$file"; \
	done
	@"$(TUNE_HERE)" man "$(DESTDIR)$(PREFIX)/share/man/man1"
	@# What the user has edited stays; a newer version of it is only pointed out.
	@find configs -type f | while IFS= read -r file; do \
	    target="$(DESTDIR)$(DATA_DIR)/$$file"; \
	    if [ ! -e "$$target" ]; then install -D -m 644 "$$file" "$$target"; \
	    elif ! cmp -s "$$file" "$$target"; then echo "kept $$target, which differs from $$file"; fi; \
	done
	@[[ "$(DATA_DIR)" -ef "$(HOME)/.local/share/tune" ]] || \
	    echo "the shipped tasks are in $(DATA_DIR)/configs; to use them, copy configs to a directory of your own and run tune there"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "note: $(PREFIX)/bin is not on your PATH" ;; esac

image: ## Build a container image by podman or docker (docs/containers.md)
	@builder="$$(command -v podman || command -v docker)" || { echo "neither podman nor docker is there to build an image" >&2; exit 1; }; \
	"$$builder" build -f docs/examples/container/Containerfile -t tune $(ARGS) .

wheel: libtorch-of-arch this-clone ## Build the wheel for Python into $(CARGO_TARGET_DIR)/dist (WHEELS=DIRECTORY, ARCH=aarch64)
	LIBTORCH="$(LIBTORCH_OF_ARCH)" src/python/build.sh "$(WHEELS)" $(ARCH)

test-wheel: wheel ## Install it where neither Rust nor a compiler is, and use it
	tests/python/wheel.sh "$(WHEELS)"/tune-*.whl

dist: libtorch-of-arch this-clone ## Make a release there: wheel, archive, SBOMs, licences, checksums (ARCH=aarch64)
	LIBTORCH="$(LIBTORCH_OF_ARCH)" src/dist/dist.sh "$(WHEELS)" $(ARCH)

test-dist: libtorch ## Make it twice, in two clones, compare, and use it (two release builds)
	tests/dist.sh

uninstall: ## Remove the installed binary; configuration, studies and caches stay
	rm -f "$(DESTDIR)$(PREFIX)/bin/tune" "$(DESTDIR)$(PREFIX)/lib/tune/$(LIBRARY)"
	rm -f "$(DESTDIR)$(PREFIX)"/share/{bash-completion/completions/tune,zsh/site-functions/_tune,fish/vendor_completions.d/tune.fish}
	rm -f "$(DESTDIR)$(PREFIX)"/share/man/man1/tune{,-*}.1

clean: ## Remove the project's own build results; dependencies and fetched files stay
	$(CARGO) clean --workspace
	$(CARGO) clean --workspace --release

##@ Search (N_TRIALS_CRITERIA, PAR, ARGS, HPO_EPOCHS, HPO_PATIENCE, HPO_MODEL_CHOICES, ...)

tune-criteria: build model ## Study "criteria": 100 trials
	"$(TUNE)" criteria --trials $(or $(N_TRIALS_CRITERIA),100) --parallel $(PAR) $(ARGS)

tune-criteria-max: build model ## Study "criteria-max": 800 trials
	"$(TUNE)" criteria --study criteria-max --trials $(or $(N_TRIALS_CRITERIA),800) --parallel $(PAR) $(ARGS)

tune-criteria-supermax: build model ## Study "criteria-supermax": 5000 trials, 100 epochs, patience 20
	"$(TUNE)" criteria --study criteria-supermax --trials $(or $(N_TRIALS_CRITERIA),5000) --parallel $(PAR) \
	    $(call unless-set,HPO_EPOCHS,--epochs 100) $(call unless-set,HPO_PATIENCE,--patience 20) $(ARGS)

##@ Test

# cargo test comes last: its summary is what one looks for at the end of the output.
test: fmt lint-scripts deny test-setup clippy msrv doc test-web-if-there test-rust ## Format, lints, documentation, all tests

test-all: export TUNE_OPTUNA_VERSIONS := 5.0.0 4.9.0 3.6.2
test-all: export TUNE_OPTUNA_FULL := 1
test-all: export TUNE_OPTUNA_SECONDS := 600
test-all: export TUNE_KILLS := 200
test-all: export TUNE_FAULT_TRIALS := 5000
test-all: TEST_ARGS := --include-ignored
test-all: test test-python ## The same with the slow tests: soak, all supported versions of Optuna

# One of its checks is a test of the library that wants a GPU.
test-gpu-standin: build standin ## Run tests/gpu.sh on a CUDA runtime without a GPU
	export TUNE_TESTS=$$($(CARGO) test --locked --package tune-torch --lib --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$$/\1/p'); \
	tests/standin/gpu.sh "$(TUNE)"

test-web: debug-tune ## Look at pages of `tune report` in Chromium: console, requests, widths, keyboard, axe-core
	tests/web.sh "$(CARGO_TARGET_DIR)/debug/tune" $(PICTURES)

test-python: debug-tune ## The Python package: its types, its sampler by Optuna's own tests, frames of pandas and polars
	tests/python/packages/run.sh "$(CARGO_TARGET_DIR)/debug/tune"

test-python-callbacks: debug-tune ## Its callbacks in transformers, Lightning, Keras, XGBoost, LightGBM, CatBoost; the notebook (fetches 3 GB)
	tests/python/packages/run.sh "$(CARGO_TARGET_DIR)/debug/tune" callbacks

# As root. HyperQueue's environment lies where the jobs' user may read it.
test-cluster: debug-tune ## `tune submit` on a real Slurm cluster and HyperQueue (Debian: slurm-wlm munge postgresql)
	python3 tests/cluster.py "$(CARGO_TARGET_DIR)/debug/tune" "$$(XDG_CACHE_HOME=/var/tmp sh tests/venv.sh hyperqueue-1 hyperqueue hyperqueue==0.27.0)"

# As root.
test-partition: debug-tune ## Four nodes in network namespaces: 200 cuts, losses, kills, restarts (Debian: iproute2 nftables postgresql)
	python3 tests/partition.py "$(CARGO_TARGET_DIR)/debug/tune" \
	    "$$(tests/optuna/venv.sh 5.0.0)" 200

# The same in `make test`, where Chromium is there; CI installs it.
test-web-if-there: debug-tune
	tests/web.sh --if-there "$(CARGO_TARGET_DIR)/debug/tune"

soak: libtorch ## 1000 random kill -9s, 20000 trials with a tenth of them hit, all attacks, the drill ten times
	TUNE_KILLS=1000 TUNE_FAULT_TRIALS=20000 TUNE_ATTACK_SEED=all TUNE_ATTACKS=20 $(CARGO) test --release --locked --package tune \
	    --test program -- chaos:: attack_kills:: attack_places:: attack_files:: attack_database:: --nocapture
	$(CARGO) build --release --locked
	for seed in $$(seq 10); do "$(TUNE)" drill --seed $$seed --quiet; done

# The readers are in tests/fuzz/src/readers, which names them. What a run finds is kept and is where the next one begins.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= pickle archive safetensors model-config tokenizer vocabulary rows log spool config ask-tell
FUZZ_DIR := $(TUNE_CACHE)/fuzz
# What libFuzzer wants to know of a program, as cargo-fuzz has it; a stable Rust has no sanitizers to add.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1

fuzz: ## Look for input that breaks a reader, guided by what is covered: 10 minutes each (FUZZ_SECONDS, FUZZ_TARGETS)
	@# The versions that tune itself is built from.
	cp Cargo.lock tests/fuzz/Cargo.lock
	host=$$(rustc -vV | sed -n 's/^host: //p'); \
	(cd tests/fuzz && CARGO_TARGET_DIR="$(FUZZ_DIR)/target" RUSTFLAGS="$(FUZZ_FLAGS)" \
	    $(CARGO) build --release --target $$host); \
	for target in $(FUZZ_TARGETS); do \
	    export FUZZ_TARGET=$$target FUZZ_CORPUS="$(FUZZ_DIR)/corpus/$$target"; \
	    "$(FUZZ_DIR)/target/$$host/release/tune-fuzz" "$$FUZZ_CORPUS" -artifact_prefix="$(FUZZ_DIR)/$$target-" \
	        -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -max_len=20000 -print_final_stats=1 \
	        || broken="$${broken:-} $$target"; \
	done; \
	[[ -z $${broken:-} ]] || { echo "broken:$$broken; what broke them is kept in $(FUZZ_DIR)" >&2; exit 1; }

check: DENY := advisories bans licenses sources
check: test ## What must pass before a commit: test, and known defects of dependencies where cargo-deny is installed

# The released version; before the first release, a commit that BASELINE names.
BASELINE ?= $(shell git describe --tags --abbrev=0 2>/dev/null)

semver: ## Whether the search library may keep its version number (needs cargo-semver-checks; BASELINE=COMMIT)
	@test -n "$(BASELINE)" || { echo "nothing is released yet: name a commit to compare with, BASELINE=COMMIT" >&2; exit 2; }
	$(CARGO) semver-checks --package tune-search --baseline-rev "$(BASELINE)"

bench: libtorch ## Run the benchmarks
	$(CARGO) bench --locked

# Runs what is missing, so that a stopped one goes on; SHOWN_AS is the binary, as both programs take it.
search-bench: SHOWN_AS = --tune "$(TUNE):tune"
search-bench: build ## Compare the search with Optuna, SMAC3 and Hyperopt (a night; ARGS="--seeds 3")
	$(PYTHON) -B benches/search/run.py $(SHOWN_AS) --quiet $(ARGS)
	$(PYTHON) -B benches/search/report.py $(SHOWN_AS) $(ARGS)

bench-search-cost: build ## What the search costs, and a memory limit, beside Optuna (an hour or two)
	$(PYTHON) -B benches/search/cost.py --tune "$(TUNE)"
	$(PYTHON) -B benches/search/limit.py --tune "$(TUNE)"

bench-recovery: build model ## What a death and a replacement cost, with and without a spare worker (ARGS="--drift 200")
	$(PYTHON) -B benches/recovery/recovery.py --tune "$(TUNE)" --task configs/criteria.toml \
	    --set train.freeze_encoder_layers=6 --set train.epochs=6 --set train.patience=0 --ready 1 $(ARGS)

bench-night: build standin ## The old night, replayed beside tune on a card without a GPU (an hour; ARGS="--trials 100")
	$(PYTHON) -B benches/night/run.py --tune "$(TUNE)" --standin "$$(tests/standin/python.sh)" $(ARGS)

bench-utilisation: build model ## How busy the device is with 1, 2 and as many trials at a time as fit (ARGS="--device cuda:0")
	$(PYTHON) -B benches/recovery/utilisation.py --tune "$(TUNE)" --task configs/criteria.toml \
	    --set train.freeze_encoder_layers=4 --set train.epochs=1 --set train.patience=0 $(ARGS)

check-exports: build ## Compare exports with transformers (PYTHON must have torch and transformers)
	$(PYTHON) -B tests/reference/check_exports.py "$(TUNE)"

# The comparison needs PyTorch, which is fetched once (3 GB) unless ARGS names an interpreter: --python python3.
speed-bench: build model ## Compare the speed of training with PyTorch (ARGS="--device cuda:0 --models bert-base")
	$(PYTHON) -B benches/speed/run.py --tune "$(TUNE)" $(ARGS)

# Cargo tells what was built in one clone from another's by the time alone: sources that another clone was built from after
# they were written would be taken for built. For each crate that it documents, rustdoc reads the pages of all that are there:
# another clone's are removed.
this-clone:
	@mkdir -p "$(CARGO_TARGET_DIR)"; \
	if [[ $$(cat "$(CARGO_TARGET_DIR)/.clone" 2>/dev/null || true) != "$(CURDIR)" ]]; then \
	    find src tests benches -type f -exec touch {} +; \
	    rm -rf "$(CARGO_TARGET_DIR)/doc"; \
	    printf '%s\n' "$(CURDIR)" > "$(CARGO_TARGET_DIR)/.clone"; \
	fi

fmt:
	$(CARGO) fmt --all --check

clippy: libtorch this-clone
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: libtorch this-clone
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Parallel tests that each train with all cores are many times slower than with one.
# Tests with a PostgreSQL server start one of the machine's own (tests/postgres.sh); CI installs it.
NO_SERVER := $(if $(wildcard /usr/lib/postgresql/*/bin/initdb),,--skip on_a_server --skip postgres::)
say-no-server:
	@$(if $(NO_SERVER),echo "PostgreSQL is not installed: studies on a server are not tested",:)

test-rust: libtorch model standin this-clone say-no-server
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(CARGO) test --workspace --locked --no-fail-fast -- $(TEST_ARGS) $(NO_SERVER)

# The program that tests run. The whole workspace decides which features its crates have: so they are compiled once for all.
debug-tune: this-clone
	$(CARGO) test --workspace --locked --test program --no-run

# The long ones, which are the same with libtorch: `make test` runs them.
ALIKE := $(foreach module,attack_ bisect:: chaos:: children:: docs_run:: export_trials:: leaving:: on_a_server optuna:: postgres:: \
    probe:: search_end:: storage:: supervision:: track::,--skip $(module))

# What this builds serves the other tests, too. A library of an earlier build may lie beside it.
test-without-libtorch: export LIBTORCH :=
test-without-libtorch: export TUNE_TORCH_LIBRARY := none
test-without-libtorch: model this-clone ## Build the program without libtorch, and test it
	$(CARGO) test --workspace --locked --test program --no-fail-fast -- $(TEST_ARGS) $(ALIKE)

# A CUDA runtime without a GPU, on which the tests run libtorch's CUDA build (tests/standin/README.md).
standin: libtorch
	@$(call unless-complete,cuda-headers,cuda-headers-13.0)
	@$(PYTHON) -B tests/standin/build.py "$(LIBTORCH)" "$(TUNE_CACHE)/cuda-headers-13.0/nvidia/cu13/include" "$(TUNE_CACHE)/standin"

test-setup:
	$(PYTHON) -B -m unittest discover --start-directory tests/setup

# Not everybody has these three; .ci/run installs the first two. Known defects (advisories) are fetched from the network.
DENY ?= bans licenses sources
deny:
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked --workspace check $(DENY); \
	 else echo "cargo-deny is not installed: licences and dependencies are not checked"; fi

# The oldest Rust that Cargo.toml promises, where rustup has it.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml)
msrv: libtorch this-clone
	@if toolchain=$$(rustup toolchain list 2>/dev/null | grep -o '^$(MSRV)[^ ]*'); then \
	    RUSTUP_TOOLCHAIN=$$toolchain CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/msrv" $(CARGO) check --workspace --locked; \
	 else echo "Rust $(MSRV) is not installed: whether it can build tune is not checked"; fi

lint-scripts:
	@if command -v shellcheck >/dev/null; then git ls-files -z '*.sh' .ci/run ':!docs/examples' | xargs -0 shellcheck; \
	    git ls-files -z 'docs/examples/*.sh' | xargs -0 shellcheck --shell=sh; \
	 else echo "shellcheck is not installed: shell scripts are not checked"; fi

##@ Fetch (docs/install.md)

fetch: libtorch model ## Fetch libtorch and the model

libtorch: ## Fetch libtorch 2.11.0, or check the one that LIBTORCH names
ifeq ($(LIBTORCH),$(OWN_LIBTORCH))
	@$(call unless-complete,libtorch,libtorch-2.11.0)
else
	@$(PYTHON) .ci/fetch.py check "$(LIBTORCH)"
endif

# What is linked for other machines is PyTorch's for these.
ifeq ($(ARCH),$(HOST_ARCH))
libtorch-of-arch: libtorch
else
libtorch-of-arch:
	@[[ -f ".ci/pins/libtorch-$(ARCH)" ]] || { echo "ARCH=$(ARCH) is unknown: x86_64 or aarch64" >&2; exit 1; }
	@$(call unless-complete,libtorch-$(ARCH),libtorch-2.11.0-$(ARCH))
endif

libtorch-cuda: libtorch ## Fetch the CUDA libraries for NVIDIA GPUs (2.0 GB)
ifeq ($(LIBTORCH),$(OWN_LIBTORCH))
	@$(call unless-complete,libtorch-cuda,libtorch-2.11.0)
else
	@echo "LIBTORCH=$(LIBTORCH) must bring its own CUDA libraries; unset it to have them fetched" >&2; exit 1
endif

model: ## Fetch the MiniLM encoder (84 MB)
	@$(call unless-complete,model,models/minilm)

data: ## Regenerate configs/data/reviews.csv from its source
	$(PYTHON) .ci/fetch.py reviews

# Where tasks find it whatever directory they are in, as with the models.
detection-data: ## Render 600 pages with words for text detection (needs fonts-dejavu-core; ARGS="--pages 2000 --seed 1")
	$(CARGO) run --release --locked --package tune-detection --example pages -- \
	    "$(TUNE_CACHE)/detection" configs/data/reviews.csv $(ARGS)

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
	    /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' Makefile
