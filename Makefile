# SPDX-License-Identifier: GPL-2.0-only
# `make run` and `make test` need nothing set up beforehand; each installs what it lacks.
# Every step stands alone, so that one can be repeated while working on it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:

cargo := scripts/cargo
target := $(or $(CARGO_TARGET_DIR),target)
# One list of seeds for every run of the core under sanitizers: a failure can be repeated.
seeds := 1 2 3

.PHONY: help
help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.PHONY: run
run: ## install what is missing, build, advise an example host, reproduce the published experiments
	@scripts/install run
	$(cargo) build --locked --release -p steelyard
	$(target)/release/steelyard advise scenarios/first-look.toml --own credit@xen-4.20
	$(target)/release/steelyard reproduce all --out steelyard-report

.PHONY: test
test: test-fast lab-test ## install what is missing, run every test, in emulated machines with Linux and Xen too

.PHONY: test-fast
test-fast: ## the tests that need no emulated machine
	@scripts/install test
	@$(MAKE) --no-print-directory lint core-check sanitizers doc install-check cargo-test test-python-quick

.PHONY: lint
lint: ## formatting, warnings as errors, licenses, dependencies
	@echo "== lint"
	$(cargo) fmt --check
	clang-format --dry-run -Werror $$(git ls-files '*.[ch]')
	shellcheck $$(git grep -lE '^#!(/bin/(ba)?sh|/usr/bin/env bash)')
	scripts/check-spdx
	$(cargo) clippy --locked --workspace --all-targets -- -D warnings
	scripts/deny

.PHONY: core-check
core-check: ## the core compiles for user space, kernel and hypervisor, BPF
	@echo "== core-check"
	@command -v clang >/dev/null || scripts/install test
	@scripts/core-check

.PHONY: sanitizers
sanitizers: ## policies, engine, Xen's and Linux's hosts under adversaries and on threads, with the compiler's sanitizers; and whether adversaries see faults that hosts had
	@echo "== sanitizers"
	@mkdir -p $(target)
	while read -r name sanitizers source; do \
		gcc -std=gnu11 -O1 -g -fno-strict-aliasing -Wall -Wextra -Wno-unused-parameter \
			-Wdeclaration-after-statement -Werror \
			-fsanitize=$$sanitizers -fno-sanitize-recover=all -I. -Ipolicy -Ixen/tests/include \
			-Icrates/kvm/tests/model/include $$source -o $(target)/$$name; \
	done < <(printf '%s\n' 'adversary address,undefined policy/tests/adversary.c' \
		'model address,undefined xen/tests/model.c' \
		'linux-model address,undefined crates/kvm/tests/model/model.c' \
		'threads thread policy/tests/threads.c')
	printf '%s\n' 'adversary 1000000' 'model 500000' 'linux-model 200000' | \
		xargs -P 2 -I{} sh -c '$(target)/{} $(seeds)'
	setarch --addr-no-randomize $(target)/threads 20 $$(seq 30)
	policy/tests/mutate

.PHONY: doc
doc: ## the documentation of the crates, in target/doc
	@echo "== doc"
	RUSTDOCFLAGS=-Dwarnings $(cargo) doc --locked --workspace --no-deps

.PHONY: install-check
install-check: ## scripts/install beside package managers that fail in each way
	@echo "== install-check"
	@scripts/check-install

.PHONY: cargo-test
cargo-test: ## the tests of the crates
	@echo "== cargo-test"
	$(cargo) test --locked --workspace --no-fail-fast 2>&1 | awk ' \
		{ print; fflush() } \
		/^test result:/ { passed += $$4; failed += $$6; ignored += $$8 } \
		END { printf "%d passed, %d failed, %d ignored\n", passed, failed, ignored }'

.PHONY: test-python
test-python: ## the package for Python: a wheel, tested in a virtual environment made anew
	@scripts/install test
	@echo "== test-python"
	@scripts/test-python

.PHONY: test-python-quick
test-python-quick: ## its functions alone, without a wheel, Dask, Ray and pages
	@echo "== test-python-quick"
	@scripts/test-python quick

.PHONY: bench
bench: ## speed, instructions per event, memory, and SimSo beside it
	@scripts/install bench
	@scripts/bench

.PHONY: bench-live
bench-live: lab ## instructions per scheduling decision in the real hosts
	lab/bench-live

.PHONY: bench-peers
bench-peers: lab ## what VMs get and how long they wait in Linux under the policies, EEVDF, scx_bpfland and scx_lavd
	lab/bench-peers

.PHONY: bench-guest
bench-guest: lab ## what benchmarks in a guest say under the policies and EEVDF, beside a busy guest; as root
	lab/bench-guest

# Of each reader: seconds, and how many readers at a time. Or `make fuzz readers="perfetto set"`.
seconds := 60
jobs := 1
readers :=

.PHONY: fuzz
fuzz: ## every reader with random input, `seconds=60` each, `jobs=1` at a time; needs rustup's nightly
	@scripts/install run
	@scripts/fuzz $(seconds) $(jobs) $(readers)

.PHONY: fuzz-corpus
fuzz-corpus: ## what `make fuzz` found, as little of it as reaches as much, into fuzz/corpus
	@scripts/fuzz merge

# Miri runs Rust and no C: what does not call the policies, and the two C boundaries with Rust behind them.
.PHONY: miri
miri: ## undefined behaviour in Rust, as far as it can run without C; needs rustup's nightly with miri
	MIRIFLAGS=-Zmiri-disable-isolation scripts/miri

.PHONY: thread-sanitizer
thread-sanitizer: ## data races where there are threads; needs rustup's nightly with rust-src, and clang
	scripts/thread-sanitizer

.PHONY: xen
xen: ## Debian's Xen with the scheduler built in, and an xl that knows it by its own number, in target/xen
	@scripts/install xen-tools
	@xen/build
	@xen/tools/build

.PHONY: lab
lab: ## the test machines with Linux and Xen: fetch what they are made of, build what runs inside
	@scripts/install lab
	@xen/build
	@lab/xen/prepare
	@lab/linux/prepare

.PHONY: lab-test
lab-test: lab ## the tests inside the machines, and whether they conform to the simulator
	@echo "== lab-test"
	$(cargo) clippy --locked --workspace --exclude steelyard-fuzz --all-features --all-targets -- -D warnings
# Of the whole workspace: what is built for one package alone has other features, and would be built anew.
	$(cargo) test --locked --workspace --features steelyard-kvm/bpf,steelyard-monitor/bpf --lib --test verifier \
		--test observer --test observed
	$(cargo) build --locked --workspace --bin steelyard
	@lab/test

.PHONY: test-long
test-long: lab package-check ## what takes too long for every change: whether the machines give what experiments keep of them and conform under every policy, both kernels' verifiers, Xen 4.17, its toolstack, pause loops, Linux guests with benchmarks, the host's suspend, HVM guests, the packages, over a running scheduler too
	$(cargo) build --locked --release -p steelyard
	xen/build 4.20 pause-filter
	lab/measure --check
	$(cargo) build --locked -p steelyard
	lab/conform --check
	lab/linux/test Long
	packaging/check-live
	xen/build 4.17
	lab/xen/prepare 4.17
	scripts/install xen-tools
	xen/tools/build
	lab/xen/prepare
	lab/xen/test LongSeries LongToolstack LongPauses LongGuests LongSuspend LongChurn
	STEELYARD_EMULATOR=$$(lab/emulator) lab/xen/test LongDeviceModel

.PHONY: conform
conform: lab ## how faithful the simulator is: the same scenarios in simulator, Xen and Linux, into the docs
	$(cargo) build --locked -p steelyard
	lab/conform --write

.PHONY: pages
pages: ## what the documents show of experiments and governors, anew
	$(cargo) build --locked --release -p steelyard
	$(target)/release/steelyard reproduce all --out $(target)/pages >/dev/null
	experiments/write-pages $(target)/release/steelyard $(target)/pages
	docs/governors/draw $(target)/release/steelyard
	docs/draw-report $(target)/release/steelyard

.PHONY: sensitivity
sensitivity: ## what turns the verdicts of experiments: other values of what was not published, and mechanisms broken, into the docs
	$(cargo) build --locked --release -p steelyard
	experiments/sensitivity $(target)/release/steelyard
	experiments/mutate

.PHONY: site
site: ## the documents as a site that can be searched, in target/site
	@scripts/site

.PHONY: package
package: ## packages for Debian and for what has rpm, in target/package
	@scripts/install package
	@packaging/stage
	@packaging/deb
	@packaging/rpm

.PHONY: package-check
package-check: package ## installs, upgrades, removes and purges them in clean roots of Debian 12 and 13; as root, two to four minutes beside the build
	@echo "== package-check"
	@packaging/check

.PHONY: clean
clean: ## remove what was built
	$(cargo) clean
	rm -rf steelyard-report
